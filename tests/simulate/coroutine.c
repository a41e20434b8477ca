/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns stacks, the copies of thread-local memory, and the switch from one to another. */
#include "coroutine.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES (1024u * 1024)
#else
/* the sanitizer knows one stack for each thread, unless it is told */
#define __sanitizer_start_switch_fiber(kept, bottom, size)  ((void)(kept))
#define __sanitizer_finish_switch_fiber(kept, bottom, size) ((void)(kept))
#define STACK_BYTES					    (256u * 1024)
#endif

#define LOCALS_MAX 65536
#define GUARD	   4096u

static struct coroutine *running; /* NULL: at home */

static struct {
	void *place[5];
	void *fake_stack;
	const void *stack; /* as the sanitizer calls it */
	size_t stack_size;
} home;

/* ---- the thread-local memory of this program, of which each coroutine has its own */

static struct {
	char *place;	   /* where the one that runs finds it */
	const char *image; /* of a new thread; zeros behind it */
	size_t image_size, size;
} locals;

static int find_locals(struct dl_phdr_info *info, size_t size, void *unused)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_TLS)
			continue;
		locals.place = info->dlpi_tls_data;
		locals.image = (const char *)(info->dlpi_addr + header->p_vaddr);
		locals.image_size = header->p_filesz;
		locals.size = header->p_memsz;
	}
	if (locals.size > LOCALS_MAX) {
		fprintf(stderr, "simulate: %zu bytes of thread-local memory\n", locals.size);
		exit(2);
	}
	return 1; /* the first is this program */
}

/* With room for the thread-local memory behind it. */
static void *reserve_stack(void)
{
	char *stack = mmap(NULL, GUARD + STACK_BYTES + locals.size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE) != 0) {
		perror("simulate: a stack");
		exit(2);
	}
	return stack;
}

void coroutine_make(struct coroutine *c, void (*main)(void))
{
	if (!locals.size)
		dl_iterate_phdr(find_locals, NULL);
	char *stack = c->stack ? c->stack : reserve_stack();
	char *own = stack + GUARD + STACK_BYTES;

	memcpy(own, locals.image, locals.image_size);
	memset(own + locals.image_size, 0, locals.size - locals.image_size);
	*c = (struct coroutine){ .main = main, .stack = stack, .locals = own };
}

/* ---- switching */

static void begin(void)
{
	/* the first of all comes from home, others from anywhere */
	__sanitizer_finish_switch_fiber(NULL, home.stack ? NULL : &home.stack,
					home.stack ? NULL : &home.stack_size);
	running->main();
	abort();
}

/* Only the first time by setcontext(), which asks the kernel for the mask of signals. */
static _Noreturn void enter(struct coroutine *c)
{
	static ucontext_t start;

	if (c->begun)
		__builtin_longjmp(c->place, 1);
	c->begun = true;
	getcontext(&start);
	start.uc_stack.ss_sp = c->stack + GUARD;
	start.uc_stack.ss_size = STACK_BYTES;
	makecontext(&start, begin, 0);
	setcontext(&start);
	abort();
}

static _Noreturn void go_home(void)
{
	__builtin_longjmp(home.place, 1);
}

void coroutine_go_on(struct coroutine *self, bool ended, struct coroutine *next)
{
	self->error = errno;
	memcpy(self->locals, locals.place, locals.size);
	if (next)
		memcpy(locals.place, next->locals, locals.size);
	running = next;
	__sanitizer_start_switch_fiber(ended ? NULL : &self->fake_stack,
				       next ? next->stack + GUARD : home.stack,
				       next ? STACK_BYTES : home.stack_size);
	if (__builtin_setjmp(self->place) == 0) {
		if (next)
			enter(next);
		go_home();
	}
	/* here again */
	self = running;
	__sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
	errno = self->error;
}

void coroutine_run(struct coroutine *first)
{
	static char kept[LOCALS_MAX];

	memcpy(kept, locals.place, locals.size);
	memcpy(locals.place, first->locals, locals.size);
	running = first;
	__sanitizer_start_switch_fiber(&home.fake_stack, first->stack + GUARD, STACK_BYTES);
	if (__builtin_setjmp(home.place) == 0)
		enter(running);
	__sanitizer_finish_switch_fiber(home.fake_stack, NULL, NULL);
	memcpy(locals.place, kept, locals.size);
}
