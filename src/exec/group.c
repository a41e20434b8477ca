/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns groups. A thread's open groups are its own state, one per communicator. At the end the
 * collected calls are started in an order that does not depend on how a rank mixed them: small
 * all-reduces that can travel as one first in their place among the collectives, then sends and
 * receives, which have a channel of their own.
 *
 * Another thread may destroy the communicator of an open group. Nobody tells the thread that has
 * it open: a group is known by the communicator's serial number, which none has again, and never
 * looks at a communicator that is not at hand. What a thread has open when it ends is freed
 * then. */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "device_table.h"
#include "log.h"
#include "next_call.h"
#include "user_op.h"

#define FUSE_BYTES 4096		 /* an all-reduce up to this size may be fused */
#define FUSE_TOTAL (256u * 1024) /* into messages up to this one */

struct group {
	struct group *next;
	struct tutti_comm *comm; /* may be gone, and another in its place */
	uint64_t serial;	 /* its own */
	struct tt_call *calls;
	size_t n, capacity;
	tutti_result_t error; /* of the first call that was wrong, and why; NULL: no memory */
	char *why;
	struct tt_next_call *said; /* of all its calls; NULL: nothing */
	uint64_t element;	   /* said of the next call, as in struct tt_next_call */
};

/* All-reduces that travel as one: parts[i] of the buffer belong to recv[i]. */
struct tt_fused {
	struct tt_fused *next;
	uint8_t *buffer;
	size_t bytes, n;
	struct tt_counts members; /* elements of each, behind the parts */
	struct {
		void *recv;
		size_t offset, bytes;
	} part[];
};

static _Thread_local struct group *open_groups;
_Atomic unsigned tt_groups_open;

static bool is_of(const struct group *group, const struct tutti_comm *comm)
{
	return group->comm == comm && group->serial == comm->serial;
}

static struct group **find(const struct tutti_comm *comm)
{
	struct group **link = &open_groups;

	while (*link && !is_of(*link, comm))
		link = &(*link)->next;
	return link;
}

/* Count tables are the caller's only during the call: keep copies behind the call itself. */
static bool copy_tables(struct tt_call *call, int size)
{
	const size_t **tables[4] = { &call->send_counts, &call->send_displs, &call->recv_counts,
				     &call->recv_displs };
	const size_t bytes = (size_t)size * sizeof(size_t);

	for (int i = 0; i < 4; i++) {
		if (!*tables[i])
			continue;
		size_t *copy = malloc(bytes);

		if (!copy) {
			for (int k = i; k < 4; k++)
				*tables[k] = NULL;
			return false;
		}
		memcpy(copy, *tables[i], bytes);
		*tables[i] = copy;
	}
	return true;
}

static void free_tables(struct tt_call *call)
{
	free((void *)call->send_counts);
	free((void *)call->send_displs);
	free((void *)call->recv_counts);
	free((void *)call->recv_displs);
}

static void group_free(struct group *group)
{
	for (size_t i = 0; i < group->n; i++)
		free_tables(&group->calls[i]);
	free(group->calls);
	free(group->why);
	tt_next_call_free(group->said);
	free(group);
	atomic_fetch_sub_explicit(&tt_groups_open, 1, memory_order_relaxed);
}

static tutti_result_t append(struct group *group, const struct tt_call *call)
{
	if (group->n == group->capacity) {
		const size_t capacity = group->capacity ? 2 * group->capacity : 16;
		struct tt_call *grown = realloc(group->calls, capacity * sizeof(*grown));

		if (!grown)
			return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
				       "no memory for a group of %zu calls", capacity);
		group->calls = grown;
		group->capacity = capacity;
	}
	group->calls[group->n] = *call;
	group->calls[group->n].of_group = true;
	if (group->said) {
		group->calls[group->n].timeout_ns = group->said->timeout_ns;
		group->calls[group->n].caller = group->said->caller;
		group->calls[group->n].element = group->said->element;
		group->calls[group->n].wire = call->on_gpu ? 0 : group->said->wire;
	}
	if (group->element)
		group->calls[group->n].element = group->element;
	group->element = 0;
	if (!copy_tables(&group->calls[group->n], group->comm->size)) {
		free_tables(&group->calls[group->n]);
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "no memory for the counts of a call");
	}
	tt_user_op_hold(group->comm, call->op);
	group->n++;
	return TUTTI_OK;
}

