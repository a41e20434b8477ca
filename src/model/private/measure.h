/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_MEASURE_H
#define TT_MEASURE_H

#include <sched.h>
#include <stdbool.h>

#include "model.h"

/* Measure this machine: all cores that the process may use, also if the thread is bound to one.
 * Takes about 5 ms, on two threads of its own that give up after some 50. A figure that cannot
 * be had is left as it is in `model`; false, unless it is those of lines and copies because
 * there is but one core. */
bool tt_measure(struct tt_model *model);

/* The processors that the process may use, whatever the thread is bound to; how many, 0 if that
 * is not known. */
int tt_measure_cpus(cpu_set_t *cpus);

#endif
