/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_MEASURE_H
#define TT_MEASURE_H

#include <stdbool.h>

#include "model.h"

/* Measure what this process can: with one core no lines, without a loopback interface no TCP; the rest of `model` is left
 * as it is. Takes about 5 ms, on two threads of its own; false: they did not get to run within some 50 ms. */
bool tt_measure(struct tt_model *model);

#endif
