/* SPDX-License-Identifier: BSD-3-Clause */
#include "walk.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is wrong */

static void print_members(const struct communicator *c, FILE *out)
{
	fprintf(out, "  on rank %d of the communicator of the job's ranks", c->rank);
	for (int i = 0; i < c->size; i++)
		fprintf(out, " %d", c->members[i]);
	fputc('\n', out);
}

static void print_place(const struct walker *w, FILE *out)
{
	fprintf(out, "random: FAILED: seed %llu, step %ld, rank %d, thread %d\n  ",
		(unsigned long long)w->setting->seed, w->step, w->rank, w->caller);
	setting_describe(w->setting, out);
	fputc('\n', out);
}

static void print_call(const struct item *item, const struct call *c, FILE *out)
{
	char words[CALL_TEXT];

	print_members(item->on, out);
	if (item->grouped)
		fprintf(out, "  in a group, call %d of %d\n", (int)(c - item->calls) + 1, item->n);
	call_describe(c, words);
	fputs(words, out);
}

/* In one piece, of the first failure alone; where there is a call, it is described. */
static bool report(struct walker *w, const struct item *item, const struct call *c,
		   const char *format, va_list arguments)
{
	char *text = NULL;
	size_t length;
	FILE *out =
		atomic_fetch_add(&w->tally->failed, 1) == 0 ? open_memstream(&text, &length) : NULL;

	if (out) {
		print_place(w, out);
		if (c)
			print_call(item, c, out);
		vfprintf(out, format, arguments);
		fputc('\n', out);
		fclose(out);
		fflush(stdout);
		fputs(text, stderr);
		free(text);
	}
	communicators_abort(&w->communicators);
	return false;
}

bool walk_fail(struct walker *w, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report(w, NULL, NULL, format, arguments);
	va_end(arguments);
	return false;
}

__attribute__((format(printf, 4, 5))) static bool fail_at(struct walker *w, const struct item *item,
							  const struct call *c, const char *format,
							  ...)
{
	va_list arguments;

	va_start(arguments, format);
	report(w, item, c, format, arguments);
	va_end(arguments);
	return false;
}

static bool fail_wrong(struct walker *w, const struct item *item, const struct call *c,
		       const struct wrong *wrong)
{
	char why[CALL_TEXT];

	call_describe_wrong(c, wrong, why);
	return fail_at(w, item, c, "%s", why);
}

static bool fail_call(struct walker *w, const struct item *item, const struct call *c,
		      tutti_result_t result)
{
	return fail_at(w, item, c, "    %s: %s", tutti_strerror(result),
		       tutti_last_error(item->on->comm));
}

/* ---- a flight: drawn */

static struct situation situation_of(const struct walker *w, const struct communicator *on,
				     size_t bytes, bool grouped)
{
	int of_host[RANKS_MAX] = { 0 };
	struct situation in = { .rank = on->rank,
				.size = on->size,
				.reproducible = w->setting->reproducible,
				.grouped = grouped,
				.bytes = bytes };

	for (int i = 0; i < on->size; i++) {
		const int n = ++of_host[setting_host(w->setting, on->members[i])];

		in.hosts += n == 1;
		in.fullest = n > in.fullest ? n : in.fullest;
	}
	return in;
}

static void draw_group(struct item *item, const struct situation *in, struct random *all)
{
	const bool alike = random_one_in(all, 3);
	struct call like;

	do
		draw_call(&like, in, all, NULL);
	while (!call_combines(like.what));
	item->n = (int)random_below(all, GROUPED + 1);
	for (int i = 0; i < item->n; i++)
		draw_call(&item->calls[i], in, all, alike ? &like : NULL);
}

static void draw_item(struct walker *w, struct item *item, struct random *all, size_t bytes)
{
	const uint64_t place = random_below(all, 2 * COMMUNICATORS);

	item->on = &w->communicators.at[place < COMMUNICATORS ? place : 0];
	item->request = NULL;
	item->grouped = random_one_in(all, 5);
	item->n = 1;
	if (!item->on->comm)
		item->on = NULL;
	if (!item->on)
		return;
	const struct situation in = situation_of(w, item->on, bytes, item->grouped);
	if (item->grouped)
		draw_group(item, &in, all);
	else
		draw_call(&item->calls[0], &in, all, NULL);
}

static void draw_flight(struct walker *w, uint64_t seed)
{
	struct random all = random_stream(seed, 1);
	const size_t bytes = random_one_in(&all, 60) ? w->setting->most_bytes : w->setting->bytes;

	w->n = random_one_in(&all, 2) ? 1 : (int)random_between(&all, 2, ITEMS);
	for (int i = 0; i < w->n; i++) {
		struct random items = random_stream(seed, 100 + (uint64_t)i);

		draw_item(w, &w->items[i], &items, bytes);
	}
}

/* ---- posted */

/* Operations are made here, by all ranks in the same order. */
static bool prepare_item(struct walker *w, struct item *item, struct random *own)
{
	for (int i = 0; i < item->n; i++) {
		struct call *c = &item->calls[i];
		if (!draw_buffers(c, own))
			return walk_fail(w, "no memory for buffers");
		const tutti_result_t result = call_make_op(item->on->comm, c);
		if (result)
			return fail_call(w, item, c, result);
	}
	return true;
}

