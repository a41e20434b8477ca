/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice of a launcher's key-value store, and the wait for it: launchers' libraries know no
 * deadline, so a thread calls them, which is left behind where it does not come back in time. */
#include "kvs.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "thread.h"
#include "transport.h"

/* What is asked, and what comes of it. */
struct order {
	const struct tt_kvs *kvs;
	struct tt_kvs_place place;
	bool asks_place; /* it, and not the text, which is one of that place */
	char key[TT_KVS_KEY_MAX], text[TT_KVS_TEXT_MAX];
};

/* What the two threads share; whoever is last frees it. */
struct errand {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ended, left; /* by the thread; by the caller */
	struct order order;
	tutti_result_t result;
	char error_text[TT_ERROR_MAX];
};

static atomic_uint next_number;
/* An errand is under way to a store that takes one at a time. Taken by a caller, given back by the
 * errand's thread: what that one did is seen by the next (acquire, release). */
static atomic_bool occupied;

bool tt_kvs_is_occupied(void)
{
	return atomic_load_explicit(&occupied, memory_order_acquire);
}

unsigned tt_kvs_number(void)
{
	return atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
}

/* ---- MPI */

static bool says_began(void *library)
{
	int (*initialized)(int *) = NULL;
	void *const symbol = dlsym(library, "MPI_Initialized");
	int began = 0;

	memcpy(&initialized, &symbol, sizeof(symbol));
	return initialized && initialized(&began) == 0 && began;
}

/* One that was opened for itself, as by a module of Python: the first behind so many. */
struct mpi_library {
	int behind;
	char name[PATH_MAX]; /* "": there is none */
};

static int find_mpi(struct dl_phdr_info *info, size_t size, void *found)
{
	struct mpi_library *library = found;

	if (!info->dlpi_name || !strstr(info->dlpi_name, "libmpi") || library->behind-- > 0)
		return 0;
	snprintf(library->name, sizeof(library->name), "%s", info->dlpi_name);
	return 1;
}

/* Opened outside of dl_iterate_phdr(), which holds a lock that a thread in dlopen() waits for. */
static bool mpi_began(const char *name)
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	const bool began = library && says_began(library);

	if (library)
		dlclose(library);
	return began;
}

bool tt_kvs_mpi_began(void)
{
	bool began = says_began(RTLD_DEFAULT);

	for (int i = 0; !began; i++) {
		struct mpi_library library = { .behind = i };

		if (!dl_iterate_phdr(find_mpi, &library))
			break;
		began = mpi_began(library.name);
	}
	return began;
}

/* ---- which */

const struct tt_kvs *tt_kvs_find(const struct tt_kvs *const kinds[TT_KVS_KINDS], char *why,
				 size_t size)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* libraries are opened here */
	const struct tt_kvs *found = NULL;
	size_t used = 0;

	*why = 0;
	pthread_mutex_lock(&one);
	for (int i = 0; i < TT_KVS_KINDS && kinds[i] && !found; i++) {
		const char *const lacks = kinds[i]->lacks();

		if (!lacks)
			found = kinds[i];
		else if (used < size)
			used += (size_t)snprintf(why + used, size - used, "%s%s: %s",
						 used ? "; " : "", kinds[i]->name, lacks);
	}
	pthread_mutex_unlock(&one);
	return found;
}

/* ---- the errand */

static void free_errand(struct errand *e)
{
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	OPENSSL_cleanse(e, sizeof(*e)); /* there is a key in it */
	free(e);
}

static void give_back_turn(const struct order *order)
{
	if (!order->kvs->may_be_old)
		atomic_store_explicit(&occupied, false, memory_order_release);
}

static void *run(void *argument)
{
	struct errand *e = argument;
	struct order *order = &e->order;
	struct tt_kvs_place *place = &order->place;

	e->result = order->asks_place
			    ? order->kvs->place(place)
			    : order->kvs->bring(place->rank, place->size, order->key, order->text);
	if (e->result)
		snprintf(e->error_text, sizeof(e->error_text), "%s", tt_thread_error());
	give_back_turn(order);
	pthread_mutex_lock(&e->lock);
	e->ended = true;
	pthread_cond_signal(&e->changed);
	const bool left = e->left;
	pthread_mutex_unlock(&e->lock);
	if (left)
		free_errand(e);
	return NULL;
}

