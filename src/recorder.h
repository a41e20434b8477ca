/* SPDX-License-Identifier: BSD-3-Clause */
/* The flight recorder: notes every operation of a communicator where it can be read whatever becomes of the process
 * (flight.h). Always on, so what an operation costs matters: a line of stores, and two readings of the processor's counter,
 * about 15 ns each. A short operation on the board (plan->hot) must not wait for them: it is noted when its part lies on
 * the board, while the peers answer, and its end has the time of the last look at them that was made anyway. */
#ifndef TT_RECORDER_H
#define TT_RECORDER_H

#include "flight.h"
#include "op.h"

static inline uint64_t tt_ticks(bool counter)
{
#if defined(__x86_64__)
	if (__builtin_expect(counter, 1))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	if (__builtin_expect(counter, 1)) {
		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	return tt_now();
}

/* Both clocks at one moment. Safe in a signal's handler. */
void tt_recorder_read_clocks(bool counter, uint64_t *ticks, uint64_t *monotonic);

/* recorder.c: begin to record; before peers are met, so that they can be told if there is no memory. */
tutti_result_t tt_recorder_open(struct tutti_comm *comm);
/* All have joined. */
void tt_recorder_ready(struct tutti_comm *comm);
/* The communicator is destroyed: nothing is left of it but reports. */
void tt_recorder_close(struct tutti_comm *comm);
/* Note what the plan determines, unless that is there already. */
void tt_recorder_plan(struct tutti_comm *comm, struct tt_plan *plan);
/* recorder_report.c: the communicator was revoked, and everybody told: write what happened. Lock held. */
void tt_recorder_report(struct tutti_comm *comm);
/* Report the ranks of this host that died. */
void tt_recorder_report_dead(struct tutti_comm *comm);
/* Write a report of this communicator when SIGUSR1 comes; until tt_recorder_unlist(). */
void tt_recorder_list(struct tt_recorder *recorder);
void tt_recorder_unlist(struct tt_recorder *recorder);

/* More than the first operations, or plans, are to be noted. */
void tt_recorder_extend(struct tutti_comm *comm);

/* ---- calls on streams; the lock is held */

/* Gives the call's number. */
uint64_t tt_recorder_stream(struct tutti_comm *comm, const struct tt_call *call, enum tt_flight_way way, bool captured, int device);
/* Those of these numbers have ended when so many waits of streams have. */
void tt_recorder_stream_waits(struct tutti_comm *comm, uint64_t first, uint64_t last, uint64_t waits);

/* ---- one operation; the lock is held */

/* Begin its line. `now`: when it was called, and, if `moved`, when its first data did. */
static inline void tt_recorder_begin(struct tt_op *op, uint64_t now, bool moved)
{
	struct tt_recorder *recorder = &op->comm->recorder;
	const uint64_t number = recorder->next++;
	struct tt_flight_op *record = &recorder->flight->ops[number % TT_FLIGHT_OPS];

	if (__builtin_expect(number == recorder->room, 0))
		tt_recorder_extend(op->comm);
	atomic_store_explicit(&record->number, 0, memory_order_relaxed);
	/* release: pairs with the acquire fence in tt_flight_read_op() */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&record->seq, op->card.seq, memory_order_relaxed);
	atomic_store_explicit(&record->posted, now, memory_order_relaxed);
	atomic_store_explicit(&record->first, moved ? now : 0, memory_order_relaxed);
	atomic_store_explicit(&record->done, 0, memory_order_relaxed);
	atomic_store_explicit(&record->result, 0, memory_order_relaxed);
	if (op->kind == TT_OP_MESSAGE) {
		atomic_store_explicit(&record->what, op->card.count, memory_order_relaxed);
		atomic_store_explicit(&record->peer, op->cursors[0].wire->link->peer, memory_order_relaxed);
		atomic_store_explicit(&record->kind, op->cursors[0].sending ? TT_FLIGHT_SEND : TT_FLIGHT_RECV,
				      memory_order_relaxed);
		atomic_store_explicit(&record->dtype, op->card.dtype, memory_order_relaxed);
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

/* It is called. */
static inline void tt_recorder_post(struct tt_op *op)
{
	op->last_look = 0;
	op->recorded = TT_RECORDED_NOT;
	if (op->kind != TT_OP_SHARED || !op->plan->hot)
		tt_recorder_begin(op, tt_ticks(op->comm->recorder.counter), false);
}

/* In a child of fork(), where the mapping is not: keep away from it. */
void tt_recorder_forget(struct tt_op *op);

/* Its line, unless so many others were called since that it has another's. */
static inline struct tt_flight_op *tt_recorder_line(const struct tt_op *op)
{
	struct tt_flight_op *record = op->record;

	return atomic_load_explicit(&record->number, memory_order_relaxed) == op->record_number ? record : NULL;
}

/* Its first data have moved; called once. */
static inline void tt_recorder_moved(struct tt_op *op)
{
	const bool counter = op->comm->recorder.counter;
	struct tt_flight_op *record;

	if (op->recorded == TT_RECORDED_NOT) {
		op->last_look = tt_ticks(counter);
		tt_recorder_begin(op, op->last_look, true);
		return;
	}
	record = tt_recorder_line(op);
	if (record) {
		/* in the pass that follows the call nothing lies between: no need to read the counter again */
		const uint64_t now = op->recorded == TT_RECORDED_CALL && !op->prev ?
					     atomic_load_explicit(&record->posted, memory_order_relaxed) :
					     tt_ticks(counter);

		atomic_store_explicit(&record->first, now, memory_order_relaxed);
	}
	op->recorded = TT_RECORDED_MOVED;
}

/* A pass has come by, and it has not ended. */
static inline void tt_recorder_pass(struct tt_op *op, bool moved)
{
	op->last_look = 0;
	if (__builtin_expect(op->recorded == TT_RECORDED_MOVED, 1))
		return;
	if (moved) {
		tt_recorder_moved(op);
		return;
	}
	if (op->recorded == TT_RECORDED_NOT)
		tt_recorder_begin(op, tt_ticks(op->comm->recorder.counter), false);
	op->recorded = TT_RECORDED_STALL;
}

/* A short operation looks at a peer, and may end if it sees what it waits for. */
static inline void tt_recorder_look(struct tt_op *op)
{
	op->last_look = tt_ticks(op->comm->recorder.counter);
}

/* It has ended. */
static inline void tt_recorder_done(struct tt_op *op, tutti_result_t result)
{
	const uint64_t now = op->last_look ? op->last_look : tt_ticks(op->comm->recorder.counter);
	struct tt_flight_op *record;

	if (op->recorded == TT_RECORDED_NOT)
		tt_recorder_begin(op, now, true);
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
