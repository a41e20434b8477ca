/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way by the host. A stream copies a piece of the input to pinned memory and tells its number (`gone`); a thread has the host's collective make the result of it, also in
 * pinned memory, and tells that (`done`); the stream waits for it and copies the result to the GPU. While the host works on a piece, the stream brings the next
 * one, and several are on their way between the hosts.
 *
 * The thread has a communicator of its own with the same ranks, so that what it calls does not mix with the program's plain calls. Pieces are numbered
 * in the order in which they are put on streams, which is the same on all ranks. Those of a captured stream are kept: their numbers come again whenever the graph is launched. */
#include "relay.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "call.h"
#include "levels.h"
#include "log.h"
#include "machine.h"
#include "names.h"
#include "thread.h"

#define SLOTS	    (TT_CUDA_RELAY_AHEAD + 1)
#define YIELD_NS    1000000 /* that the thread looks for word of the GPU before it begins to sleep between two looks: nothing can wake it */
#define SLEEP_NS    50000
#define IDLE_NS	    100000000 /* that nothing came: then it sleeps longer */
#define LONG_NS	    500000
#define RELEASED    (1ull << 62) /* more than any piece's number */

/* In pinned memory, one line each. */
struct words {
	struct tt_cuda_report report; /* first: it is freed by its own address */
	struct {
		_Alignas(64) uint64_t gone; /* written by streams: the piece that lies in the slot; the thread makes it 0 when it has seen it */
		_Alignas(64) uint64_t done; /* written by the thread: the piece whose result does. Streams make it 0 before a piece that had the number before */
	} slot[SLOTS];
};

struct piece {
	struct piece *next;
	uint64_t number;
	struct tt_call *calls; /* one collective, or messages that go together */
	size_t ncalls;
	tutti_comm_t comm; /* among whose ranks */
	struct tt_card whole; /* between islands: what the program called */
	tutti_request_t request;
	bool recorded; /* of a captured stream: kept */
	size_t scaled; /* elements of input that are multiplied first, of a pre-multiplied sum */
	uint8_t scalar[8];
};

struct slot {
	uint8_t *memory;
	size_t room;
};

struct tt_cuda_relay {
	struct tt_cuda *cuda;
	tutti_comm_t comm;   /* of all ranks */
	tutti_comm_t across; /* of those that have this one's place on their islands; NULL: there are none */
	struct words *words;
	struct slot slots[SLOTS];
	struct slot *outgrown; /* memory that a stream may still read */
	size_t noutgrown;
	uint64_t numbers;
	struct tt_card whole; /* of the piece that is put next, between islands */
	/* results that the stream has not asked for yet, of the pieces of one operation */
	struct {
		struct tt_cuda_run *runs;
		size_t n;
	} results[SLOTS];
	pthread_t thread;
	struct piece *running[SLOTS]; /* the thread's */
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct piece *first, *last; /* behind the lock: not done, in order */
	struct piece **recorded;    /* likewise, in order */
	size_t nrecorded;	    /* likewise */
	bool stop, failed, released; /* likewise */
};

/* ---- the thread */

/* Words that the GPU writes; acquire: what it copied before is there. */
static uint64_t read_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void free_calls(struct tt_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((void *)calls[i].send_counts);
		free((void *)calls[i].recv_counts);
	}
	free(calls);
}

static void free_piece(struct piece *piece)
{
	free_calls(piece->calls, piece->ncalls);
	free(piece);
}

/* A communicator across islands numbers ranks by itself: the sentence says so, and the fault's rank becomes the caller's number. */
static void rename_ranks(const struct tt_cuda *cuda, const struct tt_card *whole, struct tt_fault *fault)
{
	char text[sizeof(fault->text)], called[160];

	tt_card_describe(whole, called, sizeof(called));
	snprintf(text, sizeof(text), "%s", fault->text);
	fault->rank = fault->rank < 0 ? -1 : tt_cuda_rank_across(cuda, fault->rank);
	snprintf(fault->text, sizeof(fault->text), "a piece of %s, between islands of GPUs, on each of which one rank is numbered anew (rank 0 is rank %d, rank 1 is rank %d, …): %.300s",
		 called, tt_cuda_rank_across(cuda, 0), tt_cuda_rank_across(cuda, 1), text);
}

