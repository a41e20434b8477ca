/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of one case and their parent share: where they meet, and what each has to say
 * afterwards. */
#ifndef TT_STAGE_H
#define TT_STAGE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cases.h"

#define RANKS_MAX      8
#define ERROR_TEXT_MAX 700
#define COMPLAINT_MAX  512
#define LINKS_MAX      64
#define TRIALS_MAX     64 /* more than RANKS_MAX ranks begin */
#define TRIAL_FAILED   (-1)
#define ABORT_REASON   "the disk is full"
#define SLACK_S	       bound_s(2) /* by which a loaded machine may be late */

struct report {
	_Atomic double fault_at; /* a victim's; 0: not yet */
	atomic_bool continued;	 /* a victim that had been stopped */
	atomic_uint messages;	 /* that it said to the store, and perhaps to others later */
	bool attended; /* a victim's: the store knew by then that it had come, and all knew the
			 * store if it goes with the victim */
	int links;     /* connections with other ranks … */
	uint16_t ports[LINKS_MAX]; /* … and where they are at this end */
	int cut_off;	/* a victim's: the rank at the other end of the one that is cut */
	double told_at; /* when the first error came back; 0: none did */
	int result;
	int culprit;	   /* -1: none */
	int place, size;   /* its rank in the communicator that it had in the end, and the size
			    * of that; 0: none */
	double went_on_at; /* when the survivors had a communicator of their own */
	char error_text[ERROR_TEXT_MAX];
	char complaint[COMPLAINT_MAX]; /* "": none */
	unsigned calls;		       /* of the rehearsal */
	atomic_bool finished;
};

struct stage {
	_Atomic pid_t pid[RANKS_MAX];
	atomic_int hosts;   /* made, with their cables in */
	atomic_int entered; /* ranks on their hosts */
	atomic_int joined;
	atomic_int connected;
	atomic_int ready; /* ranks that are about to wait for the victims */
	atomic_int idle;
	atomic_int served;	      /* the store of newcomers is there */
	atomic_int opened;	      /* ranks that have tried to reach it */
	atomic_int over;	      /* survivors that have had their error, where there is one */
	atomic_int done;	      /* survivors that need the victims no more */
	atomic_int trials;	      /* of communicators, begun by their lowest ranks */
	atomic_int trial[TRIALS_MAX]; /* ranks that found all well there, or TRIAL_FAILED */
	struct report report[RANKS_MAX];
};

struct scene {
	struct fault_case c;
	uint64_t seed;
	struct stage *stage;
	bool rehearsal;
	char directory[64]; /* of the case, for stores of files */
	char again[96];	    /* the store in which survivors meet again */
	double deadline_s;  /* of every operation */
	double bound_s;	    /* from the fault to the error */
};

#endif
