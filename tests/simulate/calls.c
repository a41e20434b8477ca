/* SPDX-License-Identifier: BSD-3-Clause */
#include "calls.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"
#include "pipe.h"

#define DESCRIPTORS_MAX	 512
#define FIRST_DESCRIPTOR (CALLS_DESCRIPTORS_END - DESCRIPTORS_MAX - 1) /* of this machine, apart from the real ones */
#define TRY_NS		 20000 /* how long it takes at most to find a lock taken */
#define FIRST_SELF	 4096 /* what pthread_self() gives, apart from anything real */

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __real_sched_yield(void);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
ssize_t __real_getrandom(void *out, size_t length, unsigned flags);
FILE *__real_fopen(const char *path, const char *mode);
int __real_close(int fd);
ssize_t __real_write(int fd, const void *bytes, size_t length);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
pthread_t __real_pthread_self(void);
size_t __real_tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most, uint64_t time);
size_t __real_tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most);
void __real_tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_sched_yield(void);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
ssize_t __wrap_getrandom(void *out, size_t length, unsigned flags);
FILE *__wrap_fopen(const char *path, const char *mode);
int __wrap_close(int fd);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before);
int __wrap_eventfd(unsigned count, int flags);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);
pthread_t __wrap_pthread_self(void);
size_t __wrap_tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most, uint64_t time);
size_t __wrap_tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most);
void __wrap_tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes);

static uint64_t nanoseconds(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* A mistake of the library that no machine would forgive. */
static void accuse(const char *what)
{
	fflush(stdout);
	fprintf(stderr, "simulate: process %d %s\n", machine_process(), what);
	abort();
}

/* ---- the clock and the cores */

static int cores;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	if (!machine_inside())
		return __real_clock_gettime(clock, out);
	/* the time of day is for the log alone, which must change nothing */
	const uint64_t now = clock == CLOCK_REALTIME ? machine_now() : machine_read_clock();

	*out = (struct timespec){ (time_t)(now / 1000000000u), (long)(now % 1000000000u) };
	return 0;
}

int __wrap_sched_yield(void)
{
	if (!machine_inside())
		return __real_sched_yield();
	machine_yield(true);
	return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (!machine_inside())
		return __real_sched_getaffinity(pid, size, set);
	memset(set, 0, size);
	for (int core = 0; core < cores; core++)
		CPU_SET(core, set);
	return 0;
}

ssize_t __wrap_getrandom(void *out, size_t length, unsigned flags)
{
	if (!machine_inside())
		return __real_getrandom(out, length, flags);
	for (size_t i = 0; i < length; i++)
		((uint8_t *)out)[i] = (uint8_t)random_next(machine_random());
	return (ssize_t)length;
}

/* This machine has no files: nothing may depend on those of the real one. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (!machine_inside())
		return __real_fopen(path, mode);
	errno = ENOENT;
	return NULL;
}

/* ---- descriptors: timers and events that can be polled, and sets of them */

enum kind { NOTHING, TIMER, EVENT, SET };

struct descriptor {
	enum kind kind;
	uint64_t at;	/* when it is readable from; 0: it is not */
	/* as a member of a set */
	int set; /* its descriptor, 0: of none */
	struct epoll_event wanted;
	bool told; /* by edges: the set has told of it since it became readable */
};

static struct descriptor descriptors[DESCRIPTORS_MAX];
static int descriptors_end; /* above all that are open */

static struct descriptor *descriptor_of(int fd, enum kind kind)
{
	const int i = fd - FIRST_DESCRIPTOR;

	return i >= 0 && i < DESCRIPTORS_MAX && descriptors[i].kind == kind ? &descriptors[i] : NULL;
}

static int open_descriptor(enum kind kind)
{
	for (int i = 0; i < DESCRIPTORS_MAX; i++) {
		if (descriptors[i].kind)
			continue;
		descriptors[i] = (struct descriptor){ .kind = kind };
		if (i >= descriptors_end)
			descriptors_end = i + 1;
		return FIRST_DESCRIPTOR + i;
	}
	errno = EMFILE;
	return -1;
}

/* From now on, or then, it is readable; it was not before. */
static void set_readable(struct descriptor *descriptor, uint64_t at)
{
	machine_stir();
	descriptor->at = at;
	descriptor->told = false;
}