/* The fault of the piece's communicator becomes that of the caller's. */
static void fail(struct tt_cuda_relay *relay, const struct piece *piece)
{
	struct tutti_comm *comm = relay->cuda->comm, *by = piece->comm;
	struct tt_fault fault = { .result = TUTTI_ERR_SYSTEM, .rank = comm->rank };

	snprintf(fault.text, sizeof(fault.text), "rank %d: %s", comm->rank, tt_thread_error());
	pthread_mutex_lock(&by->lock);
	const bool told = tt_comm_state(by);
	if (told)
		fault = by->fault;
	pthread_mutex_unlock(&by->lock);
	if (told && by == relay->across)
		rename_ranks(relay->cuda, &piece->whole, &fault);
	pthread_mutex_lock(&relay->lock);
	relay->failed = true;
	pthread_mutex_unlock(&relay->lock);
	pthread_mutex_lock(&comm->lock);
	tt_comm_revoke(comm, &fault);
	pthread_mutex_unlock(&comm->lock);
	tt_cuda_watch_busy(relay->cuda, false); /* which lets streams go on once all ranks know */
}

static tutti_result_t start(struct piece *piece)
{
	tutti_result_t result = TUTTI_OK, ended;

	if (piece->scaled) { /* in place: what lies in pinned memory is a copy already */
		void *const input = (void *)(uintptr_t)piece->calls[0].send;

		piece->comm->kernels->scale[piece->calls[0].dtype](input, input, piece->scaled, piece->scalar);
	}
	if (piece->ncalls == 1)
		return tt_call_submit(piece->comm, &piece->calls[0], &piece->request);
	result = tutti_group_begin(piece->comm);
	for (size_t i = 0; i < piece->ncalls && !result; i++)
		result = tt_call_submit(piece->comm, &piece->calls[i], NULL);
	ended = tutti_group_end(piece->comm, &piece->request);
	return result ? result : ended;
}

static uint64_t lowest_gone(const struct tt_cuda_relay *relay)
{
	uint64_t lowest = 0;

	for (int i = 0; i < SLOTS; i++) {
		const uint64_t number = read_word(&relay->words->slot[i].gone);

		lowest = number && (!lowest || number < lowest) ? number : lowest;
	}
	return lowest;
}

/* Pieces are started in order of their numbers: those that lie there are of one operation, and whoever sees one then sees all that came before it. 0: none has come. */
static uint64_t next_gone(const struct tt_cuda_relay *relay)
{
	uint64_t seen = lowest_gone(relay), again;

	while (seen && (again = lowest_gone(relay)) != seen)
		seen = again;
	return seen;
}

static int by_number(const void *key, const void *member)
{
	const uint64_t number = *(const uint64_t *)key, other = (*(struct piece *const *)member)->number;

	return number < other ? -1 : number > other;
}

/* NULL: whoever put it on the stream has yet to tell the thread of it. */
static struct piece *find_piece(struct tt_cuda_relay *relay, uint64_t number)
{
	pthread_mutex_lock(&relay->lock);
	struct piece *piece = relay->first;
	while (piece && piece->number != number)
		piece = piece->next;
	if (!piece && relay->nrecorded) {
		struct piece **found = bsearch(&number, relay->recorded, relay->nrecorded, sizeof(struct piece *), by_number);

		piece = found ? *found : NULL;
	}
	pthread_mutex_unlock(&relay->lock);
	return piece;
}

