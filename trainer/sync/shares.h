/* SPDX-License-Identifier: BSD-3-Clause */
/* How a batch is divided among machines that are not equally fast. Whatever the division, every
 * sample counts alike: gradients are sums over samples. */
#ifndef TRAIN_SHARES_H
#define TRAIN_SHARES_H

#include "batches.h"
#include "why.h"

struct training;

enum { SHARES_MAX = 64, SLOW_MAX = 16, PACES = 128 };

/* What the user says. */
struct share_options {
	double of[SHARES_MAX]; /* by the launcher's number of a rank, more than 0 */
	int count;	       /* 0: all alike, or by themselves */
	int by_themselves;     /* in proportion to the speed of the epoch before */
	struct {
		int rank;
		double factor;
		unsigned epoch; /* from which on, from 1; until the next of that rank begins */
	} slow[SLOW_MAX];	/* ranks that are made so many times slower */
	int slow_count;
};

/* Zeroed: all alike, nothing measured. */
struct shares {
	double *of; /* owned: [ranks]; NULL: all alike */
	/* what this rank took for a sample in the last steps of this epoch, in seconds, without
	 * what it waited for others: step n in [n % PACES] */
	double pace[PACES];
	size_t paced; /* steps of this epoch that had samples */
};

/* Are the ranks there that the user speaks of? */
bool shares_check(const struct training *training);

/* Collective use begins, or begins again with other ranks. */
bool shares_begin(struct training *training);
void shares_finish(struct shares *shares);

/* The part of `total` that is worker `index`'s of `count`. */
struct slice shares_slice(const struct training *training, size_t total, int index, int count);

/* That of this rank, in a way where ranks go through steps together; a parameter server has none. */
struct slice shares_own(const struct training *training, size_t total);

/* The least and the most of a batch that a worker has. */
void shares_range(const struct training *training, double *least, double *most);

/* This rank has had `samples` in `busy_s` seconds: waits, if it is to be slower. */
void shares_note(struct training *training, size_t samples, double busy_s);

/* Collective, at the end of an epoch: divide anew. */
bool shares_adapt(struct training *training);

#endif
