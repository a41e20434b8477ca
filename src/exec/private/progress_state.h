/* SPDX-License-Identifier: BSD-3-Clause */
/* What waits and the progress thread keep of a communicator. */
#ifndef TT_PROGRESS_STATE_H
#define TT_PROGRESS_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_progress {
	pthread_t thread;
	bool started, stop;
	pthread_cond_t wanted; /* by the thread: something is in flight, or due */
	/* where peers' one-sided calls are to be served: waits that have ended, how many there were
	 * when the thread looked last, and whether it has to be told of the end of one */
	uint64_t waits, looked;
	bool dozes;
	bool asleep; /* the thread sleeps until something comes */
	/* of the program's threads that wait (turns.c): who drives, who looks whether it is to, and all
	 * that sleep */
	struct tt_waiter *drives, *stands_by, *sleeping;
	bool armed;		/* this pass is the last before a sleep */
	struct tt_notice *due;	/* calls for requests that have ended (notices.c), in that order */
	uint64_t yield_more;	/* nanoseconds that waits yield longer before they sleep, as
				 * sleeps have been short */
	uint64_t next_deadline; /* of what was in flight when deadlines were checked last … */
	uint64_t checked_at;	/* … and when that was */
	uint64_t resumed_at;	/* when the process was last found to have stood still */
	bool objected;		/* this rank was blamed, and has said for whom it waits itself */
	uint64_t spread_at;	/* when to look for a better processor again */
	int cpus[];		/* [size]: spread.c's */
};

#endif