static void finish(struct tt_cuda_relay *relay, int slot)
{
	struct piece *piece = relay->running[slot], *before = NULL, **link = &relay->first;

	relay->running[slot] = NULL;
	pthread_mutex_lock(&relay->lock);
	if (!relay->released) /* release: the result is in pinned memory; pairs with the stream's wait */
		__atomic_store_n(&relay->words->slot[slot].done, piece->number, __ATOMIC_RELEASE);
	while (!piece->recorded && *link != piece) {
		before = *link;
		link = &before->next;
	}
	if (!piece->recorded) {
		*link = piece->next;
		relay->last = relay->last == piece ? before : relay->last;
	}
	pthread_mutex_unlock(&relay->lock);
	if (!piece->recorded)
		free_piece(piece);
}

/* Start what has come, end what has ended. True if anything did. `failed`: NULL if none did. */
static bool advance(struct tt_cuda_relay *relay, struct piece **failed)
{
	const uint64_t number = next_gone(relay);
	struct piece *piece = number ? find_piece(relay, number) : NULL;
	bool moved = piece != NULL;

	*failed = NULL;
	if (piece) {
		__atomic_store_n(&relay->words->slot[number % SLOTS].gone, 0, __ATOMIC_RELAXED); /* the stream writes there again once it has seen `done` */
		relay->running[number % SLOTS] = piece;
		if (start(piece) < 0)
			*failed = piece;
	}
	for (int i = 0; i < SLOTS && !*failed; i++) {
		if (!relay->running[i])
			continue;
		const tutti_result_t result = tutti_test(&relay->running[i]->request);

		if (result < 0)
			*failed = relay->running[i];
		else if (result == TUTTI_OK)
			finish(relay, i);
		moved |= result == TUTTI_OK;
	}
	return moved;
}

/* `busy`: the host works on something. */
static void pause_for(uint64_t since, bool busy)
{
	const uint64_t idle = tt_now() - since;
	const struct timespec little = { 0, busy || idle < IDLE_NS ? SLEEP_NS : LONG_NS };

	if (idle < YIELD_NS)
		sched_yield();
	else
		nanosleep(&little, NULL);
}

/* Until something may come; false: the thread is to end. */
static bool await(struct tt_cuda_relay *relay)
{
	pthread_mutex_lock(&relay->lock);
	while (!relay->stop && ((!relay->first && !relay->nrecorded) || relay->failed || relay->released))
		pthread_cond_wait(&relay->wanted, &relay->lock);
	const bool go_on = !relay->stop;
	pthread_mutex_unlock(&relay->lock);
	return go_on;
}

static bool is_busy(const struct tt_cuda_relay *relay)
{
	bool busy = false;

	for (int i = 0; i < SLOTS; i++)
		busy |= relay->running[i] != NULL;
	return busy;
}

static void *relay_main(void *argument)
{
	struct tt_cuda_relay *relay = argument;
	uint64_t since = tt_now();
	struct piece *failed;

	prctl(PR_SET_NAME, "tutti-relay");
	while (await(relay)) {
		if (advance(relay, &failed))
			since = tt_now();
		else
			pause_for(since, is_busy(relay));
		if (failed)
			fail(relay, failed);
	}
	return NULL;
}

void tt_cuda_relay_release(struct tt_cuda *cuda)
{
	struct tt_cuda_relay *relay = cuda->relay;

	pthread_mutex_lock(&relay->lock);
	relay->released = true;
	pthread_mutex_unlock(&relay->lock);
	for (int i = 0; i < SLOTS; i++)
		__atomic_store_n(&relay->words->slot[i].done, RELEASED, __ATOMIC_RELEASE); /* pairs with the stream's wait */
}

/* ---- what goes onto streams */

static union CUstreamBatchMemOpParams_union write_word(uint64_t *word, uint64_t value)
{
	union CUstreamBatchMemOpParams_union write = { .pad = { 0 } };

	write.writeValue.operation = CUDA_MEM_OP_WRITE_64;
	write.writeValue.address = (cuda_address)(uintptr_t)word;
	write.writeValue.value64 = value;
	return write;
}

