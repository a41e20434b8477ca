/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs that trainings have written with --json, read again. */
#ifndef TRAIN_LOGS_H
#define TRAIN_LOGS_H

#include <stdbool.h>
#include <stddef.h>

#include "why.h"

enum { LOGGED_STALENESS = 64 };

/* After an epoch. */
struct point {
	double seconds, train_loss;
	double test_loss, test_accuracy; /* NaN: without validation */
};

/* Zeroed is empty. */
struct logged {
	char *way, *data, *dtype; /* owned; a terminal may show them */
	int ranks;		  /* at the start */
	double parameters, batch, train_samples;
	struct point *points; /* owned, of each epoch */
	size_t point_count;
	double *losses; /* owned: seconds at which ranks were lost */
	size_t loss_count;
	bool ended;		      /* what follows is there */
	char *algorithm, *transports; /* owned; "" where one rank exchanged nothing */
	double seconds, samples_per_s, blocked, sent_bytes, steps, steps_begun;
	double received_bytes;		    /* of the rank that received most */
	double staleness[LOGGED_STALENESS]; /* how many gradients were so many updates old */
	size_t staleness_count;		    /* of these; 0: nothing is said of that */
};

/* A whole log; `path` is for messages. On failure `out` is empty. */
tutti_result_t logged_parse(const char *path, const char *bytes, size_t length, struct logged *out,
			    struct why *why);
void logged_finish(struct logged *log);

/* `bytes` of the whole training, per step: one that was resumed has begun only some of its steps. */
static inline double logged_in_step(const struct logged *log, double bytes)
{
	return log->steps_begun > 0 ? bytes / log->steps_begun : 0;
}

#endif
