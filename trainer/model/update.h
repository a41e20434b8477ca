/* SPDX-License-Identifier: BSD-3-Clause */
/* What an optimiser (optimizer.h) tells those who move weights: arithmetic of C and of CUDA. */
#ifndef TRAIN_UPDATE_H
#define TRAIN_UPDATE_H

/* How weights w are moved by x = gain × gradient + decay × w; v and s are what is kept. What is read
 * stays as it is, unless it is the same memory. */
enum move {
	MOVE_DESCEND,  /* w −= rate × x */
	MOVE_MOMENTUM, /* v = keep × v + x; w −= rate × v */
	MOVE_NESTEROV, /* v = keep × v + x; w −= rate × (x + keep × v) */
	MOVE_ADAGRAD,  /* v += keep × x²; w −= rate × x / √v */
	/* v = keep × v + (1 − keep) × x; s = keep2 × s + (1 − keep2) × x²;
	 * w −= rate × (whole × v / (√(whole2 × s) + epsilon) + shrink × w) */
	MOVE_ADAM,
	MOVES
};

struct update {
	double rate, keep, gain, decay;
	double keep2, epsilon, whole, whole2, shrink; /* of MOVE_ADAM */
};

#endif