static cuda_result tell_gone(struct tt_cuda_op *op, uint64_t number)
{
	struct words *words = op->cuda->relay->words;
	union CUstreamBatchMemOpParams_union writes[] = { write_word(&words->slot[number % SLOTS].done, 0), write_word(&words->slot[number % SLOTS].gone, number) };
	const unsigned first = op->captured ? 0 : 1; /* another number is greater than all that were there */

	return op->cuda->driver->stream_mem_ops(op->stream, 2 - first, writes + first, 0);
}

static cuda_result await_done(struct tt_cuda_op *op, uint64_t number)
{
	union CUstreamBatchMemOpParams_union wait = { .pad = { 0 } };

	wait.waitValue.operation = CUDA_MEM_OP_WAIT_64;
	wait.waitValue.address = (cuda_address)(uintptr_t)&op->cuda->relay->words->slot[number % SLOTS].done;
	wait.waitValue.value64 = number;
	wait.waitValue.flags = CUDA_WAIT_AT_LEAST;
	return op->cuda->driver->stream_mem_ops(op->stream, 1, &wait, 0);
}

static struct slot *slot_of(struct tt_cuda_relay *relay, uint64_t number)
{
	return &relay->slots[number % SLOTS];
}

/* Also while this thread captures a stream: the memory is none of the graph's business. */
static cuda_result take_pinned(const struct cuda_driver *driver, size_t bytes, void **out)
{
	unsigned mode = CUDA_CAPTURE_RELAXED;

	driver->thread_capture_mode(&mode);
	const cuda_result error = driver->mem_host_alloc(out, bytes, CUDA_HOST_PORTABLE);
	driver->thread_capture_mode(&mode); /* as it was */
	return error;
}

/* Room for a piece. What was there before may still be read by a stream, and is kept. */
static tutti_result_t reserve(struct tt_cuda_relay *relay, struct slot *slot, size_t bytes)
{
	const size_t room = slot->room * 2 > bytes ? slot->room * 2 : bytes;
	struct slot *outgrown;
	void *memory;
	char what[64];

	if (bytes <= slot->room)
		return TUTTI_OK;
	outgrown = realloc(relay->outgrown, (relay->noutgrown + 1) * sizeof(*outgrown));
	if (!outgrown)
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the list of pinned memory");
	relay->outgrown = outgrown;
	const cuda_result error = take_pinned(relay->cuda->driver, room, &memory);
	if (error) {
		snprintf(what, sizeof(what), "take %zu bytes of pinned memory", room);
		tt_cuda_fail(relay->cuda->driver, what, error);
		return error == CUDA_OUT_OF_MEMORY ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM;
	}
	if (slot->memory)
		relay->outgrown[relay->noutgrown++] = *slot;
	*slot = (struct slot){ memory, room };
	return TUTTI_OK;
}

/* The stream waits for the result of that piece, and copies it to the GPU. */
static cuda_result fetch_result(struct tt_cuda_op *op, uint64_t number)
{
	struct tt_cuda_relay *relay = op->cuda->relay;
	const uint8_t *memory = slot_of(relay, number)->memory;
	struct tt_cuda_run *runs = relay->results[number % SLOTS].runs;
	cuda_result error = await_done(op, number);

	for (size_t i = 0; i < relay->results[number % SLOTS].n && !error; i++)
		error = runs[i].bytes == 0 ? 0 : op->cuda->driver->mem_copy(runs[i].gpu, (cuda_address)(uintptr_t)(memory + runs[i].at), runs[i].bytes, op->stream);
	free(runs);
	relay->results[number % SLOTS].runs = NULL;
	return error;
}

/* Of a pre-multiplied sum the thread's communicator sees the sum alone. The factor is copied: before the stream comes to the piece, the operation may be
 * destroyed and its number be another's. The number stays part of the call, as ranks have to agree on it. */