/* Messages may come before the collectives of their group, or after, but in their order. */
static bool post_some(struct walker *w, struct item *item, bool messages, bool collectives)
{
	for (int i = 0; i < item->n; i++) {
		struct call *c = &item->calls[i];
		const bool is_message = c->what == MESSAGE;

		if (!call_concerns(c) || !(is_message ? messages : collectives))
			continue;
		const tutti_result_t result = call_post(item->on->comm, c, NULL);
		if (result)
			return fail_call(w, item, c, result);
	}
	return true;
}

static bool post_group(struct walker *w, struct item *item, bool blocking, struct random *own)
{
	const uint64_t order = random_below(own, 3);
	const tutti_comm_t comm = item->on->comm;
	tutti_result_t result = tutti_group_begin(comm);

	if (result)
		return walk_fail(w, "tutti_group_begin: %s", tutti_last_error(comm));
	if (!post_some(w, item, order != 1, order != 0) ||
	    (order < 2 && !post_some(w, item, order == 1, order == 0)))
		return false;
	result = tutti_group_end(comm, blocking ? NULL : &item->request);
	if (result)
		return walk_fail(w, "tutti_group_end: %s: %s", tutti_strerror(result),
				 tutti_last_error(comm));
	return true;
}

/* Of a collective that was called alone the communicator says by which algorithm it goes. */
static void settle_item(struct item *item)
{
	tutti_plan_info_t plan = { .size = sizeof(plan) };
	const bool known = !item->grouped && item->calls[0].what != MESSAGE &&
			   tutti_comm_last_plan(item->on->comm, &plan) == TUTTI_OK;

	for (int i = 0; i < item->n; i++)
		item->calls[i].way.algorithm = known ? plan.algorithm : NULL;
}

static bool check_item(struct walker *w, int place);

static bool post_item(struct walker *w, int place, struct random *own)
{
	const tutti_call_t longer = { sizeof(longer), 200 };
	struct item *item = &w->items[place];
	const bool blocking = random_one_in(own, w->n == 1 ? 2 : 4),
		   patient = random_one_in(own, 30);
	tutti_result_t result = TUTTI_OK;

	if (!item->on)
		return true;
	if (!prepare_item(w, item, own))
		return false;
	if (!item->grouped && !call_concerns(&item->calls[0]))
		return true;
	if (patient && tutti_next_call(item->on->comm, &longer))
		return walk_fail(w, "tutti_next_call: %s", tutti_last_error(item->on->comm));
	if (item->grouped && !post_group(w, item, blocking, own))
		return false;
	if (!item->grouped)
		result = call_post(item->on->comm, &item->calls[0],
				   blocking ? NULL : &item->request);
	if (result)
		return fail_call(w, item, &item->calls[0], result);
	settle_item(item);
	return !blocking || check_item(w, place);
}

/* ---- finished */

/* What the library might do wrong: any byte of a buffer or its guards. Numbers that may be rounded
 * are left alone. */
static void flip_byte(struct walker *w, const struct call *c)
{
	const struct buffer *b = c->recv.memory ? &c->recv : &c->send;

	if (w->flip < 0 || w->step < w->flip || c->contents.rounds || !b->memory)
		return;
	b->memory[(w->setting->seed * 977) % (b->before + b->bytes + b->after)] ^= 0x10;
	w->flip = -1;
}

static bool check_call(struct walker *w, const struct item *item, struct call *c)
{
	struct wrong wrong;

	flip_byte(w, c);
	return call_check(c, &wrong) || fail_wrong(w, item, c, &wrong);
}

static bool check_item(struct walker *w, int place)
{
	struct item *item = &w->items[place];

	for (int i = 0; i < item->n; i++) {
		if (!check_call(w, item, &item->calls[i]))
			return false;
		if (call_concerns(&item->calls[i]))
			tally_call(w->tally, &item->calls[i]);
		call_spoil(&item->calls[i]);
	}
	return true;
}

static bool fail_wait(struct walker *w, tutti_result_t result)
{
	for (int i = 0; i < w->n; i++)
		if (w->items[i].on && tutti_comm_error(w->items[i].on->comm, NULL))
			return fail_call(w, &w->items[i], &w->items[i].calls[0], result);
	return walk_fail(w, "a request ended with %s: %s", tutti_strerror(result),
			 tutti_last_error(NULL));
}

static bool wait_in_turn(struct walker *w, tutti_request_t *requests, bool backwards, bool test)
{
	for (int i = 0; i < w->n; i++) {
		const int place = backwards ? w->n - 1 - i : i;
		const bool pending = requests[place] != NULL;
		tutti_result_t result = TUTTI_OK;

		do {
			result = test ? tutti_test(&requests[place]) : tutti_wait(&requests[place]);
			if (result == TUTTI_IN_PROGRESS)
				sched_yield();
		} while (result == TUTTI_IN_PROGRESS);
		if (result)
			return fail_wait(w, result);
		if (requests[place])
			return walk_fail(w, "a request that has finished is not NULL");
		if (pending && !check_item(w, place))
			return false;
	}
	return true;
}

