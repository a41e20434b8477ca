/* SPDX-License-Identifier: BSD-3-Clause */
/* A training's checkpoints. */
#ifndef TRAIN_SAVE_H
#define TRAIN_SAVE_H

#include <stdbool.h>

#include "why.h"

struct options;
struct training;

/* Is each file that will be written no other one that is named? */
bool save_check(const struct options *options);

/* On rank 0, before the training: can the files be written? With --resume, take up where the
 * checkpoint stands, if there is one; the other ranks then settle with that (settle.c). */
bool save_open(struct training *training);

/* Collective, at the end of an epoch: write a checkpoint, if one is due. */
bool save_epoch(struct training *training);

#endif