static void scale_first(struct tt_cuda *cuda, struct piece *piece, const struct tt_cuda_run *inputs, size_t ninputs)
{
	struct tt_call *call = &piece->calls[0];

	if (call->op < TUTTI_OP_COUNT)
		return;
	for (size_t i = 0; i < ninputs; i++)
		piece->scaled += inputs[i].bytes / tutti_dtype_size(call->dtype);
	pthread_mutex_lock(&cuda->comm->lock);
	memcpy(piece->scalar, cuda->comm->user_ops[call->op - TUTTI_OP_COUNT].scalar, sizeof(piece->scalar));
	pthread_mutex_unlock(&cuda->comm->lock);
	call->detail = (uint64_t)call->op;
	call->op = TUTTI_SUM;
}

/* The thread is to know of it. False: no memory. */
static bool enlist(struct tt_cuda_relay *relay, struct piece *piece)
{
	bool well = true;

	pthread_mutex_lock(&relay->lock);
	if (piece->recorded) {
		struct piece **recorded = realloc(relay->recorded, (relay->nrecorded + 1) * sizeof(*recorded));

		well = recorded != NULL;
		relay->recorded = well ? recorded : relay->recorded;
		if (well)
			recorded[relay->nrecorded++] = piece;
	} else {
		*(relay->first ? &relay->last->next : &relay->first) = piece;
		relay->last = piece;
	}
	pthread_cond_signal(&relay->wanted);
	pthread_mutex_unlock(&relay->lock);
	return well;
}

/* A piece: its input to pinned memory, and the thread is told. The calls' buffers are offsets in pinned memory still. Takes `calls` and `results` over. */
static tutti_result_t put_piece(struct tt_cuda_op *op, tutti_comm_t comm, struct tt_call *calls, size_t ncalls, const struct tt_cuda_run *inputs, size_t ninputs, struct tt_cuda_run *results,
				size_t nresults, size_t bytes, uint64_t *number)
{
	struct tt_cuda_relay *relay = op->cuda->relay;
	struct piece *piece = calloc(1, sizeof(*piece));
	struct slot *slot = slot_of(relay, relay->numbers + 1);
	tutti_result_t result = piece ? reserve(relay, slot, bytes) : tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for a piece of an operation");
	cuda_result error = 0;

	if (result) {
		free(piece);
		free_calls(calls, ncalls);
		free(results);
		return result;
	}
	*number = ++relay->numbers;
	*piece = (struct piece){ .number = *number, .comm = comm, .whole = relay->whole, .calls = calls, .ncalls = ncalls, .recorded = op->captured };
	for (size_t i = 0; i < ncalls; i++) {
		calls[i].send = slot->memory + (uintptr_t)calls[i].send;
		calls[i].recv = slot->memory + (uintptr_t)calls[i].recv;
	}
	scale_first(op->cuda, piece, inputs, ninputs);
	relay->results[*number % SLOTS].runs = results;
	relay->results[*number % SLOTS].n = nresults;
	for (size_t i = 0; i < ninputs && !error; i++)
		error = inputs[i].bytes == 0 ? 0 : op->cuda->driver->mem_copy((cuda_address)(uintptr_t)(slot->memory + inputs[i].at), inputs[i].gpu, inputs[i].bytes, op->stream);
	if (!error)
		error = tell_gone(op, *number);
	if (!enlist(relay, piece)) {
		free_piece(piece);
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for the list of what graphs go by the host for");
	}
	return error ? tt_cuda_fail(op->cuda->driver, "bring input to the host", error) : TUTTI_OK;
}

/* The results of pieces up to `number` that were not fetched yet. */
static tutti_result_t fetch_results(struct tt_cuda_op *op, uint64_t *next, uint64_t number)
{
	cuda_result error = 0;

	for (; *next <= number && !error; ++*next)
		error = fetch_result(op, *next);
	return error ? tt_cuda_fail(op->cuda->driver, "bring results to the GPU", error) : TUTTI_OK;
}

/* ---- collectives */