tutti_result_t tt_group_refuse(const struct tutti_comm *comm, const char *call)
{
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, call);
	if (*find(comm))
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"%s: this thread has a group open on this communicator, which takes collectives, sends and "
			"receives only: call it before tutti_group_begin() or after tutti_group_end()",
			call);
	return TUTTI_OK;
}

bool tt_group_say_element(const struct tutti_comm *comm, uint64_t element)
{
	struct group *group = *find(comm);

	if (group)
		group->element = element;
	return group;
}

bool tt_group_keep(struct tutti_comm *comm, const struct tt_call *call, tutti_request_t *request,
		   tutti_result_t *result)
{
	struct group *group = *find(comm);

	if (__builtin_expect(!group, 1))
		return false;
	*result = tt_call_check(comm, call);
	if (!*result && request)
		*result = tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"%s: inside a group request must be NULL; tutti_group_end() gives one for all",
			tt_call_name(call));
	if (!*result) {
		*result = append(group, call);
		if (*result)
			*result = tt_comm_fail(comm, *result);
	}
	if (*result && !group->error) {
		group->error = *result;
		group->why = strdup(tt_thread_error());
	}
	return true;
}

/* ---- fusing */

void tt_fused_finish(struct tt_fused *fused, bool succeeded)
{
	while (fused) {
		struct tt_fused *next = fused->next;

		for (size_t i = 0; succeeded && i < fused->n; i++)
			memcpy(fused->part[i].recv, fused->buffer + fused->part[i].offset,
			       fused->part[i].bytes);
		free(fused->buffer);
		free(fused);
		fused = next;
	}
}

static bool fusable(const struct tt_call *call)
{
	return call->collective == TT_ALL_REDUCE && !call->on_gpu && call->count > 0 &&
	       call->count * tutti_dtype_size(call->dtype) <= FUSE_BYTES;
}

static bool fuse_with(const struct tt_call *a, const struct tt_call *b)
{
	return fusable(b) && a->dtype == b->dtype && a->op == b->op;
}

/* Gather what can travel with calls[first] into `out`; the calls taken are marked by count 0 and
 * no buffers. */
static tutti_result_t fuse(struct group *group, size_t first, struct tt_call *out,
			   struct tt_fused **fused_out)
{
	const struct tt_call head = group->calls[first];
	const size_t element = tutti_dtype_size(head.dtype);
	const size_t capacity = group->n - first;
	struct tt_fused *fused =
		calloc(1, sizeof(*fused) + capacity * (sizeof(fused->part[0]) + sizeof(size_t)));

	if (!fused)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "no memory to fuse a group");
	size_t *const counts = (size_t *)&fused->part[capacity];
	for (size_t i = first; i < group->n; i++)
		if (fuse_with(&head, &group->calls[i]) && fused->bytes < FUSE_TOTAL)
			fused->bytes += group->calls[i].count * element;
	fused->buffer = malloc(fused->bytes);
	if (!fused->buffer) {
		const tutti_result_t result = tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
						      "no memory to fuse %zu bytes", fused->bytes);
		free(fused);
		return result;
	}
	size_t at = 0;
	for (size_t i = first; i < group->n && at < fused->bytes; i++) {
		struct tt_call *call = &group->calls[i];
		const size_t bytes = call->count * element;

		if (!fuse_with(&head, call))
			continue;
		memcpy(fused->buffer + at, call->send, bytes);
		fused->part[fused->n].recv = call->recv;
		fused->part[fused->n].offset = at;
		counts[fused->n] = call->count;
		fused->part[fused->n++].bytes = bytes;
		at += bytes;
		call->collective = TT_COLLECTIVE_COUNT;
	}
	*out = head;
	out->send = out->recv = fused->buffer;
	out->count = fused->bytes / element;
	fused->members = (struct tt_counts){ counts, fused->n };
	out->part = TT_PART_GROUP;
	out->members = &fused->members; /* ranks must agree on each */
	out->detail = tt_counts_digest(out->members).hash;
	fused->next = *fused_out;
	*fused_out = fused;
	return TUTTI_OK;
}