static bool wait_for_any(struct walker *w, tutti_request_t *requests)
{
	size_t index;

	for (;;) {
		const tutti_result_t result = tutti_wait_any(requests, (size_t)w->n, &index);

		if (result)
			return fail_wait(w, result);
		if (index == (size_t)w->n)
			return true;
		if (index > (size_t)w->n || requests[index])
			return walk_fail(w,
					 "tutti_wait_any gives index %zu of %d, or has not set the "
					 "request to NULL",
					 index, w->n);
		if (!check_item(w, (int)index))
			return false;
	}
}

static bool wait_for_all(struct walker *w, tutti_request_t *requests)
{
	bool pending[ITEMS];

	for (int i = 0; i < w->n; i++)
		pending[i] = requests[i] != NULL;
	const tutti_result_t result = tutti_wait_all(requests, (size_t)w->n);
	if (result)
		return fail_wait(w, result);
	for (int i = 0; i < w->n; i++)
		if (pending[i] && !check_item(w, i))
			return false;
	return true;
}

static bool finish_flight(struct walker *w, struct random *own)
{
	tutti_request_t requests[ITEMS];

	for (int i = 0; i < w->n; i++)
		requests[i] = w->items[i].request;
	switch (random_below(own, 5)) {
	case 0: return wait_for_any(w, requests);
	case 1: return wait_for_all(w, requests);
	case 2: return wait_in_turn(w, requests, true, true);
	case 3: return wait_in_turn(w, requests, true, false);
	default: return wait_in_turn(w, requests, false, false);
	}
}

/* Results that were right are looked at again, when all is over: nothing may come late. */
static bool end_flight(struct walker *w)
{
	for (int i = 0; i < w->n; i++) {
		struct item *item = &w->items[i];

		for (int k = 0; item->on && k < item->n; k++) {
			struct call *c = &item->calls[k];
			struct wrong wrong;

			if (w->n > 1 && c->recv.memory && call_concerns(c) &&
			    !buffer_check(&c->recv, &c->received, &wrong))
				return fail_wrong(w, item, c, &wrong);
			if (c->op >= TUTTI_OP_COUNT && tutti_op_destroy(item->on->comm, c->op))
				return walk_fail(w, "tutti_op_destroy: %s",
						 tutti_last_error(item->on->comm));
			call_finish(c);
		}
	}
	return true;
}

static bool fly(struct walker *w, uint64_t seed)
{
	struct random own = random_stream(seed, 1000 + (uint64_t)w->rank);

	draw_flight(w, seed);
	for (int i = 0; i < w->n; i++)
		if (!post_item(w, i, &own))
			return false;
	return finish_flight(w, &own) && end_flight(w);
}

/* ---- steps */

static bool take_step(struct walker *w)
{
	struct random random = random_stream(w->setting->seed * 64 + (uint64_t)w->caller,
					     1u << 20 | (uint64_t)w->step);
	const char *what = "";

	if (random_one_in(&random, 40)) {
		const tutti_result_t result =
			communicators_change(&w->communicators, &random, &what);

		if (result)
			return walk_fail(w, "%s: %s: %s", what, tutti_strerror(result),
					 tutti_last_error(NULL));
		return true;
	}
	return (w->only >= 0 && w->step != w->only) || fly(w, random_next(&random));
}

bool walk(struct walker *w, long from, long to)
{
	for (w->step = from; w->step < to; w->step++) {
		if (atomic_load(&w->tally->failed)) {
			communicators_abort(&w->communicators);
			return false;
		}
		if (!take_step(w))
			return false;
	}
	return true;
}

bool walk_warm_up(struct walker *w)
{
	const struct communicator *all = &w->communicators.at[0];
	const tutti_comm_t comm = all->comm;
	char sent[RANKS_MAX] = { 0 }, received[RANKS_MAX];
	tutti_request_t request = NULL;
	tutti_result_t result = tutti_all_to_all(comm, sent, received, 1, TUTTI_INT8, &request);

	if (!result)
		result = tutti_wait(&request);
	if (!result)
		result = tutti_group_begin(comm);
	for (int peer = 0; peer < all->size && !result; peer++) {
		result = tutti_send(comm, sent, 1, TUTTI_INT8, peer, NULL);
		if (!result)
			result = tutti_recv(comm, &received[peer], 1, TUTTI_INT8, peer, NULL);
	}
	if (!result)
		result = tutti_group_end(comm, NULL);
	return result ? walk_fail(w, "warming up: %s: %s", tutti_strerror(result),
				  tutti_last_error(comm))
		      : true;
}

bool walk_rest(struct walker *w)
{
	const tutti_comm_t comm = w->communicators.at[0].comm;

	communicators_drop(&w->communicators);
	const tutti_result_t result = tutti_barrier(comm, NULL);
	return result ? walk_fail(w, "tutti_barrier: %s: %s", tutti_strerror(result),
				  tutti_last_error(comm))
		      : true;
}
