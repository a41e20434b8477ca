/* SPDX-License-Identifier: BSD-3-Clause */
/* The labels that a model gives, one a line. */
#ifndef TRAIN_PREDICT_H
#define TRAIN_PREDICT_H

#include <stdbool.h>

struct options;
struct training;

/* --predict, on one rank, when the training is done: of the validation samples, in the order of the
 * data. */
bool predict_validation(struct training *training);
/* tutti-train predict MODEL --data FILE [--labels FILE] [--predict FILE] */
bool predict(const struct options *options);

#endif
