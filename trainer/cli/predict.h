/* SPDX-License-Identifier: BSD-3-Clause */
/* The labels that a model gives: those of --predict, and tutti-train predict. */
#ifndef TRAIN_PREDICT_H
#define TRAIN_PREDICT_H

#include "model.h"
#include "options.h"

/* Of `count` samples that are standardised, `rows` of data: a label a line, to standard output where `path`
 * is NULL. `right`: how many are those of the data, if these have any; or NULL. */
bool predict_write(struct model *model, const struct data *data, const uint32_t *rows, size_t count,
		   const char *path, size_t *right);

/* tutti-train predict MODEL --data FILE [--labels FILE] [--predict FILE] */
bool predict(const struct options *options);

#endif
