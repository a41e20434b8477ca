/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a store that the user supplies. The user's functions are promised one thread at a time, so
 * waiting gets ask in slices and let other callers in between them, in the order they came. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "callback.h"
#include "log.h"
#include "store.h"
#include "store_unseen.h"
#include "thread.h"
#include "transport.h"

#define FIRST_SLICE_NS 1000000ull  /* doubles with each slice that brought nothing … */
#define LAST_SLICE_NS  64000000ull /* … up to this */

struct waiter {
	struct waiter *next;
};

struct user_store {
	struct tt_unseen unseen;
	tutti_store_ops_t user;
	void *context;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	struct waiter *first; /* in the order they came */
	bool taken;	      /* the turn, by … */
	pthread_t taker;
};

static const struct tt_store_ops user_ops;

static struct user_store *user_of(tutti_store_t store)
{
	assert(store->ops == &user_ops);
	return (struct user_store *)store;
}

static struct waiter **place_of(struct user_store *s, const struct waiter *waiter)
{
	struct waiter **at = &s->first;

	while (*at != waiter)
		at = &(*at)->next;
	return at;
}

/* Lock held. 0, or ETIMEDOUT. A turn that comes as the time is over is taken: those behind have been
 * told of it, and sleep again. */
static int wait_for_turn(struct user_store *s, uint64_t timeout_ns)
{
	const struct timespec at = tt_timespec(tt_now() + timeout_ns);
	struct waiter me = { 0 };
	int error = 0;

	*place_of(s, NULL) = &me;
	while ((s->taken || s->first != &me) && error == 0)
		error = pthread_cond_timedwait(&s->turned, &s->lock, &at);
	if (!s->taken && s->first == &me)
		error = 0;
	*place_of(s, &me) = me.next;
	return error;
}

/* 0, ETIMEDOUT, or EDEADLK: this thread is in one of the functions, or has left it by a jump. */
static int enter(struct user_store *s, uint64_t timeout_ns)
{
	pthread_mutex_lock(&s->lock);
	const int error = s->taken && pthread_equal(s->taker, pthread_self())
				  ? EDEADLK
				  : wait_for_turn(s, timeout_ns);
	if (error == 0) {
		s->taken = true;
		s->taker = pthread_self();
	}
	pthread_mutex_unlock(&s->lock);
	return error;
}

static void leave(struct user_store *s)
{
	pthread_mutex_lock(&s->lock);
	s->taken = false;
	pthread_cond_broadcast(&s->turned);
	pthread_mutex_unlock(&s->lock);
}

static int call_set(struct user_store *s, const char *key, const void *value, size_t length)
{
	TT_CALLBACK callback = tt_callback_begin("set() of tutti_store_create()");
	const int error = s->user.set(s->context, key, value, length);

	tt_callback_end(&callback);
	return error;
}

static int call_get(struct user_store *s, const char *key, void *value, size_t *length,
		    uint64_t timeout_ns)
{
	TT_CALLBACK callback = tt_callback_begin("get() of tutti_store_create()");
	char nothing; /* memcpy() takes no NULL, also for 0 bytes */
	const int error = s->user.get(s->context, key, value ? value : &nothing, length,
				      (double)timeout_ns * 1e-9);

	tt_callback_end(&callback);
	return error;
}

static void call_destroy(struct user_store *s)
{
	TT_CALLBACK callback = tt_callback_begin("destroy() of tutti_store_create()");

	if (s->user.destroy)
		s->user.destroy(s->context);
	tt_callback_end(&callback);
}

static tutti_result_t fail_enter(const char *verb, const char *key, int error)
{
	if (error == ETIMEDOUT)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, STORE,
			"%s \"%s\" in the user's store: another thread is in a function of that store, or left it by "
			"longjmp(): expected it to return",
			verb, key);
	return tt_fail(
		TUTTI_ERR_INVALID, STORE,
		"%s \"%s\" in the user's store: this thread is in a function of that store, or left it by longjmp(): "
		"expected it to return, and to use other stores only",
		verb, key);
}

static tutti_result_t fail_user(const char *verb, const char *key, int error)
{
	errno = error;
	return tt_fail_errno(STORE, "%s \"%s\" in the user's store", verb, key);
}

static tutti_result_t user_set(tutti_store_t store, const char *key, const void *value,
			       size_t length, uint64_t timeout_ns)
{
	struct user_store *s = user_of(store);

	const int busy = enter(s, timeout_ns ? timeout_ns : tt_nanoseconds(TT_STORE_TIMEOUT_S));
	if (busy)
		return fail_enter("set", key, busy);
	const int error = call_set(s, key, value, length);
	leave(s);
	return error == 0 ? TUTTI_OK : fail_user("set", key, error);
}

static tutti_result_t user_get(tutti_store_t store, const char *key, void *value, size_t *length,
			       uint64_t timeout_ns, uint64_t answer_ns)
{
	struct user_store *s = user_of(store);
	const uint64_t start = tt_now(), deadline = start + timeout_ns;
	uint64_t check_at = start + TT_UNSEEN_POLL_NS / 4;
	const size_t capacity = *length;
	uint64_t slice = FIRST_SLICE_NS;
	int error;

	for (;;) {
		const uint64_t left = tt_left(deadline);

		*length = capacity;
		const int busy = enter(s, left > answer_ns ? left : answer_ns);
		if (busy)
			return fail_enter("get", key, busy);
		error = call_get(s, key, value, length, slice < left ? slice : left);
		leave(s);
		if (error != ETIMEDOUT || tt_now() >= deadline)
			break;
		if (tt_now() >= check_at) {
			const tutti_result_t ended = tt_unseen_poll(store);

			if (ended)
				return ended;
			check_at = tt_now() + TT_UNSEEN_POLL_NS;
		}
		slice = slice < LAST_SLICE_NS ? 2 * slice : LAST_SLICE_NS;
	}
	if (error == EMSGSIZE || (error == 0 && *length > capacity))
		return tt_store_fail_capacity(store, key, capacity, *length);
	if (error == ETIMEDOUT)
		return TUTTI_IN_PROGRESS;
	return error == 0 ? TUTTI_OK : fail_user("get", key, error);
}

static void user_close(tutti_store_t store)
{
	struct user_store *s = user_of(store);

	call_destroy(s);
	pthread_cond_destroy(&s->turned);
	pthread_mutex_destroy(&s->lock);
	tt_unseen_finish(&s->unseen);
	free(s);
}

/* The context is the parent's. */
static void user_forget(tutti_store_t store)
{
	tt_unseen_finish(&user_of(store)->unseen);
	free(user_of(store));
}

static const struct tt_store_ops user_ops = {
	.set = user_set,
	.get = user_get,
	.end = tt_unseen_end,
	.attend = tt_unseen_attend,
	.leave = tt_unseen_leave,
	.poll = tt_unseen_poll,
	.close = user_close,
	.forget = user_forget,
};

tutti_result_t tt_store_user_create(const tutti_store_ops_t *ops, void *context,
				    tutti_store_t *store)
{
	struct user_store *s = calloc(1, sizeof(*s));

	if (!s)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE, "make a store: no memory");
	tt_unseen_init(&s->unseen);
	s->unseen.base.ops = &user_ops;
	snprintf(s->unseen.base.address, sizeof(s->unseen.base.address), "user:%p", context);
	s->user = *ops;
	s->context = context;
	pthread_mutex_init(&s->lock, NULL);
	tt_thread_condition(&s->turned);
	*store = &s->unseen.base;
	return TUTTI_OK;
}
