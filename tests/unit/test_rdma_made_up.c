/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_rdma_made_up.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport.h"

size_t lockable = SIZE_MAX, longest = SIZE_MAX;
static size_t registered; /* bytes */
static int there;
int regions_wanted, threads_left = 1000000, threads_wanted;
static pthread_mutex_t of_device = PTHREAD_MUTEX_INITIALIZER;

static int forks_are_harmless(void)
{
	return VERBS_FORK_UNNEEDED;
}

static struct ibv_mr *register_bytes(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	struct ibv_mr *mr = NULL;

	pthread_mutex_lock(&of_device);
	regions_wanted++;
	if (bytes <= longest && registered + bytes <= lockable) {
		mr = calloc(1, sizeof(*mr));
		mr->length = bytes;
		registered += bytes;
		there++;
	}
	pthread_mutex_unlock(&of_device);
	errno = bytes > longest ? EFAULT : ENOMEM;
	return mr;
}

static int deregister(struct ibv_mr *mr)
{
	pthread_mutex_lock(&of_device);
	registered -= mr->length;
	there--;
	pthread_mutex_unlock(&of_device);
	free(mr);
	return 0;
}

int regions(void)
{
	pthread_mutex_lock(&of_device);
	const int count = there;

	pthread_mutex_unlock(&of_device);
	return count;
}

static const struct rdma_verbs verbs = { .is_fork_initialized = forks_are_harmless,
					 .reg_mr = register_bytes,
					 .dereg_mr = deregister };
struct rdma_adapter adapter = { .verbs = &verbs, .name = "made_up0" };

/* In the place of the C library's. */
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
		   void *(*body)(void *), void *restrict argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *const theirs = dlsym(RTLD_NEXT, "pthread_create");

	threads_wanted++;
	if (threads_left == 0)
		return EAGAIN;
	threads_left--;
	memcpy(&create, &theirs, sizeof(create));
	return create(thread, attributes, body, argument);
}

int begin(void **state)
{
	tt_rdma_registrations_open(&adapter);
	return 0;
}

int end(void **state)
{
	tt_rdma_registrations_close(&adapter);
	assert_int_equal(regions(), 0);
	return 0;
}

void *map(void *at, size_t bytes, int flags)
{
	void *memory =
		mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

struct rdma_registration *get(const void *pointer, size_t bytes)
{
	const uint64_t until = tt_now() + LIMIT_S * 1000000000ull;
	struct rdma_registration *r = NULL;

	while (!r && tt_now() < until)
		r = tt_rdma_registration_get(&adapter, pointer, bytes);
	assert_non_null(r);
	assert_true(r->begin <= (uintptr_t)pointer &&
		    r->begin + r->bytes >= (uintptr_t)pointer + bytes);
	return r;
}

void get_and_put(const void *pointer, size_t bytes)
{
	tt_rdma_registration_put(get(pointer, bytes));
}

void expect(int count)
{
	const uint64_t until = tt_now() + LIMIT_S * 1000000000ull;

	while (regions() != count && tt_now() < until)
		sched_yield();
	assert_int_equal(regions(), count);
}
