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
#include "transport.h"

#define FIRST_SLICE_NS 1000000ull  /* doubles with each slice that brought nothing … */
#define LAST_SLICE_NS  64000000ull /* … up to this */

struct user_store {
	struct tt_unseen unseen;
	tutti_store_ops_t user;
	void *context;
	pthread_mutex_t lock; /* of the tickets */
	pthread_cond_t turned;
	uint64_t next_ticket, turn;
	bool taken; /* the turn, by … */
	pthread_t taker;
};

static const struct tt_store_ops user_ops;

static struct user_store *user_of(tutti_store_t store)
{
	assert(store->ops == &user_ops);
	return (struct user_store *)store;
}

/* False: it is this thread's turn already, in one of the functions, or it has left that by a jump. */
static bool enter(struct user_store *s)
{
	pthread_mutex_lock(&s->lock);
	const bool inside = s->taken && pthread_equal(s->taker, pthread_self());
	const uint64_t ticket = inside ? 0 : s->next_ticket++;
	while (!inside && s->turn != ticket)
		pthread_cond_wait(&s->turned, &s->lock);
	s->taken = true;
	s->taker = pthread_self();
	pthread_mutex_unlock(&s->lock);
	return !inside;
}

static void leave(struct user_store *s)
{
	pthread_mutex_lock(&s->lock);
	s->taken = false;
	s->turn++;
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

static tutti_result_t fail_inside(const char *verb, const char *key)
{
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

	if (!enter(s))
		return fail_inside("set", key);
	const int error = call_set(s, key, value, length);
	leave(s);
	return error == 0 ? TUTTI_OK : fail_user("set", key, error);
}

static tutti_result_t user_get(tutti_store_t store, const char *key, void *value, size_t *length,
			       uint64_t timeout_ns, uint64_t answer_ns)
{
	(void)answer_ns; /* no host of ours answers */
	struct user_store *s = user_of(store);
	const uint64_t start = tt_now(), deadline = start + timeout_ns;
	uint64_t check_at = start + TT_UNSEEN_POLL_NS / 4;
	const size_t capacity = *length;
	uint64_t slice = FIRST_SLICE_NS;
	int error;

	for (;;) {
		const uint64_t now = tt_now(), left = deadline > now ? deadline - now : 0;

		*length = capacity;
		if (!enter(s))
			return fail_inside("get", key);
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
	pthread_cond_init(&s->turned, NULL);
	*store = &s->unseen.base;
	return TUTTI_OK;
}
