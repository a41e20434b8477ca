/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_SELECT_H
#define TT_SELECT_H

#include "cases.h"

/* Few of the `count` cases of `all`, so that every two values of two axes that go together in
 * any case do in one of them. Returns how many; `out` has room for all. */
size_t select_pairs(const struct fault_case *all, size_t count, uint64_t seed,
		    struct fault_case *out);

#endif
