/* SPDX-License-Identifier: BSD-3-Clause */
/* What the flight recorder keeps of an operation. Always on, so what an operation costs matters:
 * a line of stores, and two readings of the processor's counter, about 15 ns each. A short
 * operation on the control area (plan->hot) must not wait for them: it is noted when its part
 * lies on the control area, while the peers answer, and its end has the time of the last look at
 * them that was made anyway. Likewise a short message is noted when it is on its way, or has not come
 * yet. The lock is held for all. */
#ifndef TT_OP_RECORD_H
#define TT_OP_RECORD_H

#include "op.h"
#include "recorder.h"

/* Begin its line. `now`: when it was called, and, if `moved`, when its first data did. */
static inline void tt_recorder_begin(struct tt_op *op, uint64_t now, bool moved)
{
	struct tt_recording *recorder = &op->comm->recording;
	const uint64_t number = recorder->next++;
	struct tt_flight_op *record = &recorder->flight->ops[number % TT_FLIGHT_OPS];

	if (__builtin_expect(number == recorder->capacity, 0))
		tt_recorder_extend(op->comm);
	atomic_store_explicit(&record->number, 0, memory_order_relaxed);
	/* release: pairs with the acquire fence in tt_flight_read_op() */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&record->seq, op->header.seq, memory_order_relaxed);
	atomic_store_explicit(&record->posted, now, memory_order_relaxed);
	atomic_store_explicit(&record->first, moved ? now : 0, memory_order_relaxed);
	atomic_store_explicit(&record->done, 0, memory_order_relaxed);
	atomic_store_explicit(&record->result, 0, memory_order_relaxed);
	if (op->kind == TT_OP_MESSAGE) {
		atomic_store_explicit(&record->what, op->header.count, memory_order_relaxed);
		atomic_store_explicit(&record->peer, tt_message_peer(op), memory_order_relaxed);
		atomic_store_explicit(&record->kind,
				      op->cursors[0].sending ? TT_FLIGHT_SEND : TT_FLIGHT_RECV,
				      memory_order_relaxed);
		atomic_store_explicit(&record->dtype, op->header.dtype, memory_order_relaxed);
	} else if (op->kind == TT_OP_ONE_SIDED) {
		atomic_store_explicit(&record->what, op->header.count, memory_order_relaxed);
		atomic_store_explicit(&record->peer, op->window_call->peer, memory_order_relaxed);
		atomic_store_explicit(&record->kind,
				      (uint8_t)(TT_FLIGHT_PUT + op->window_call->kind),
				      memory_order_relaxed);
		atomic_store_explicit(&record->dtype, op->header.dtype, memory_order_relaxed);
	} else {
		atomic_store_explicit(&record->what, op->plan->record, memory_order_relaxed);
		atomic_store_explicit(&record->kind, TT_FLIGHT_COLLECTIVE, memory_order_relaxed);
	}
	/* release: pairs with the acquire in tt_flight_read_op() */
	atomic_store_explicit(&record->number, number, memory_order_release);
	/* the next one must not wait for its line */
	__builtin_prefetch(&recorder->flight->ops[(number + 1) % TT_FLIGHT_OPS], 1);
	op->record = record;
	op->record_number = number;
	op->recorded = moved ? TT_RECORDED_MOVED : TT_RECORDED_CALL;
}

#define TT_RECORD_SHORT 2048 /* bytes of a message: it is soon on its way, or waits for its peer */

/* Is it noted only once its part lies where the peers see it, or once it turns out to wait for them?
 * A receive that finds out what it takes has its line from the beginning. */
static inline bool tt_recorder_may_wait(const struct tt_op *op, bool blocks)
{
	if (op->kind == TT_OP_SHARED)
		return op->plan->hot;
	return blocks && op->kind == TT_OP_MESSAGE && op->length <= TT_RECORD_SHORT &&
	       !op->message && !op->from_any;
}

