/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user sees: lines or a bar on standard output, a log in JSON, pictures. All ranks keep
 * the history of the training, rank 0 shows it; if it is lost, the next one goes on with that. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"

struct training;

/* One epoch, over all ranks. */
struct epoch {
	unsigned number; /* from 1 */
	double train_loss, train_accuracy;
	double test_loss, test_accuracy; /* NaN without validation */
	double rate;			 /* at the last step */
	double seconds;			 /* since the training began */
	double least_share, most_share;	 /* of a batch, of a worker */
};

enum { LOSS_NAMES = 16, LOSS_CAUSE = 768 };

/* Ranks were lost, and the others went on. */
struct loss {
	double seconds;	   /* since the training began: when it was noticed */
	double recovery_s; /* until all were ready to go on */
	size_t step;	   /* steps that were done */
	unsigned epochs;   /* likewise */
	int ranks_before, ranks_after;
	int joined; /* of those after: replacements */
	int lost_count;
	uint64_t lost[LOSS_NAMES]; /* the first of them, by the launcher's number */
	bool by_deadline;	   /* alive perhaps, but not heard of in time */
	char cause[LOSS_CAUSE];
};

/* Zeroed is empty. */
struct history {
	struct epoch *epochs; /* room for all of the training */
	struct loss *losses;
	unsigned epoch_count, loss_count;
};

/* What each rank tells of itself when all is done. */
struct rank_account {
	uint64_t weights;   /* checksum */
	uint64_t bytes;	    /* that it had to send at least … */
	uint64_t received;  /* … and to receive */
	uint64_t memory;    /* bytes that it had at most */
	double blocked;	    /* share of its time inside tutti's calls */
	double share;	    /* of the batch, in the last step */
	uint64_t read;	    /* bytes of samples that it has read, or made, … */
	double read_s;	    /* … in so long */
	uint64_t rows_sent; /* bytes of samples, to ranks that trained on them */
};

enum { STALENESS_MOST = 63 };

/* What a training that is done has to tell. */
struct summary {
	double seconds;			    /* of the training */
	double blocked_mean, blocked_worst; /* share of them inside tutti's calls, over the ranks */
	double sent_bytes;		    /* that the rank which sent most had to send at least */
	struct rank_account *accounts;	    /* of each rank at the end */
	/* How many gradients were so many updates old when an update was made of them; the last: more. */
	uint64_t staleness[STALENESS_MOST + 1];
	char algorithm[32], transports[32]; /* of this rank's last step; "": it exchanged nothing */
};

/* How much of the history. */
struct told {
	bool start;
	unsigned epochs, losses;
};

/* Zeroed is a report that says nothing. */
struct report {
	const struct options *options;
	const struct training *training; /* set before anything is shown */
	struct history history;
	bool on;		     /* this rank shows it */
	bool quiet;		     /* standard output is the log's */
	bool bar;		     /* standard output is a terminal */
	bool bar_open;		     /* the cursor stands behind one */
	struct told printed, logged; /* printed: also by another rank or run */
	FILE *json;
	double drawn_s;	       /* when the bar was last drawn */
	double begun, begun_s; /* of report_begin(): what was done, and when that was */
};

/* Make room for so many more losses. */
bool history_reserve(struct history *history, unsigned losses);

bool report_create(const struct options *options, struct report *out);
/* If this rank does not show it yet, it does from now on. Whoever did may be lost: the log is
 * written anew. */
bool report_open(struct report *report);
/* The history has epochs of an earlier run: they are in the log, and not on standard output. */
void report_resumed(struct report *report);
/* Training begins, or goes on after a loss, with that part of it `done`, from 0 to 1. The time that
 * is left is estimated by the speed from now on: other steps were another run's, or other
 * ranks'. */
void report_begin(struct report *report, double done);
/* Show what of the history was not shown yet. */
bool report_show(struct report *report);
void report_step(struct report *report, unsigned epoch, size_t step, size_t steps);
/* Add to the history, and show it. */
bool report_epoch(struct report *report, const struct epoch *epoch);
bool report_loss(struct report *report, const struct loss *loss);
/* The summary, and the pictures. */
bool report_end(struct report *report);
/* Leave the bar's line, for other words to follow. */
void report_interrupt(struct report *report);
void report_finish(struct report *report);

/* ---- log.c: the JSON log, which is open */

bool log_start(struct report *report);
bool log_epoch(struct report *report, const struct epoch *epoch);
bool log_loss(struct report *report, const struct loss *loss);
/* Closes it, too. */
bool log_end(struct report *report);
/* What is written of an epoch, of which checkpoints are made, too. NULL: there is no memory. */
json_t *log_epoch_json(const struct epoch *epoch);
/* The way back, but for its number: are all there? */
bool log_epoch_parse(const json_t *json, struct epoch *out);

/* ---- plot.c */

/* Is gnuplot there, where there are pictures to draw, and the directory of each? */
bool plot_check(const struct options *options);
bool plot_write(const char *path, const char *heading, const struct epoch *epochs, unsigned count);

#endif
