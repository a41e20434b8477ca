/* SPDX-License-Identifier: BSD-3-Clause */
/* The type _core.Memory: memory that the ranks of a host share, by the buffer protocol. */
#ifndef TP_MEMORY_H
#define TP_MEMORY_H

#include "python.h"

PyObject *tp_memory_type(void);

#endif
