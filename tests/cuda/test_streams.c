/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective on a stream × type × operation × size × in place gives the bits of a left fold in
 * the order of ranks, and touches nothing else.
 *
 *   test_streams processes|threads RANKS [NAME=VALUE …]
 *
 * TEST_SHARE=N (1): only every N-th combination. TEST_LONGER=N (1): N times as many elements,
 * and in any order, of numbers that come to the same in every order. TEST_SEGMENTS, set: memory is
 * mapped in segments (cuMemMap). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/cuda.h>

#include "calls/call.h"
#include "claims/claims.h"

#define GUARD	256 /* bytes behind each buffer that nobody may touch, at least */
#define LONGEST 9000

static const size_t sizes[] = { 0, 1, 7, 64, 257, 4099, LONGEST };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t longer = 1; /* times as many elements */

struct setting {
	struct gpu_rank *r;
	tutti_comm_t comm;
	bool in_windows;
	unsigned turn;
	struct vector send, recv;
};

/* What is around the buffer, to the memory's end, is looked at as well. */
static void place(struct buffer *buffer, const struct vector *memory, unsigned skip)
{
	buffer->before = skip * buffer->element;
	buffer->after = memory->n * sizeof(float) - buffer->before - buffer->bytes;
	buffer_lie_at(buffer, memory->host);
}

/* A call alone has both buffers, also where they do not matter; in place it is `recv`. In windows they
 * lie at the same place on all ranks. */
static void prepare(struct setting *s, struct call *c, bool alone)
{
	const struct vector *first = &s->send;
	const unsigned skip = (s->turn + (s->in_windows ? 0 : (unsigned)s->r->rank)) % 3;

	call_lay_out(c);
	if (c->in_place)
		first = &s->recv;
	if (alone || call_sends(c))
		place(&c->send, first, skip);
	if (!c->in_place && (alone || call_receives(c)))
		place(&c->recv, &s->recv, skip);
	call_fill(c);
	call_move(c, first->gpu, s->recv.gpu);
}

/* Messages in a group, as each rank sends and receives. */
static int make(struct setting *s, struct call *calls, int n)
{
	const tutti_comm_t comm = s->comm;
	const bool grouped = calls[0].what == MESSAGE;

	if (grouped)
		SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < n; i++)
		SUCCEEDS(call_post_on(comm, &calls[i], s->r->stream));
	if (grouped)
		SUCCEEDS(tutti_group_end(comm, NULL));
	return 0;
}

static bool copy(const struct setting *s, bool back)
{
	const struct vector *const both[] = { &s->send, &s->recv };
	bool done = true;

	for (int i = 0; i < 2; i++)
		done = done && gpu_copy(back ? both[i]->host : both[i]->gpu,
					back ? both[i]->gpu : both[i]->host,
					both[i]->n * sizeof(float), s->r->stream);
	return done && (!back || gpu_finish(s->r->stream));
}

static int check(struct setting *s, struct call *calls, int n)
{
	const tutti_comm_t comm = s->comm;
	char why[CALL_TEXT];

	for (int i = 0; i < n; i++) {
		prepare(s, &calls[i], n == 1);
		SUCCEEDS(call_make_op(comm, &calls[i]));
	}
	WORKS(copy(s, false));
	if (make(s, calls, n))
		return 1;
	WORKS(copy(s, true));
	for (int i = 0; i < n; i++) {
		CLAIM(call_is_right(&calls[i], why), "%s%s", s->in_windows ? "in windows: " : "",
		      why);
		call_finish(&calls[i]);
		if (calls[i].combine == COMBINE_PREMUL)
			SUCCEEDS(tutti_op_destroy(comm, calls[i].op));
	}
	SUCCEEDS(tutti_comm_error(comm, NULL));
	return 0;
}

static struct call describe(const struct setting *s, enum what what, tutti_dtype_t dtype, int op,
			    size_t count)
{
	struct call c;

	call_init(&c, what, s->r->rank, s->r->size, dtype, op, count * longer);
	call_set_uneven(&c);
	call_spread(&c, s->turn % 3, false);
	c.root = (int)(s->turn % (unsigned)s->r->size);
	c.rough = c.in_order = longer == 1;
	c.salt = s->turn;
	return c;
}

/* What each rank sends to the next one, and gets from the one before. */
static int check_ring(struct setting *s, tutti_dtype_t dtype, size_t count)
{
	const int rank = s->r->rank, size = s->r->size;
	struct call calls[2] = { describe(s, MESSAGE, dtype, COMBINE_NONE, count),
				 describe(s, MESSAGE, dtype, COMBINE_NONE, count) };

	calls[0].root = rank;
	calls[0].to = (rank + 1) % size;
	calls[1].root = (rank + size - 1) % size;
	calls[1].to = rank;
	return check(s, calls, size > 1 ? 2 : 1);
}

static int check_one(struct setting *s, enum what what, tutti_dtype_t dtype, int op, size_t count,
		     bool in_place)
{
	struct call c = describe(s, what, dtype, op, count);

	c.in_place = in_place;
	return check(s, &c, 1);
}

/* Operations of the program are not for streams. */
static bool is_tried(enum what what, tutti_dtype_t dtype, int op)
{
	return call_is_defined(what, dtype, op) && op != COMBINE_ADD && op != COMBINE_COMPOSE;
}

static int check_all(struct setting *s, unsigned share)
{
	s->turn = 0;
	for (int what = 0; what < WHATS; what++)
		for (size_t size = 0; size < NSIZES; size++)
			for (tutti_dtype_t dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++)
				for (int op = COMBINE_NONE; op < COMBINE_KINDS; op++)
					for (int in = 0; in < 2; in++) {
						if (!is_tried((enum what)what, dtype, op) ||
						    s->turn++ % share)
							continue;
						if (what == MESSAGE
							    ? check_ring(s, dtype, sizes[size])
							    : check_one(s, (enum what)what, dtype,
									op, sizes[size], in))
							return 1;
					}
	return 0;
}

static int body(struct gpu_rank *r, void *argument)
{
	const char *share = getenv("TEST_SHARE");
	const unsigned every = share ? (unsigned)atoi(share) : 1;
	struct setting s = { .r = r, .comm = r->comm };
	tutti_comm_t comm = r->comm;
	tutti_cuda_window_t windows[2];
	const size_t bytes = ((size_t)LONGEST * longer + 8) * 8 * (size_t)r->size + GUARD;

	TRY(take(comm, &s.send, bytes / sizeof(float)) ||
	    take(comm, &s.recv, bytes / sizeof(float)) || ready(comm) || check_all(&s, every));
	SUCCEEDS(tutti_cuda_register(comm, s.send.gpu, bytes, &windows[0]));
	SUCCEEDS(tutti_cuda_register(comm, s.recv.gpu, bytes, &windows[1]));
	s.in_windows = true;
	TRY(check_all(&s, every));
	SUCCEEDS(tutti_cuda_deregister(windows[0]));
	SUCCEEDS(tutti_cuda_deregister(windows[1]));
	return give_all(comm);
}

int main(int argc, char **argv)
{
	const struct job patient = { .limit_s = 280 };
	const int chosen = gpu_job_choose(argc, argv, 1, CALL_RANKS);

	if (chosen)
		return chosen;
	if (getenv("TEST_LONGER"))
		longer = (size_t)atoi(getenv("TEST_LONGER"));
	if (longer == 1)
		setenv("TUTTI_REPRODUCIBLE", "1", 1); /* the host combines in order of ranks, too */
	return gpu_job_run(body, NULL, &patient);
}
