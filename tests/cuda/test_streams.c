/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective on a stream × type × operation × size × in place gives the bits that the
 * host's gives in a fixed order, and touches nothing else.
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

#include "gpu_job.h"
#include "calls/values.h"

#define GUARD	256 /* bytes behind each buffer that nobody may touch */
#define FILL	0x5a
#define LONGEST 9000

static const size_t sizes[] = { 0, 1, 7, 64, 257, 4099, LONGEST };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t longer = 1; /* times as many elements */

struct memory {
	uint8_t *host, *gpu; /* the host's is pinned: CUDA may keep whoever copies other memory
			      * until what is on the GPU has ended, and that waits for other
			      * ranks */
	size_t bytes;
};

struct setting {
	struct gpu_rank *r;
	tutti_comm_t comm;
	gpu_stream_t stream; /* NULL: on the host */
	int root;
	size_t count, skip; /* `skip` elements are left free in front of buffers */
	tutti_dtype_t dtype;
	tutti_op_t op;
	bool in_place, in_windows;
	size_t counts[32], displs[32], back[32], back_displs[32];
	struct memory send, recv;
	uint8_t *expected;
};

#define CALL(name, ...)                                                                            \
	(s->stream ? tutti_cuda_##name(s->comm, __VA_ARGS__, s->stream)                            \
		   : tutti_##name(s->comm, __VA_ARGS__, NULL))

enum what {
	BROADCAST,
	REDUCE,
	ALL_REDUCE,
	REDUCE_SCATTER,
	ALL_GATHER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	REDUCE_SCATTER_V,
	ALL_GATHER_V,
	GATHER_V,
	SCATTER_V,
	ALL_TO_ALL_V,
	SCAN,
	EXSCAN,
	RING,
	WHATS
};

static const char *const names[] = {
	"broadcast",	    "reduce",	    "all_reduce", "reduce_scatter",
	"all_gather",	    "gather",	    "scatter",	  "all_to_all",
	"reduce_scatter_v", "all_gather_v", "gather_v",	  "scatter_v",
	"all_to_all_v",	    "scan",	    "exscan",	  "send and recv in a ring"
};

static bool reduces(enum what what)
{
	return what == REDUCE || what == ALL_REDUCE || what == REDUCE_SCATTER ||
	       what == REDUCE_SCATTER_V || what == SCAN || what == EXSCAN;
}

/* What a rank has got from its neighbours, both in a group. */
static tutti_result_t ring(struct setting *s, const void *send, void *recv)
{
	const int size = s->r->size, next = (s->r->rank + 1) % size,
		  before = (s->r->rank + size - 1) % size;
	tutti_result_t result = tutti_group_begin(s->comm);

	if (!result)
		result = CALL(send, send, s->count, s->dtype, next);
	if (!result)
		result = CALL(recv, recv, s->count, s->dtype, before);
	const tutti_result_t ended = tutti_group_end(s->comm, NULL);
	return result ? result : ended;
}

static tutti_result_t make_call(struct setting *s, enum what what, const uint8_t *send,
				uint8_t *recv)
{
	const bool at_root = s->r->rank == s->root;
	const size_t n = s->count, element = tutti_dtype_size(s->dtype), rank = (size_t)s->r->rank;
	const size_t block = rank * n * element, own = s->displs[rank] * element;
	const bool in = s->in_place;

	switch (what) {
	case BROADCAST:
		return CALL(broadcast, at_root ? (in ? recv : send) : NULL, recv, n, s->dtype,
			    s->root);
	case REDUCE:
		return CALL(reduce, in && at_root ? recv : send, at_root ? recv : NULL, n, s->dtype,
			    s->op, s->root);
	case ALL_REDUCE: return CALL(all_reduce, in ? recv : send, recv, n, s->dtype, s->op);
	case REDUCE_SCATTER:
		return CALL(reduce_scatter, in ? recv : send, in ? recv + block : recv, n, s->dtype,
			    s->op);
	case ALL_GATHER: return CALL(all_gather, in ? recv + block : send, recv, n, s->dtype);
	case GATHER:
		return CALL(gather, in && at_root ? recv + block : send, at_root ? recv : NULL, n,
			    s->dtype, s->root);
	case SCATTER:
		return CALL(scatter, at_root ? (in ? recv : send) : NULL,
			    in && at_root ? recv + block : recv, n, s->dtype, s->root);
	case ALL_TO_ALL: return CALL(all_to_all, in ? recv : send, recv, n, s->dtype);
	case REDUCE_SCATTER_V:
		return CALL(reduce_scatter_v, send, recv, s->counts, s->dtype, s->op);
	case ALL_GATHER_V:
		return CALL(all_gather_v, in ? recv + own : send, recv, s->counts, s->displs,
			    s->dtype);
	case GATHER_V:
		return CALL(gather_v, send, s->counts[rank], recv, s->counts, s->displs, s->dtype,
			    s->root);
	case SCATTER_V:
		return CALL(scatter_v, send, s->counts, s->displs, recv, s->counts[rank], s->dtype,
			    s->root);
	case ALL_TO_ALL_V:
		return CALL(all_to_all_v, send, s->counts, s->displs, recv, s->back, s->back_displs,
			    s->dtype);
	case SCAN: return CALL(scan, in ? recv : send, recv, n, s->dtype, s->op);
	case EXSCAN: return CALL(exscan, in ? recv : send, recv, n, s->dtype, s->op);
	default: return ring(s, send, recv);
	}
}

/* Both buffers filled with what this rank has, from the front of `memory` on. */
static void fill(const struct setting *s, struct memory *memory)
{
	const size_t element = tutti_dtype_size(s->dtype), first = s->skip * element;
	const size_t all = s->count * (size_t)s->r->size,
		     elements = (all < LONGEST * 2 || longer > 1 ? all : s->count) + 64;

	memset(memory->host, FILL, memory->bytes);
	for (size_t i = 0; i < elements && first + (i + 1) * element <= memory->bytes; i++)
		value_set(memory->host + first, i, s->dtype,
			  value_input(s->r->rank, i, s->dtype,
				      reduces(ALL_REDUCE) && s->op >= 0 ? s->op : TUTTI_SUM));
}

static int check(struct setting *s, enum what what)
{
	tutti_comm_t comm = s->comm;
	const size_t offset = s->skip * tutti_dtype_size(s->dtype);

	fill(s, &s->send);
	fill(s, &s->recv);
	memcpy(s->expected, s->recv.host, s->recv.bytes);
	CLAIM(gpu_copy(s->send.gpu, s->send.host, s->send.bytes, s->r->stream) &&
		      gpu_copy(s->recv.gpu, s->recv.host, s->recv.bytes, s->r->stream),
	      "%s", gpu_error());
	s->stream = NULL;
	SUCCEEDS(make_call(s, what, s->send.host + offset, s->expected + offset));
	s->stream = s->r->stream;
	SUCCEEDS(make_call(s, what, s->send.gpu + offset, s->recv.gpu + offset));
	CLAIM(gpu_copy(s->recv.host, s->recv.gpu, s->recv.bytes, s->r->stream) &&
		      gpu_finish(s->r->stream),
	      "%s", gpu_error());
	for (size_t i = 0; i < s->recv.bytes; i++)
		CLAIM(s->recv.host[i] == s->expected[i],
		      "%s of %zu %s, op %s, root %d%s%s, %zu in front: byte %zu is %02x, expected %02x",
		      names[what], s->count, tutti_dtype_name(s->dtype),
		      s->op < 0 ? "none" : tutti_op_name(s->op), s->root,
		      s->in_place ? ", in place" : "", s->in_windows ? ", in windows" : "", s->skip,
		      i - offset, s->recv.host[i], s->expected[i]);
	SUCCEEDS(tutti_comm_error(comm, NULL));
	return 0;
}

/* Rank r has a few elements more or fewer than `count`, some ranks none. */
static void make_tables(struct setting *s)
{
	size_t at = 0, back_at = 0;

	for (int rank = 0; rank < s->r->size; rank++) {
		const size_t r = (size_t)rank;

		s->counts[r] = rank == 1 ? 0 : s->count / (r + 1);
		s->displs[r] = at;
		at += s->counts[r] + r % 3;
		/* what `rank` sends to this one */
		s->back[r] = s->r->rank == 1 ? 0 : s->count / ((size_t)s->r->rank + 1);
		s->back_displs[r] = back_at;
		back_at += s->back[r] + 1;
	}
}

/* Tables of counts matter where all ranks give the same. */
static bool is_sensible(const struct setting *s, enum what what)
{
	const bool of_v = what == REDUCE_SCATTER_V || what == GATHER_V || what == SCATTER_V ||
			  what == ALL_TO_ALL_V;

	if (reduces(what) ? s->op < 0 || !op_is_defined(s->op, s->dtype) : s->op >= 0)
		return false;
	if ((what == SCAN || what == EXSCAN) && s->op == TUTTI_AVG)
		return false;
	if (longer > 1 && s->dtype == TUTTI_FLOAT8_E5M2 &&
	    (s->op == TUTTI_SUM ||
	     s->op == TUTTI_AVG)) /* its three digits are too few for sums without rounding */
		return false;
	return !(s->in_place && (of_v || what == RING));
}

static int check_all(struct setting *s, unsigned share)
{
	unsigned turn = 0;

	for (int what = 0; what < WHATS; what++)
		for (size_t size = 0; size < NSIZES; size++)
			for (s->dtype = 0; s->dtype < TUTTI_DTYPE_COUNT; s->dtype++)
				for (s->op = -1; s->op < TUTTI_OP_COUNT; s->op++)
					for (int place = 0; place < 2; place++) {
						s->count = sizes[size] * longer;
						s->in_place = place;
						s->root = (int)(turn % (unsigned)s->r->size);
						s->skip = turn % 3;
						if (!is_sensible(s, (enum what)what) ||
						    turn++ % share)
							continue;
						make_tables(s);
						if (check(s, (enum what)what))
							return 1;
					}
	return 0;
}

static int take(struct setting *s, struct memory *memory, size_t bytes)
{
	tutti_comm_t comm = s->comm;
	void *gpu;

	memory->bytes = bytes;
	memory->host = gpu_alloc_pinned(bytes);
	CLAIM(memory->host, "%s", gpu_error());
	if (getenv("TEST_SEGMENTS")) {
		gpu = gpu_alloc_segments(bytes);
		CLAIM(gpu, "%s", gpu_error());
	} else {
		SUCCEEDS(tutti_cuda_mem_alloc(bytes, &gpu));
	}
	memory->gpu = gpu;
	return 0;
}

static int give(struct setting *s, struct memory *memory)
{
	tutti_comm_t comm = s->comm;

	gpu_free_pinned(memory->host);
	if (getenv("TEST_SEGMENTS"))
		CLAIM(gpu_free_segments(memory->gpu, memory->bytes), "%s", gpu_error());
	else
		tutti_cuda_mem_free(memory->gpu);
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

	if (take(&s, &s.send, bytes) || take(&s, &s.recv, bytes))
		return 1;
	s.expected = malloc(bytes);
	SUCCEEDS(tutti_barrier(comm, NULL)); /* memory is not taken while streams wait */
	if (check_all(&s, every))
		return 1;
	SUCCEEDS(tutti_cuda_register(comm, s.send.gpu, bytes, &windows[0]));
	SUCCEEDS(tutti_cuda_register(comm, s.recv.gpu, bytes, &windows[1]));
	s.in_windows = true;
	if (check_all(&s, every))
		return 1;
	SUCCEEDS(tutti_cuda_deregister(windows[0]));
	SUCCEEDS(tutti_cuda_deregister(windows[1]));
	free(s.expected);
	return give(&s, &s.send) || give(&s, &s.recv);
}

int main(int argc, char **argv)
{
	const struct job patient = { .limit_s = 280 };
	const int chosen = gpu_job_choose(argc, argv);

	if (chosen)
		return chosen;
	if (getenv("TEST_LONGER"))
		longer = (size_t)atoi(getenv("TEST_LONGER"));
	if (longer == 1)
		setenv("TUTTI_REPRODUCIBLE", "1", 1); /* the host combines in order of ranks, too */
	return gpu_job_run(body, NULL, &patient);
}
