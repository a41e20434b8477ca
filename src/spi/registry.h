/* SPDX-License-Identifier: BSD-3-Clause */
/* The one place that names plug-ins. */
#ifndef TT_REGISTRY_H
#define TT_REGISTRY_H

#include "schedule.h"
#include "transport.h"

/* NULL-terminated, in order of preference where costs are equal; a header names an algorithm by
 * its place here. */
extern const struct tt_algorithm *const tt_algorithms[];
extern const struct tt_transport *const tt_transports[];

const struct tt_algorithm *tt_algorithm_by_name(const char *name); /* NULL if there is none */
int tt_algorithm_number(const struct tt_algorithm *algorithm);

#endif
