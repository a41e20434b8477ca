/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in the Python program a call stands, for the flight recorder. */
#ifndef TP_CALLER_H
#define TP_CALLER_H

#include "python.h"

/*
 * "train.py:42 in step", as bytes: the innermost frame outside this package. NULL: there is none,
 * or it cannot be told; no error is set then, as the call is to be made all the same.
 */
PyObject *tp_caller(void);

#endif
