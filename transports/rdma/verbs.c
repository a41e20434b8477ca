/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the loading of libibverbs. It stays loaded. */
#include "verbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "log.h"

#define LIBRARY "libibverbs.so.1"

static const struct {
	const char *name;
	size_t at;
} functions[] = {
#define FUNCTION(name) { "ibv_" #name, offsetof(struct rdma_verbs, name) }
	FUNCTION(fork_init), FUNCTION(get_device_list), FUNCTION(free_device_list), FUNCTION(get_device_name),
	FUNCTION(open_device),
	FUNCTION(close_device), FUNCTION(query_port), FUNCTION(alloc_pd), FUNCTION(dealloc_pd), FUNCTION(reg_mr),
	FUNCTION(dereg_mr), FUNCTION(create_comp_channel), FUNCTION(destroy_comp_channel), FUNCTION(create_cq),
	FUNCTION(destroy_cq), FUNCTION(get_cq_event), FUNCTION(ack_cq_events), FUNCTION(create_qp), FUNCTION(modify_qp),
	FUNCTION(destroy_qp), FUNCTION(wc_status_str),
#undef FUNCTION
};

static struct rdma_verbs verbs;
static char trouble[256]; /* why there are none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(trouble, sizeof(trouble), "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *const function = dlsym(library, functions[i].name);

		if (!function) {
			snprintf(trouble, sizeof(trouble), "%s has no %s", LIBRARY,
				 functions[i].name);
			dlclose(library);
			return;
		}
		memcpy((char *)&verbs + functions[i].at, &function, sizeof(function));
	}
	/* where the kernel does not copy what devices use when a process forks (before 5.12), a child gets none of it; too late if
	 * the program has used verbs before: then that is its own doing */
	verbs.fork_init();
}

const struct rdma_verbs *tt_rdma_verbs(void)
{
	pthread_once(&once, load);
	if (!*trouble)
		return &verbs;
	tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "no verbs: %s (Debian's package is libibverbs1)", trouble);
	return NULL;
}
