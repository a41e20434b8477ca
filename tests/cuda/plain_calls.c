/* SPDX-License-Identifier: BSD-3-Clause */
#include "plain_calls.h"

#include <stdlib.h>

#include "calls/call.h"
#include "harness.h"
#include "kinds.h"

#define GAP	   3 /* elements between the blocks of tables */
#define FRINGE	   7 /* elements before and behind all that a call may touch */
#define SMALL	   8 /* elements of a short all-reduce */
#define CHUNK	   5 /* of a message in a group, or one more */
#define ALL_SMALL  3
#define CALLS_MAX  (ALL_SMALL + 1 + 2 * RANKS_MAX)
#define LARGEST	   8 /* bytes of an element */
#define OF_LENGTHS 4 /* bytes of an element of which there are so many: of larger ones, fewer */

static const size_t lengths[] = { 0, 1, 37, 5000, 100000 };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* What is tried beside the collectives. */
enum { OWN_OPERATION = MESSAGE, SCALED, RING, MIXTURE, TRIALS };

/* Calls that are made as one: a call, or several in a group. */
struct trial {
	tutti_comm_t comm;
	int rank, size;
	unsigned turn;
	bool grouped;
	struct call calls[CALLS_MAX];
	int n;
};

static struct call *add_call(struct trial *t, enum what what, tutti_dtype_t dtype, int combine,
			     size_t n)
{
	struct call *c = &t->calls[t->n++];

	call_init(c, what, t->rank, t->size, dtype, combine, n);
	c->root = (int)(t->turn % (unsigned)t->size);
	c->salt = t->turn * CALLS_MAX;
	c->rough = t->turn / 2 % 2;
	return c;
}

/* Between two ranks, or of one with itself. */
static void add_message(struct trial *t, tutti_dtype_t dtype, size_t n, int from, int to)
{
	struct call *c = add_call(t, MESSAGE, dtype, COMBINE_NONE, n);

	c->root = from;
	c->to = to;
	c->salt += (uint64_t)(from * RANKS_MAX + to);
}

static void add_swap(struct trial *t, tutti_dtype_t dtype, size_t n, int to, int from)
{
	add_message(t, dtype, n, t->rank, to);
	if (to != t->rank || from != t->rank)
		add_message(t, dtype, n, from, t->rank);
	t->grouped = true;
}

static void add_mixture(struct trial *t, tutti_dtype_t dtype, size_t n)
{
	for (int i = 0; i < ALL_SMALL; i++)
		add_call(t, ALL_REDUCE, dtype, TUTTI_SUM, SMALL);
	add_call(t, ALL_REDUCE, dtype, TUTTI_MAX, n);
	for (int peer = 0; peer < t->size; peer++)
		add_swap(t, dtype, CHUNK, peer, peer);
}

static void describe(struct trial *t, int what, tutti_dtype_t dtype, size_t n, bool in_place)
{
	t->n = 0;
	t->grouped = false;
	switch (what) {
	case OWN_OPERATION: add_call(t, ALL_REDUCE, dtype, COMBINE_COMPOSE, n); break;
	case SCALED: add_call(t, ALL_REDUCE, dtype, COMBINE_PREMUL, n); break;
	case RING:
		add_swap(t, dtype, n, (t->rank + 1) % t->size, (t->rank + t->size - 1) % t->size);
		break;
	case MIXTURE: add_mixture(t, dtype, n); break;
	default:
		call_set_uneven(add_call(t, (enum what)what, dtype, TUTTI_SUM, n));
		call_spread(&t->calls[0], GAP, true);
	}
	for (int i = 0; i < t->n; i++)
		t->calls[i].in_place = in_place;
}

/* ---- made in all ways */

static tutti_result_t post(struct trial *t, bool grouped, tutti_request_t *request)
{
	tutti_result_t result;

	if (!grouped && !t->grouped)
		return call_post(t->comm, &t->calls[0], request);
	result = tutti_group_begin(t->comm);
	for (int i = 0; i < t->n && !result; i++)
		result = call_post(t->comm, &t->calls[i], NULL);
	return result ? result : tutti_group_end(t->comm, request);
}

static tutti_result_t make(struct trial *t, enum way way)
{
	tutti_request_t requests[2] = { NULL };
	size_t index;
	tutti_result_t result;

	if (way == BLOCKING || way == GROUPED)
		return post(t, way == GROUPED, NULL);
	result = post(t, way == GROUP_WAITED, &requests[1]);
	if (result)
		return result;
	if (way == ANY)
		return tutti_wait_any(requests, 2, &index);
	if (way == ALL)
		return tutti_wait_all(requests, 2);
	if (way != TESTED)
		return tutti_wait(&requests[1]);
	do
		result = tutti_test(&requests[1]);
	while (result == TUTTI_IN_PROGRESS);
	return result;
}

/* ---- with all kinds of memory */

/* A rank's buffers: one of each kind for each side, and what goes to them and comes back. */
struct memory {
	unsigned char *at[KINDS][2], *host[2];
};

/* What is sent is in memory of one kind, what comes in that of another. */
struct area {
	enum kind kind[2];
	unsigned char *at[2], *host[2];
	size_t used[2];
};

static size_t room_of(size_t n, size_t size)
{
	const size_t all = CALLS_MAX * (2 * FRINGE + SMALL + size) + (2 * GAP + size) * size;

	return LARGEST * all + OF_LENGTHS * (n + 1) * (size + 1);
}

