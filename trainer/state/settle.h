/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks come to hold the same state: at the start, and when ranks were lost or have come. */
#ifndef TRAIN_SETTLE_H
#define TRAIN_SETTLE_H

#include "train.h"

/* Collective. On return all ranks hold the state of the one that was furthest, bit for bit. */
bool settle(struct training *training);

#endif