int __wrap_timerfd_create(int clock, int flags)
{
	return open_descriptor(TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
	struct descriptor *timer = descriptor_of(fd, TIMER);

	if (!timer)
		accuse("sets a timer that is not open");
	assert(flags == TFD_TIMER_ABSTIME && !before);
	set_readable(timer, nanoseconds(&when->it_value));
	return 0;
}

int __wrap_eventfd(unsigned count, int flags)
{
	const int fd = open_descriptor(EVENT);

	if (fd >= 0 && count > 0)
		set_readable(descriptor_of(fd, EVENT), 1);
	return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
	struct descriptor *event = descriptor_of(fd, EVENT);

	if (!event)
		return __real_write(fd, bytes, length);
	set_readable(event, 1);
	return (ssize_t)length;
}

int __wrap_close(int fd)
{
	const int i = fd - FIRST_DESCRIPTOR;

	if (i < 0 || i >= DESCRIPTORS_MAX)
		return __real_close(fd);
	if (!descriptors[i].kind)
		accuse("closes a descriptor that is not open");
	descriptors[i].kind = NOTHING;
	while (descriptors_end > 0 && !descriptors[descriptors_end - 1].kind)
		descriptors_end--;
	return 0;
}

struct polled {
	const struct pollfd *fds;
	nfds_t n;
};

/* When the first of them is readable, as they are set now. */
static uint64_t when_readable(const void *argument)
{
	const struct polled *polled = argument;
	uint64_t next = FOREVER;

	for (nfds_t i = 0; i < polled->n; i++) {
		const struct descriptor *descriptor = descriptor_of(polled->fds[i].fd, TIMER);

		if (!descriptor)
			descriptor = descriptor_of(polled->fds[i].fd, EVENT);
		if (!descriptor)
			accuse("polls a descriptor that is not open");
		if (descriptor->at > 0 && descriptor->at < next)
			next = descriptor->at;
	}
	return next;
}

static uint64_t end_of_wait(int timeout_ms)
{
	return timeout_ms < 0 ? FOREVER : machine_now() + (uint64_t)timeout_ms * 1000000u;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	const struct polled polled = { fds, n };
	int count = 0;

	if (!machine_inside())
		return __real_poll(fds, n, timeout_ms);
	machine_wait(when_readable, &polled, end_of_wait(timeout_ms), true);
	for (nfds_t i = 0; i < n; i++) {
		const struct polled one = { &fds[i], 1 };

		fds[i].revents = when_readable(&one) <= machine_now() ? POLLIN : 0;
		count += fds[i].revents != 0;
	}
	return count;
}

int __wrap_epoll_create1(int flags)
{
	return open_descriptor(SET);
}

int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	struct descriptor *member = descriptor_of(fd, TIMER) ? descriptor_of(fd, TIMER) : descriptor_of(fd, EVENT);

	if (!descriptor_of(set, SET) || !member)
		accuse("changes a set of descriptors that are not open");
	assert(operation == EPOLL_CTL_ADD || operation == EPOLL_CTL_DEL);
	member->set = operation == EPOLL_CTL_ADD ? set : 0;
	member->told = false;
	if (event)
		member->wanted = *event;
	return 0;
}

static uint64_t when_told(const void *set)
{
	uint64_t next = FOREVER;

	for (int i = 0; i < descriptors_end; i++) {
		const struct descriptor *member = &descriptors[i];

		if (member->kind && member->set == *(const int *)set && member->at > 0 && member->at < next &&
		    !(member->told && member->wanted.events & EPOLLET))
			next = member->at;
	}
	return next;
}

int __wrap_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms)
{
	int count = 0;

	machine_wait(when_told, &set, end_of_wait(timeout_ms), true);
	for (int i = 0; i < descriptors_end && count < most; i++) {
		struct descriptor *member = &descriptors[i];

		if (!member->kind || member->set != set || member->at == 0 || member->at > machine_now() ||
		    (member->told && member->wanted.events & EPOLLET))
			continue;
		member->told = true;
		events[count++] = member->wanted;
	}
	return count;
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
	return __wrap_poll(fds, n, timeout_ms);
}

/* ---- locks. A mutex's memory holds who has it: 0 is nobody, as in one that is initialised statically. */

struct lock {
	int holder;  /* 1 + task; -1: who is no task */
	int process; /* that has made it */
};
_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits into a mutex");

extern char __executable_start[], __data_start[], _end[];

/* Of the whole program and so of all processes, which in truth have one each. Nobody else runs while one is held, if
 * its holder calls nothing. */
static bool is_of_all(const void *mutex)
{
	return (const char *)mutex >= __data_start && (const char *)mutex < _end;
}