static struct errand *new_errand(const struct order *order)
{
	struct errand *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	tt_thread_condition(&e->changed);
	pthread_mutex_init(&e->lock, NULL);
	e->order = *order;
	return e;
}

/* Is it back in time? Otherwise it is left, and no longer the caller's. */
static bool await(struct errand *e, uint64_t deadline)
{
	const struct timespec until = tt_timespec(deadline);
	int error = 0;

	pthread_mutex_lock(&e->lock);
	while (!e->ended && error != ETIMEDOUT)
		error = pthread_cond_timedwait(&e->changed, &e->lock, &until);
	e->left = !e->ended;
	const bool ended = e->ended;
	pthread_mutex_unlock(&e->lock);
	return ended;
}

static tutti_result_t fail_late(const struct order *order)
{
	return order->asks_place
		       ? tt_fail(TUTTI_ERR_TIMEOUT, COMM,
				 "the launcher (%s) does not say which rank this is: has its process on this host "
				 "stopped?",
				 order->kvs->name)
		       : tt_fail(TUTTI_ERR_TIMEOUT, COMM,
				 "not all ranks have asked the launcher (%s) where to meet by this rank's deadline: "
				 "has a rank ended, does it not call tutti_init() as often as the others, or have "
				 "some ranks alone TUTTI_STORE?",
				 order->kvs->name);
}

/* Until no other thread's errand is under way. */
static bool take_turn(uint64_t deadline)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (atomic_exchange_explicit(&occupied, true, memory_order_acquire)) {
		if (tt_now() >= deadline)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static tutti_result_t run_errand(struct errand *e, struct order *order, uint64_t deadline)
{
	pthread_t thread;
	const int error = tt_thread_begin(&thread, run, e);

	if (error) {
		free_errand(e);
		give_back_turn(order);
		errno = error;
		return tt_fail_errno(COMM, "begin a thread that asks the launcher");
	}
	if (!await(e, deadline)) {
		pthread_detach(thread);
		return fail_late(order);
	}
	pthread_join(thread, NULL);
	const tutti_result_t result = e->result;
	*order = e->order;
	if (result)
		tt_thread_error_set(e->error_text);
	free_errand(e);
	return result;
}

static tutti_result_t carry_out(struct order *order, uint64_t deadline)
{
	if (!order->kvs->may_be_old && !take_turn(deadline))
		return fail_late(order);
	struct errand *e = new_errand(order);
	if (e)
		return run_errand(e, order, deadline);
	give_back_turn(order);
	return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory to ask the launcher");
}

/* The launcher could not be asked: what helps where it cannot be. */
static tutti_result_t advise(tutti_result_t result)
{
	char why[TT_ERROR_MAX];

	snprintf(why, sizeof(why), "%s", tt_thread_error());
	return tt_fail(result, COMM, "%.420s. Where the launcher cannot be asked, " TT_KVS_INSTEAD,
		       why);
}

tutti_result_t tt_kvs_bring(const struct tt_kvs *kvs, int rank, int size, unsigned number,
			    char text[TT_KVS_TEXT_MAX], uint64_t deadline)
{
	struct order order = { .kvs = kvs, .place = { .rank = rank, .size = size } };

	snprintf(order.key, sizeof(order.key), "tutti-%u", number);
	memcpy(order.text, text, sizeof(order.text));
	const tutti_result_t result = carry_out(&order, deadline);
	memcpy(text, order.text, sizeof(order.text));
	OPENSSL_cleanse(order.text, sizeof(order.text)); /* there is a key in it */
	return result == TUTTI_ERR_SYSTEM ? advise(result) : result;
}

tutti_result_t tt_kvs_place(const struct tt_kvs *kvs, struct tt_kvs_place *out, uint64_t deadline)
{
	struct order order = { .kvs = kvs, .asks_place = true };
	const tutti_result_t result = carry_out(&order, deadline);

	if (!result)
		*out = order.place;
	return result;
}
