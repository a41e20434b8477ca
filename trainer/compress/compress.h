/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients in fewer bytes (--compress). What a step does not send of a rank's gradients is owed: it is
 * added to those of the next step (error feedback: Seide et al. 2014, section 3.2; Karimireddy et al.
 * 2019, algorithm 2). A file of this folder has one method. */
#ifndef TRAIN_COMPRESS_H
#define TRAIN_COMPRESS_H

#include "why.h"

struct training;

/* Zeroed is empty. */
struct compressor {
	float *owed; /* owned, [parameters] */
	void *own;   /* the method's */
};

struct compression {
	const char *name; /* of --compress, before a colon */
	/* What is kept from step to step. */
	tutti_result_t (*create)(struct training *training, struct compressor *c, struct why *why);
	/* The first step of these ranks is next: the same on all, and nothing is owed. */
	void (*reset)(struct training *training, struct compressor *c);
	/* The gradients of layer `l` are complete; the last layer comes first. */
	tutti_result_t (*gradients)(struct training *training, struct compressor *c, unsigned l,
				    struct why *why);
	/* So are all: training->gradients are about the sums over all ranks on return, the same bits
	 * on all. */
	tutti_result_t (*finish)(struct training *training, struct compressor *c, struct why *why);
	/* Nothing is under way on return. */
	void (*drain)(struct training *training, struct compressor *c);
	void (*free)(struct training *training, struct compressor *c);
};

extern const struct compression compress_narrow, compress_topk, compress_powersgd;

/* ---- sync_compressed.c: what methods have in common */

/* From `first` on `count` numbers of the gradients, and what is owed of them. */
float *compress_gradients(const struct training *training, size_t first);
float *compress_owed(const struct compressor *c, size_t first);
/* gradients += owed */
void compress_add_owed(const struct training *training, const struct compressor *c, size_t first,
		       size_t count);

#endif
