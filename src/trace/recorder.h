/* SPDX-License-Identifier: BSD-3-Clause */
/* The flight recorder: notes every operation of a communicator where it can be read whatever
 * becomes of the process (flight.h). */
#ifndef TT_RECORDER_H
#define TT_RECORDER_H

#include "flight.h"
#include "plan.h"

/* What recorder.c keeps of a communicator outside of its mapping. */
struct tt_recorder {
	struct tt_flight *flight;
	uint64_t next_stream;	     /* number of the next operation on a stream */
	uint64_t stream_collectives; /* how many of these were collectives */
	int fd;			     /* keeps the mapping's file locked; -1 */
	pid_t pid;		     /* whose it is, and not a forked child's */
	struct tt_flight_place place;
	struct tt_recorder *_Atomic listed; /* the next in the list of those that SIGUSR1 reports */
	struct tt_flight_peer peers[];	    /* [size]: of the plan at hand */
};

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

/* recorder.c: begin to record; before peers are met, so that they can be told if there is no
 * memory. */
tutti_result_t tt_recorder_open(struct tutti_comm *comm);
/* All have joined. */
void tt_recorder_ready(struct tutti_comm *comm);
/* The communicator is destroyed: nothing is left of it but reports. */
void tt_recorder_close(struct tutti_comm *comm);
/* Note what the plan determines, unless that is there already. */
void tt_recorder_plan(struct tutti_comm *comm, struct tt_plan *plan);
/* recorder_report.c: the communicator was revoked, and everybody told: write what happened. Lock
 * held. */
void tt_recorder_report(struct tutti_comm *comm);
/* Report the ranks of this host that died. */
void tt_recorder_report_dead(struct tutti_comm *comm);
/* Write a report of this communicator when SIGUSR1 comes; until tt_recorder_unlist(). Gives whether it
 * is the first of the process, and the last. */
bool tt_recorder_list(struct tt_recorder *recorder);
bool tt_recorder_unlist(struct tt_recorder *recorder);

/* More than the first operations, or plans, are to be noted. */
void tt_recorder_extend(struct tutti_comm *comm);

/* The program says where it called the operation of this number. Lock held. */
void tt_recorder_caller(struct tutti_comm *comm, uint64_t number, const char *caller);

/* ---- calls on streams; the lock is held */

/* Gives the call's number. */
uint64_t tt_recorder_stream(struct tutti_comm *comm, const struct tt_call *call,
			    enum tt_flight_way way, bool captured, int device);
/* Those of these numbers have ended when so many waits of streams have. */
void tt_recorder_stream_waits(struct tutti_comm *comm, uint64_t first, uint64_t last,
			      uint64_t waits);

#endif