static int self(void)
{
	return machine_inside() ? 1 + machine_task() : -1;
}

static bool is_free(const void *mutex)
{
	return ((const struct lock *)mutex)->holder == 0;
}

static uint64_t when_free(const void *mutex)
{
	return is_free(mutex) ? 0 : FOREVER;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
	*(struct lock *)mutex = (struct lock){ .process = machine_process() };
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	if (!is_free(mutex))
		accuse("destroys a mutex that somebody holds");
	return 0;
}

static void take(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	while (!is_free(lock)) {
		if (!machine_inside() || lock->holder == self())
			accuse("takes a mutex that it holds");
		machine_wait(when_free, lock, FOREVER, false);
	}
	lock->holder = self();
	if (machine_inside())
		machine_holds(1, is_of_all(mutex));
}

static void give_back(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	if (lock->holder != self())
		accuse("gives back a mutex that it does not hold");
	lock->holder = 0;
	if (machine_inside())
		machine_holds(-1, is_of_all(mutex));
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (machine_inside() && !is_of_all(mutex))
		machine_yield(false);
	take(mutex);
	return 0;
}

/* The library's thread for all communicators of a process is here one for all processes: one that does not run must not be
 * served by it. Who tries in vain tries again, so that takes a while. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	if (is_free(mutex) && (!machine_inside() || machine_runs(((const struct lock *)mutex)->process))) {
		take(mutex);
		return 0;
	}
	if (machine_inside()) {
		machine_pass(TRY_NS);
		machine_yield(true);
	}
	return EBUSY;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	give_back(mutex);
	if (machine_inside() && !is_of_all(mutex))
		machine_yield(false);
	return 0;
}

/* ---- conditions */

struct waiter {
	struct waiter *next;
	const pthread_cond_t *cond;
	bool called;
};

static struct waiter *waiters;

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
	for (const struct waiter *waiter = waiters; waiter; waiter = waiter->next)
		if (waiter->cond == cond && !waiter->called)
			accuse("destroys a condition that somebody waits for");
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	uint64_t count = 0;

	machine_stir();
	for (const struct waiter *waiter = waiters; waiter; waiter = waiter->next)
		count += waiter->cond == cond && !waiter->called;
	uint64_t lot = count > 1 ? random_below(machine_random(), count) : 0;
	for (struct waiter *waiter = waiters; waiter && count > 0; waiter = waiter->next) {
		if (waiter->cond != cond || waiter->called || lot-- > 0)
			continue;
		waiter->called = true;
		break;
	}
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	machine_stir();
	for (struct waiter *waiter = waiters; waiter; waiter = waiter->next)
		waiter->called |= waiter->cond == cond;
	return 0;
}

static uint64_t when_called(const void *waiter)
{
	return ((const struct waiter *)waiter)->called ? 0 : FOREVER;
}

static int wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until)
{
	struct waiter waiter = { .next = waiters, .cond = cond };
	struct waiter **link = &waiters;

	waiters = &waiter;
	give_back(mutex);
	const bool in_time = machine_wait(when_called, &waiter, until, true);
	while (*link != &waiter)
		link = &(*link)->next;
	*link = waiter.next;
	take(mutex);
	return in_time ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return wait_for(cond, mutex, FOREVER);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	return wait_for(cond, mutex, nanoseconds(until));
}

/* ---- threads */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument)
{
	/* under a lock of all: it is the library's thread for the whole program */
	const int task = machine_spawn(machine_holds_of_all() ? MACHINE_PROCESS : machine_process(), main, argument);

	if (task < 0)
		return EAGAIN;
	*thread = calls_thread(task);
	machine_yield(false);
	return 0;
}

static uint64_t when_ended(const void *task)
{
	return machine_has_ended(*(const int *)task) ? 0 : FOREVER;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	const int task = (int)((long)thread - FIRST_SELF);

	machine_wait(when_ended, &task, FOREVER, false);
	void *given = machine_result(task);

	if (result)
		*result = given;
	return 0;
}

pthread_t calls_thread(int task)
{
	return (pthread_t)(FIRST_SELF + task);
}

pthread_t __wrap_pthread_self(void)
{
	return machine_inside() ? calls_thread(machine_task()) : __real_pthread_self();
}

/* ---- bytes on their way: not for what becomes of them, but as a sign that ranks do not look in vain */

size_t __wrap_tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most, uint64_t time)
{
	machine_stir();
	return __real_tt_loop_pipe_put(pipe, iov, n, most, time);
}