static bool has_company(const struct group *group, size_t first)
{
	for (size_t i = first + 1; i < group->n; i++)
		if (fuse_with(&group->calls[first], &group->calls[i]))
			return true;
	return false;
}

/* ---- messages to oneself */

static bool is_to_self(const struct group *group, const struct tt_call *call)
{
	return call->collective == TT_SEND_RECV && !call->on_gpu && call->root == group->comm->rank;
}

/* The first that is left with this tag. */
static struct tt_call *receive_of(struct group *group, int tag)
{
	for (size_t i = 0; i < group->n; i++) {
		struct tt_call *call = &group->calls[i];

		if (is_to_self(group, call) && !call->sending && call->tag == tag)
			return call;
	}
	return NULL;
}

static bool fits(const struct tt_call *to, const struct tt_call *from)
{
	return to->dtype == from->dtype &&
	       (to->message ? to->count >= from->count : to->count == from->count);
}

static tutti_result_t copy_to_self(struct group *group)
{
	for (size_t send = 0; send < group->n; send++) {
		struct tt_call *from = &group->calls[send];

		if (!is_to_self(group, from) || !from->sending)
			continue;
		struct tt_call *to = receive_of(group, from->tag);
		if (!to || !fits(to, from))
			return tt_fail(
				TUTTI_ERR_INVALID, EXEC,
				"tutti_group_end: rank %d sends %zu %s to itself but receives %s",
				group->comm->rank, from->count, tutti_dtype_name(from->dtype),
				to ? "something else" : "nothing");
		if (from->count > 0)
			memmove(to->recv, from->send, from->count * tutti_dtype_size(from->dtype));
		if (to->message) {
			to->message->peer = group->comm->rank;
			to->message->count = from->count;
		}
		from->collective = to->collective = TT_COLLECTIVE_COUNT;
	}
	for (size_t i = 0; i < group->n; i++)
		if (is_to_self(group, &group->calls[i]))
			return tt_fail(
				TUTTI_ERR_INVALID, EXEC,
				"tutti_group_end: rank %d receives from itself but sends nothing",
				group->comm->rank);
	return TUTTI_OK;
}

/* ---- start */

static tutti_result_t start_pass(struct group *group, struct tutti_request *request, bool messages)
{
	for (size_t i = 0; i < group->n; i++) {
		struct tt_call call = group->calls[i];
		tutti_result_t result = TUTTI_OK;

		if (call.on_gpu || call.collective == TT_COLLECTIVE_COUNT ||
		    (call.collective == TT_SEND_RECV) != messages)
			continue;
		if (fusable(&call) && has_company(group, i))
			result = fuse(group, i, &call, &request->fused);
		if (!result)
			result = tt_call_start(group->comm, &call, request);
		if (result)
			return result;
	}
	return TUTTI_OK;
}

/* Those that are ordered on streams. Lock held, but not all the time. */
static tutti_result_t start_on_gpu(const struct group *group)
{
	const struct tt_call **calls;
	size_t n = 0;
	tutti_result_t result;

	for (size_t i = 0; i < group->n; i++)
		n += group->calls[i].on_gpu;
	if (n == 0)
		return TUTTI_OK;
	calls = malloc(n * sizeof(*calls));
	if (!calls)
		return tt_comm_give_up(group->comm,
				       tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
					       "no memory for a group of %zu calls", n));
	n = 0;
	for (size_t i = 0; i < group->n; i++)
		if (group->calls[i].on_gpu)
			calls[n++] = &group->calls[i];
	result = tt_device->start(group->comm, calls, n);
	free(calls);
	return result;
}