static void place(struct area *area, int side, struct buffer *b)
{
	b->before = b->after = FRINGE * b->element;
	buffer_lie_at(b, area->host[side] + area->used[side]);
	area->used[side] += buffer_size(b);
}

static int prepare(struct trial *t, struct area *area)
{
	const tutti_comm_t comm = t->comm;

	for (int i = 0; i < t->n; i++) {
		struct call *c = &t->calls[i];
		const size_t send = area->used[0], recv = area->used[1];

		call_lay_out(c);
		if (c->in_place || call_sends(c))
			place(area, 0, &c->send);
		if (!c->in_place && call_receives(c))
			place(area, 1, &c->recv);
		call_fill(c);
		call_move(c, area->at[0] + send, area->at[1] + recv);
		if (call_combines(c->what) && c->op < 0)
			SUCCEEDS(call_make_op(comm, c));
	}
	for (int side = 0; side < 2; side++)
		kind_copy(area->kind[side], area->at[side], area->host[side], area->used[side]);
	return 0;
}

static int check(struct trial *t, struct area *area)
{
	const tutti_comm_t comm = t->comm;
	char why[CALL_TEXT];

	for (int side = 0; side < 2; side++)
		kind_copy(area->kind[side], area->host[side], area->at[side], area->used[side]);
	for (int i = 0; i < t->n; i++) {
		struct call *c = &t->calls[i];

		CLAIM(call_is_right(c, why), "memory %d to %d: %s", area->kind[0], area->kind[1],
		      why);
		call_finish(c);
		if (c->combine >= TUTTI_OP_COUNT)
			SUCCEEDS(tutti_op_destroy(comm, c->op));
	}
	return 0;
}

static int agrees(struct trial *t, struct area *area)
{
	const tutti_comm_t comm = t->comm;
	const enum way way = (enum way)((t->turn + (unsigned)t->rank) % WAYS);
	const bool has_context = t->turn % 3 != 0;

	if (prepare(t, area))
		return 1;
	const gpu_context_t before =
		has_context ? kind_enter(t->turn % 3 == 2 ? ON_GPU_1 : ON_GPU_0) : NULL;
	const void *context = gpu_current();
	const tutti_result_t result = make(t, way);
	CLAIM(result == TUTTI_OK, "%s of %zu, way %d, memory %d to %d: %s",
	      call_name(t->calls[0].what), t->calls[0].count, way, area->kind[0], area->kind[1],
	      tutti_last_error(comm));
	CLAIM(gpu_current() == context, "%s: the thread has another context",
	      call_name(t->calls[0].what));
	if (has_context)
		kind_leave(before);
	return check(t, area);
}

static int every_call(struct trial *t, const struct memory *memory, size_t n)
{
	for (int what = 0; what < TRIALS; what++)
		for (int in_place = 0; in_place < 2; in_place++, t->turn++) {
			/* every kind on every rank in the course of time, and all mixtures */
			const unsigned rank = (unsigned)t->rank;
			const enum kind first = (enum kind)((t->turn + rank) % KINDS);
			const enum kind second = (enum kind)((t->turn / KINDS + 2 * rank) % KINDS);
			struct area area = { { first, second },
					     { memory->at[first][0], memory->at[second][1] },
					     { memory->host[0], memory->host[1] },
					     { 0 } };
			const tutti_dtype_t dtype = (tutti_dtype_t)(t->turn % TUTTI_DTYPE_COUNT);
			const size_t fewer = n * OF_LENGTHS / tutti_dtype_size(dtype);

			describe(t, what, dtype, fewer < n ? fewer : n, in_place);
			if (agrees(t, &area))
				return 1;
		}
	return 0;
}

int every_length(tutti_comm_t comm)
{
	struct trial *t = calloc(1, sizeof(*t));
	struct memory memory;
	int failed = 0;

	t->comm = comm;
	t->rank = tutti_comm_rank(comm);
	t->size = tutti_comm_size(comm);
	const size_t bytes = room_of(lengths[LENGTHS - 1], (size_t)t->size);
	for (int i = 0; i < 2; i++) {
		for (int kind = 0; kind < KINDS; kind++)
			memory.at[kind][i] = kind_alloc((enum kind)kind, bytes);
		memory.host[i] = malloc(bytes);
	}
	for (size_t i = 0; i < LENGTHS && !failed; i++)
		for (int round = 0; round < (lengths[i] < 5000 ? 8 : 2) && !failed; round++)
			failed = every_call(t, &memory, lengths[i]);
	for (int i = 0; i < 2; i++) {
		for (int kind = 0; kind < KINDS; kind++)
			kind_free((enum kind)kind, memory.at[kind][i]);
		free(memory.host[i]);
	}
	free(t);
	return failed;
}

/* ---- a sum in memory of the caller */

tutti_result_t make_sum(tutti_comm_t comm, enum way way, size_t n, int32_t *send, int32_t *recv)
{
	struct trial *t = calloc(1, sizeof(*t));

	t->comm = comm;
	t->size = tutti_comm_size(comm);
	add_call(t, ALL_REDUCE, TUTTI_INT32, TUTTI_SUM, n);
	t->calls[0].send_at = send;
	t->calls[0].recv_at = recv;
	const tutti_result_t result = make(t, way);
	free(t);
	return result;
}
