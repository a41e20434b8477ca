/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_TABLE_H
#define TT_TABLE_H

#include "scene.h"

/* A row for each fault, phase and transport, a column for each victim. */
void table_print(const struct fault_case *cases, const struct verdict *verdicts, size_t count);

#endif
