/* SPDX-License-Identifier: BSD-3-Clause */
/* What float32 travels as in an all-reduce, and how far results may then be from the exact ones. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

const char *bench_wire_name(tutti_wire_t wire); /* without "auto:" */
/* False: there is none of that name. */
bool bench_wire_find(const char *name, tutti_wire_t *wire);
/* Does it make fewer bytes of float32? */
bool bench_wire_narrows(tutti_wire_t wire);
/* Of so many numbers as they travel. */
size_t bench_wire_bytes(tutti_wire_t wire, size_t count);
/* docs/algorithms.md, "Narrow elements": each input is rounded, the sum of each host if there are
 * several, and the result. `exact` is the sum
 * (or average) of numbers that are not negative, `most` that of the largest ones that there may
 * be. */
double bench_wire_bound(tutti_wire_t wire, double exact, double most);

#endif
