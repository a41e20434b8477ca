/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs that trainings have written with --json, read again. */
#ifndef TRAIN_LOGS_H
#define TRAIN_LOGS_H

#include <stdbool.h>
#include <stddef.h>

#include "why.h"

/* After an epoch. */
struct point {
	double seconds, train_loss;
	double test_loss, test_accuracy; /* NaN: without validation */
};

/* Zeroed is empty. */
struct logged {
	char *sync, *data, *dtype; /* owned; a terminal may show them */
	int ranks;		   /* at the start */
	double parameters, batch, train_samples;
	struct point *points; /* owned, of each epoch */
	size_t point_count;
	double *losses; /* owned: seconds at which ranks were lost */
	size_t loss_count;
	bool ended; /* what follows is there */
	double seconds, samples_per_s, blocked, sent_bytes, steps, steps_begun;
};

/* A whole log; `path` is for messages. On failure `out` is empty. */
tutti_result_t logged_parse(const char *path, const char *bytes, size_t length, struct logged *out,
			    struct why *why);
void logged_finish(struct logged *log);

#endif