/* The blocks that a rank has on one side. */
static size_t blocks_of(const struct tutti_comm *comm, const struct tt_layout *layout)
{
	if (layout->kind == TT_LAYOUT_NONE)
		return 0;
	return layout->kind == TT_LAYOUT_BLOCKS || layout->kind == TT_LAYOUT_TABLE ? (size_t)comm->size : 1;
}

/* Elements [from, from + n) of each block of a side, packed from `*at` on; of a _v form, all. */
static size_t list_runs(const struct tutti_comm *comm, const struct tt_call *call, const struct tt_layout *layout, const void *buffer, size_t from, size_t n,
			struct tt_cuda_run *runs, size_t *at)
{
	const size_t element = tutti_dtype_size(call->dtype), blocks = blocks_of(comm, layout);
	size_t packed = 0, count = 0;

	for (size_t i = 0; i < blocks; i++) {
		const size_t block = layout->kind == TT_LAYOUT_OWN ? (size_t)layout->own : i;
		const size_t elements = layout->counts ? layout->counts[block] : n;
		const size_t begin = layout->kind != TT_LAYOUT_TABLE ? i * layout->count + from : layout->displs ? layout->displs[block] : packed;

		packed += elements;
		if (elements == 0)
			continue;
		runs[count++] = (struct tt_cuda_run){ (cuda_address)(uintptr_t)buffer + begin * element, *at, elements * element };
		*at += elements * element;
	}
	*at = (*at + 63) / 64 * 64;
	return count;
}

static const size_t *copy_table(const size_t *table, int size)
{
	size_t *copy = malloc((size_t)size * sizeof(*copy));

	return copy ? memcpy(copy, table, (size_t)size * sizeof(*copy)) : NULL;
}

static tutti_result_t put_collective_piece(struct tt_cuda_op *op, const struct tt_layout sides[2], size_t from, size_t n, uint64_t *number)
{
	const struct tutti_comm *comm = op->cuda->comm;
	const size_t size = (size_t)comm->size;
	struct tt_call *call = malloc(sizeof(*call));
	struct tt_cuda_run *inputs = malloc(size * sizeof(*inputs)), *results = malloc(size * sizeof(*results));
	size_t at = 0, ninputs, nresults, recv_at;
	tutti_result_t result;

	if (!call || !inputs || !results)
		goto no_memory;
	*call = *op->call;
	call->on_gpu = false;
	call->count = n;
	call->send_displs = call->recv_displs = NULL;
	if ((call->send_counts && !(call->send_counts = copy_table(call->send_counts, comm->size))) ||
	    (call->recv_counts && !(call->recv_counts = copy_table(call->recv_counts, comm->size))))
		goto no_memory;
	ninputs = list_runs(comm, op->call, &sides[0], op->call->send, from, n, inputs, &at);
	recv_at = at;
	nresults = list_runs(comm, op->call, &sides[1], op->call->recv, from, n, results, &at);
	if (call->collective == TT_EXSCAN && comm->rank == 0) /* it gets nothing */
		nresults = 0;
	call->send = (const void *)(uintptr_t)0;
	call->recv = (void *)(uintptr_t)recv_at; /* for now, the offset */
	result = put_piece(op, op->cuda->relay->comm, call, 1, inputs, ninputs, results, nresults, at + 64, number);
	free(inputs);
	return result;
no_memory:
	free(call);
	free(inputs);
	free(results);
	return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory for a piece of it", tt_call_name(op->call));
}