/* It is called; `blocks`: by who waits for its end. */
static inline void tt_recorder_post(struct tt_op *op, bool blocks)
{
	op->last_check = 0;
	op->recorded = TT_RECORDED_NOT;
	if (!tt_recorder_may_wait(op, blocks))
		tt_recorder_begin(op, tt_ticks(op->comm->recording.counter), false);
}

/* It is called there, as the program says. */
static inline void tt_recorder_called_at(struct tt_op *op, const char *caller)
{
	if (op->recorded == TT_RECORDED_NOT)
		tt_recorder_begin(op, tt_ticks(op->comm->recording.counter), false);
	tt_recorder_caller(op->comm, op->record_number, caller);
}

/* In a child of fork(), where the mapping is not: keep away from it. */
void tt_recorder_forget(struct tt_op *op);

/* Its line, unless so many others were called since that it has another's. */
static inline struct tt_flight_op *tt_recorder_line(const struct tt_op *op)
{
	struct tt_flight_op *record = op->record;

	return atomic_load_explicit(&record->number, memory_order_relaxed) == op->record_number
		       ? record
		       : NULL;
}

/* A receive has taken a message, which may be shorter, and from any peer. */
static inline void tt_recorder_message(const struct tt_op *op, const struct tt_op_header *theirs)
{
	struct tt_flight_op *record = tt_recorder_line(op);

	if (!record)
		return;
	atomic_store_explicit(&record->peer, theirs->rank, memory_order_relaxed);
	atomic_store_explicit(&record->what, theirs->count, memory_order_relaxed);
}

/* Its first data have moved; called once. */
static inline void tt_recorder_moved(struct tt_op *op)
{
	const bool counter = op->comm->recording.counter;
	struct tt_flight_op *record;

	if (op->recorded == TT_RECORDED_NOT) {
		op->last_check = tt_ticks(counter);
		tt_recorder_begin(op, op->last_check, true);
		return;
	}
	record = tt_recorder_line(op);
	if (record) {
		/* in the pass that follows the call nothing lies between: no need to read the
		 * counter again */
		const uint64_t now =
			op->recorded == TT_RECORDED_CALL && !op->prev
				? atomic_load_explicit(&record->posted, memory_order_relaxed)
				: tt_ticks(counter);

		atomic_store_explicit(&record->first, now, memory_order_relaxed);
	}
	op->recorded = TT_RECORDED_MOVED;
}

/* A pass has come by, and it has not ended. */
static inline void tt_recorder_pass(struct tt_op *op, bool moved)
{
	op->last_check = 0;
	if (__builtin_expect(op->recorded == TT_RECORDED_MOVED, 1))
		return;
	if (moved) {
		tt_recorder_moved(op);
		return;
	}
	if (op->recorded == TT_RECORDED_NOT)
		tt_recorder_begin(op, tt_ticks(op->comm->recording.counter), false);
	op->recorded = TT_RECORDED_STALL;
}

/* A short operation looks at a peer, and may end if it sees what it waits for. */
static inline void tt_recorder_check(struct tt_op *op)
{
	op->last_check = tt_ticks(op->comm->recording.counter);
}

/* It has ended. */
static inline void tt_recorder_done(struct tt_op *op, tutti_result_t result)
{
	const uint64_t now =
		op->last_check ? op->last_check : tt_ticks(op->comm->recording.counter);
	struct tt_flight_op *record;

	if (op->recorded == TT_RECORDED_NOT)
		tt_recorder_begin(op, now, !result);
	record = tt_recorder_line(op);
	if (!record)
		return;
	if (op->recorded != TT_RECORDED_MOVED && !result) /* all in one pass */
		atomic_store_explicit(&record->first, now, memory_order_relaxed);
	atomic_store_explicit(&record->result, (int16_t)result, memory_order_relaxed);
	/* release: pairs with the acquire in tt_flight_read_op() */
	atomic_store_explicit(&record->done, now, memory_order_release);
}

#endif