/* Lock held. */
static tutti_result_t start_all(struct group *group, struct tutti_request *request)
{
	struct tutti_comm *comm = group->comm;
	tutti_result_t result = tt_comm_state(comm);

	if (!result)
		result = copy_to_self(group);
	if (!result) /* these may turn out to be unsound: before any other has begun */
		result = start_on_gpu(group);
	if (result)
		return result;
	result = start_pass(group, request, false);
	if (!result)
		result = start_pass(group, request, true);
	if (result && request->pending) { /* what was started cannot be taken back */
		tt_comm_revoke_for(comm, result);
		tt_comm_progress(comm);
	}
	return result ? tt_comm_give_up(comm, result) : TUTTI_OK;
}

/* Calls with buffers on GPUs are to work on the host. */
static tutti_result_t stage_all(struct group *group, struct tutti_request *request)
{
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < group->n && !result; i++)
		if (!group->calls[i].on_gpu && !group->calls[i].host_buffers)
			result = tt_device->stage(group->comm, &group->calls[i], &request->staged);
	return result ? tt_comm_fail(group->comm, result) : TUTTI_OK;
}

static tutti_result_t run(struct group *group, tutti_request_t *request)
{
	struct tutti_comm *comm = group->comm;
	struct tutti_request *started = calloc(1, sizeof(*started));

	if (!started)
		return tt_comm_fail(comm, tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
						  "tutti_group_end: no memory for a request"));
	started->comm = comm;
	started->owner = comm->owner;
	tutti_result_t result = tt_device_may_have_buffers() ? stage_all(group, started) : TUTTI_OK;
	tt_comm_lock(comm);
	if (!result)
		result = start_all(group, started);
	if (!result && !request) {
		tt_comm_wait(comm, &started->pending);
		result = tt_comm_report(comm, started->result);
	} else if (!result) {
		tt_request_hand_out(started);
		tt_comm_progress(comm);
		if (started->pending)
			tt_progress_thread_want(comm);
	}
	pthread_mutex_unlock(&comm->lock);
	if (result || !request) {
		started->result = result;
		result = tt_request_finish(started);
		free(started);
	} else {
		*request = started;
	}
	return result;
}

/* ---- life */

static pthread_key_t ending; /* of a thread: its value is set where it has had a group open */
static pthread_once_t ending_once = PTHREAD_ONCE_INIT;
static bool ending_known;

static void drop_all(void *unused)
{
	(void)unused;
	while (open_groups) {
		struct group *group = open_groups;

		open_groups = group->next;
		group_free(group);
	}
}

static void make_ending(void)
{
	ending_known = pthread_key_create(&ending, drop_all) == 0;
}

/* This thread's groups end with it at the latest. (Where the system has no key left for that,
 * they stay.) */
static void end_with_thread(void)
{
	pthread_once(&ending_once, make_ending);
	if (ending_known)
		pthread_setspecific(ending, &open_groups);
}

void tt_group_drop(const struct tutti_comm *comm)
{
	struct group **link = find(comm), *group = *link;

	if (!group)
		return;
	*link = group->next;
	group_free(group);
}

TUTTI_API tutti_result_t tutti_group_begin(tutti_comm_t comm)
{
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_group_begin");

	if (refused)
		return refused;
	struct group *group = calloc(1, sizeof(*group));
	if (!group)
		return tt_comm_fail(comm, tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
						  "tutti_group_begin: no memory for a group"));
	end_with_thread();
	atomic_fetch_add_explicit(&tt_groups_open, 1, memory_order_relaxed);
	group->comm = comm;
	group->serial = comm->serial;
	tt_comm_lock(comm);
	if (comm->next_calls)
		group->said = tt_next_call_take(comm);
	pthread_mutex_unlock(&comm->lock);
	group->next = open_groups;
	open_groups = group;
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_group_end(tutti_comm_t comm, tutti_request_t *request)
{
	struct group **link = find(comm);
	struct group *group = *link;

	if (request)
		*request = NULL;
	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_group_end");
	if (!group)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_group_end: this thread has no group open on this communicator; call "
			"tutti_group_begin() first");
	*link = group->next;
	if (group->why) /* other calls may have failed since */
		tt_thread_error_set(group->why);
	const tutti_result_t result = group->error ? group->error : run(group, request);
	for (size_t i = 0; i < group->n; i++)
		tt_user_op_let_go(comm, group->calls[i].op);
	group_free(group);
	return result;
}