tutti_result_t tt_cuda_relay_collective(struct tt_cuda_op *op)
{
	const struct tt_call *call = op->call;
	const struct tutti_comm *comm = op->cuda->comm;
	const struct tt_layout sides[2] = { tt_layout_of(comm, call, 1, true), tt_layout_of(comm, call, 1, false) };
	const size_t element = tutti_dtype_size(call->dtype);
	const bool of_v = call->send_counts || call->recv_counts;
	/* the same on all ranks, whatever blocks each has */
	const size_t blocks = tt_collective_of_vector(call->collective) ? 1 : (size_t)comm->size;
	const size_t each = of_v ? call->count : TT_CUDA_RELAY_PIECE / element / blocks + 1;
	uint64_t next = op->cuda->relay->numbers + 1, number = 0;
	size_t from = 0;
	tutti_result_t result;

	do {
		const size_t n = of_v || call->count - from < each ? call->count - from : each;

		result = put_collective_piece(op, sides, from, n, &number);
		if (!result && number >= next + TT_CUDA_RELAY_AHEAD)
			result = fetch_results(op, &next, number - TT_CUDA_RELAY_AHEAD);
		from += n;
	} while (!result && from < call->count && !of_v);
	return result ? result : fetch_results(op, &next, number);
}

/* ---- pieces of operations in two levels */

uint64_t tt_cuda_relay_next(const struct tt_cuda *cuda)
{
	return cuda->relay->numbers + 1;
}

tutti_result_t tt_cuda_relay_put(struct tt_cuda_op *op, const struct tt_card *whole, const struct tt_call *call, const struct tt_cuda_run *inputs, size_t ninputs,
				 const struct tt_cuda_run *results, size_t nresults, size_t bytes, uint64_t *number)
{
	struct tt_cuda_relay *relay = op->cuda->relay;
	struct tt_call *own_call = malloc(sizeof(*own_call));
	struct tt_cuda_run *own_results = malloc((nresults + 1) * sizeof(*own_results));

	if (!own_call || !own_results) {
		free(own_call);
		free(own_results);
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "%s: no memory for a piece of it", tt_call_name(op->call));
	}
	*own_call = *call;
	for (size_t i = 0; i < nresults; i++)
		own_results[i] = results[i];
	relay->whole = *whole;
	return put_piece(op, relay->across, own_call, 1, inputs, ninputs, own_results, nresults, bytes + 64, number);
}

tutti_result_t tt_cuda_relay_fetch(struct tt_cuda_op *op, uint64_t number)
{
	return fetch_results(op, &(uint64_t){ number }, number);
}

/* ---- messages */

/* The next pieces of all messages that are not done, which go together. */
static tutti_result_t put_turn(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n, uint64_t *number, bool *more)
{
	struct tt_call *calls = calloc(n, sizeof(*calls));
	struct tt_cuda_run *inputs = malloc(n * sizeof(*inputs)), *results = malloc(n * sizeof(*results));
	size_t ncalls = 0, ninputs = 0, nresults = 0, at = 0;

	*more = false;
	if (!calls || !inputs || !results) {
		free(calls);
		free(inputs);
		free(results);
		return tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory for %zu messages", n);
	}
	for (size_t i = 0; i < n; i++) {
		struct tt_cuda_message *message = &messages[i];
		const size_t left = message->bytes - message->done, bytes = left < TT_CUDA_ROOM_BYTES ? left : TT_CUDA_ROOM_BYTES;
		const struct tt_cuda_run run = { message->buffer + message->done, at, bytes };

		if (message->pieces++ && left == 0)
			continue;
		calls[ncalls++] = (struct tt_call){ .collective = TT_SEND_RECV, .sending = message->sending, .dtype = message->call->dtype, .op = -1, .root = message->peer,
						    .send = message->sending ? (const void *)(uintptr_t)at : NULL, .recv = (void *)(uintptr_t)at,
						    .count = bytes / tutti_dtype_size(message->call->dtype) };
		if (bytes > 0)
			*(message->sending ? &inputs[ninputs++] : &results[nresults++]) = run;
		message->done += bytes;
		at += (bytes + 63) / 64 * 64;
		*more |= message->done < message->bytes;
	}
	const tutti_result_t result = put_piece(op, op->cuda->relay->comm, calls, ncalls, inputs, ninputs, results, nresults, at + 64, number);
	free(inputs);
	return result;
}

