/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks that were started, and how they end. */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include <stdbool.h>
#include <sys/types.h>

#include "tutti/tutti.h"

#include "exits.h"
#include "lines.h"
#include "options.h"
#include "sink.h"
#include "spawn.h"

struct rank {
	struct process process;
	bool running; /* not waited for yet: its number is its own */
	bool awaited; /* failed, and to be replaced */
	int ticket; /* of a replacement: the TUTTI_RESTART it was given; -1: there from the start */
	struct lines lines[SPAWN_STREAMS];
	bool open[SPAWN_STREAMS];
};

/* The way to the end goes downwards only. */
enum ending {
	ENDING_NOT,
	ENDING_ASKED, /* all have got a signal that ends most; SIGKILL follows at `kill_at` */
	ENDING_KILLED
};

/* Ranks that have failed, and what may still be done about it. */
struct losses {
	struct rank_exit *open; /* of those that nothing was decided about yet, in order */
	int open_count;
	double settle_at; /* while there are any: when to decide */
	double look_at;	  /* while only replacements run: when to look whether they wait in vain */
	double left_out_at; /* when to look whether only ranks run that cannot go on; 0: not before
			       another has ended */
	struct rank_exit last; /* rank -1: none yet */
	int restarts;	       /* how many more ranks may be replaced */
};

struct job {
	const struct options *options;
	struct rank *ranks;
	int started, running;
	int ended_well;
	double start;
	pid_t reaper;
	tutti_store_t store;
	struct sink sinks[SPAWN_STREAMS];
	struct sink *sink_of[SPAWN_STREAMS]; /* the same one where both are one file */
	enum ending ending;
	double kill_at; /* while ENDING_ASKED */
	double grace;	/* that was given */
	int asked_with; /* signal */
	int forwarded;	/* SIGINT, SIGTERM or SIGHUP that this process got; 0: none */
	bool timed_out;
	bool family_changed; /* a child came or went since the last look for descendants */
	double leftover_at;  /* when to end what ranks that are done have left; 0: nothing yet */
	bool gone;	     /* every rank and all that they started */
	struct losses losses;
	struct rank_exit failure; /* the one that gives the exit status */
	struct exits exits;
};

#define JOB_LEFT_OUT_GRACE 10.0 /* seconds that ranks which cannot go on run on alone */

/* Seconds on a clock that never jumps. */
double job_now(void);

bool job_init(struct job *job, const struct options *options);
void job_finish(struct job *job);

/* A line of tutti-run itself, among those of the ranks. */
void job_say(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `process` was started as what `seat` says; ranks start in order. */
void job_add_rank(struct job *job, const struct seat *seat, const struct process *process);
/* Wait for rank `rank`, which has ended; losses.h decides what follows if it has failed. */
void job_reap_rank(struct job *job, int rank);
/* End rank `rank` at once and wait for it: nobody would see its end. */
void job_drop_rank(struct job *job, int rank);
/* Wait for all children that have ended, `first` (0: any) before the others, but for ranks of whose
 * end a descriptor tells. */
void job_reap_children(struct job *job, pid_t first);

/* Bytes of a stream have arrived, or its end; false: the stream is closed now. */
bool job_read_stream(struct job *job, int rank, int stream);
/* Read what is there already. */
void job_drain_rank(struct job *job, int rank);

/* Send `sig` to the process group of every running rank. */
void job_signal_groups(struct job *job, int sig);
/* Send `sig` to every running rank that handles it; for one that does not, a script maybe, to
 * its children that do. */
void job_signal_ranks(struct job *job, int sig);
/* Ask all to end with `sig`, and kill what is left `grace` seconds later. */
void job_end(struct job *job, int sig, double grace);
void job_kill(struct job *job);
/* Ask all to end as after a failure. */
void job_stop(struct job *job);
/* End all because of `failure`, which gives the exit status. */
void job_fail(struct job *job, const struct rank_exit *failure);

/* Act on the clock: the time limit, and the end of the grace. */
void job_tick(struct job *job);
/* Milliseconds until job_tick() has something to do; -1: never. */
int job_wait_ms(const struct job *job);
/* True when every rank and everything it started is gone; ends what ranks leave behind. */
bool job_gone(struct job *job);
/* The exit status of tutti-run. */
int job_status(const struct job *job);

#endif