size_t __wrap_tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most)
{
	machine_stir();
	return __real_tt_loop_pipe_get(pipe, iov, n, most);
}

void __wrap_tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes)
{
	machine_stir();
	__real_tt_loop_pipe_drop(pipe, bytes);
}

/* ---- memory. Before each block is its owner's mark; blocks without it are the C library's own. */

#define MARK 0x74757474692d626cu

struct block {
	struct block *next, *prev;
	void *base; /* what the C library gave */
	size_t size;
	const void *caller;
	bool of_task;
	uint64_t mark;
};
#define HEAD ((sizeof(struct block) + 15) / 16 * 16)

static struct {
	struct block first; /* of a ring */
	size_t unfreed;
	uint64_t fail_one_in, failed;
} memory = { .first = { &memory.first, &memory.first } };

void *__real_malloc(size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *pointer);

static bool refuses(void)
{
	if (!machine_inside() || !random_one_in(machine_random(), memory.fail_one_in))
		return false;
	memory.failed++;
	machine_trace("no memory");
	errno = ENOMEM;
	return true;
}

static void *allocate(size_t alignment, size_t size, const void *caller)
{
	const size_t before = alignment > HEAD ? alignment : (HEAD + alignment - 1) / alignment * alignment;
	char *base;

	if (refuses() || size > SIZE_MAX / 2 || !(base = __real_malloc(before + alignment + size)))
		return NULL;
	char *at = (char *)(((uintptr_t)base + before + alignment - 1) / alignment * alignment);
	struct block *block = (struct block *)(at - HEAD);
	*block = (struct block){ .next = memory.first.next, .prev = &memory.first, .base = base, .size = size,
				 .caller = caller, .of_task = machine_inside(), .mark = MARK };
	memory.first.next->prev = block;
	memory.first.next = block;
	memory.unfreed += block->of_task;
	return at;
}

/* What the C library gave by itself has other bytes before it, which no sanitizer lets us see. */
__attribute__((no_sanitize_address)) static struct block *block_of(void *pointer)
{
	struct block *block = (struct block *)((char *)pointer - HEAD);

	return block->mark == MARK ? block : NULL;
}

static void release(struct block *block)
{
	block->next->prev = block->prev;
	block->prev->next = block->next;
	memory.unfreed -= block->of_task;
	block->mark = 0;
	__real_free(block->base);
}

void *__wrap_malloc(size_t size)
{
	return allocate(16, size, __builtin_return_address(0));
}

void *__wrap_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	void *pointer = allocate(16, bytes, __builtin_return_address(0));

	if (pointer)
		memset(pointer, 0, bytes);
	return pointer;
}

void *__wrap_realloc(void *pointer, size_t size)
{
	void *grown = allocate(16, size, __builtin_return_address(0));

	if (!grown || !pointer)
		return grown;
	struct block *block = block_of(pointer);

	assert(block); /* the library grows what it has allocated itself */
	memcpy(grown, pointer, block->size < size ? block->size : size);
	release(block);
	return grown;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return allocate(alignment < 16 ? 16 : alignment, size, __builtin_return_address(0));
}

void __wrap_free(void *pointer)
{
	struct block *block = pointer ? block_of(pointer) : NULL;

	if (block)
		release(block);
	else
		__real_free(pointer);
}

/* ---- what tests ask */

void calls_begin(int ncores)
{
	cores = ncores;
	memory.fail_one_in = memory.failed = 0;
	waiters = NULL;
}

void calls_fail_memory(uint64_t one_in)
{
	memory.fail_one_in = one_in;
}

int calls_open_descriptors(void)
{
	int count = 0;

	for (int i = 0; i < descriptors_end; i++)
		count += descriptors[i].kind != NOTHING;
	return count;
}

size_t calls_unfreed(void)
{
	for (const struct block *block = memory.first.next; block != &memory.first && memory.unfreed; block = block->next)
		if (block->of_task)
			machine_trace("not freed: %zu bytes, allocated at %#zx of the program", block->size,
				      (size_t)((const char *)block->caller - __executable_start));
	return memory.unfreed;
}

void *calls_allocate(size_t size)
{
	void *memory_of_ours = __real_malloc(size ? size : 1);

	if (!memory_of_ours) {
		perror("simulate");
		exit(2);
	}
	return memory_of_ours;
}

void calls_release(void *pointer)
{
	__real_free(pointer);
}

uint64_t calls_failed(void)
{
	return memory.failed;
}