tutti_result_t tt_cuda_relay_messages(struct tt_cuda_op *op, struct tt_cuda_message *messages, size_t n)
{
	uint64_t next = op->cuda->relay->numbers + 1, number = 0;
	tutti_result_t result = TUTTI_OK;

	for (bool more = n > 0; more && !result;) {
		result = put_turn(op, messages, n, &number, &more);
		if (!result && number >= next + TT_CUDA_RELAY_AHEAD)
			result = fetch_results(op, &next, number - TT_CUDA_RELAY_AHEAD);
	}
	return result ? result : fetch_results(op, &next, number);
}

/* ---- its life */

static tutti_result_t make(struct tt_cuda *cuda, struct tt_cuda_relay *relay)
{
	void *words;
	const cuda_result error = cuda->driver->mem_host_alloc(&words, sizeof(*relay->words), CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);

	if (error)
		return tt_cuda_fail(cuda->driver, "take a page of pinned memory", error);
	memset(words, 0, sizeof(*relay->words));
	relay->words = words;
	cuda->report = &relay->words->report;
	const int failed = tt_thread_begin(&relay->thread, relay_main, relay);
	return failed ? tt_fail(TUTTI_ERR_SYSTEM, CUDA, "begin the thread between streams and the host: %s", strerror(failed)) : TUTTI_OK;
}

tutti_result_t tt_cuda_relay_begin(struct tt_cuda *cuda)
{
	struct tt_cuda_relay *relay = calloc(1, sizeof(*relay));

	if (!relay) /* the others split already */
		return tt_comm_fail(cuda->comm, tt_fail(TUTTI_ERR_NO_MEMORY, CUDA, "no memory to go by the host"));
	relay->cuda = cuda;
	pthread_mutex_init(&relay->lock, NULL);
	pthread_cond_init(&relay->wanted, NULL);
	tutti_result_t result = tutti_comm_split(cuda->comm, 0, cuda->comm->rank, &relay->comm);
	if (!result)
		result = make(cuda, relay);
	if (!result) {
		cuda->relay = relay;
		return TUTTI_OK;
	}
	tutti_comm_destroy(relay->comm);
	free(relay);
	return result;
}

tutti_result_t tt_cuda_relay_across(struct tt_cuda *cuda, int place, int island)
{
	tutti_comm_t across;
	const tutti_result_t result = tutti_comm_split(cuda->comm, place, island, &across);

	if (result)
		return result;
	/* who does not come to an operation is missed by its own island first, which knows it by name */
	across->settings.timeout_ns += across->settings.timeout_ns / 4;
	cuda->relay->across = across;
	return TUTTI_OK;
}

void tt_cuda_relay_end(struct tt_cuda *cuda, bool frees)
{
	struct tt_cuda_relay *relay = cuda->relay;

	if (!relay)
		return;
	pthread_mutex_lock(&relay->lock);
	relay->stop = true;
	pthread_cond_signal(&relay->wanted);
	pthread_mutex_unlock(&relay->lock);
	pthread_join(relay->thread, NULL);
	tutti_comm_destroy(relay->across);
	tutti_comm_destroy(relay->comm);
	while (relay->first) {
		struct piece *piece = relay->first;

		relay->first = piece->next;
		free_piece(piece);
	}
	for (size_t i = 0; i < relay->nrecorded; i++)
		free_piece(relay->recorded[i]);
	free(relay->recorded);
	for (int i = 0; i < SLOTS; i++)
		free(relay->results[i].runs);
	for (size_t i = 0; i < relay->noutgrown && frees; i++)
		cuda->driver->mem_host_free(relay->outgrown[i].memory);
	for (int i = 0; i < SLOTS; i++)
		if (relay->slots[i].memory && frees)
			cuda->driver->mem_host_free(relay->slots[i].memory);
	pthread_cond_destroy(&relay->wanted);
	pthread_mutex_destroy(&relay->lock);
	free(relay->outgrown);
	free(relay);
	cuda->relay = NULL;
}
