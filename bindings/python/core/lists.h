/* SPDX-License-Identifier: BSD-3-Clause */
/* What an array is, and collectives with a count for each rank: tutti/_lists.py completes them. */
#ifndef TP_LISTS_H
#define TP_LISTS_H

#include "python.h"

extern PyMethodDef tp_list_methods[];
int tp_list_count(void);

#endif
