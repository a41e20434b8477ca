/* SPDX-License-Identifier: BSD-3-Clause */
/* The type _core.Store, and objects of Python as stores of the library. */
#ifndef TP_STORE_H
#define TP_STORE_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "python.h"

PyObject *tp_store_type(void);

/*
 * The library's store for `object`: that of a Store, or a new one that calls the methods
 * set(key, value) and get(key, timeout) of what _stores.adapt() makes of it. `*made` tells which; it
 * is closed by tutti_store_close(), without the interpreter's lock.
 */
bool tp_store_of(PyObject *object, tutti_store_t *out, bool *made);

/* `more` calls use `object`: a Store in use cannot be closed. */
void tp_store_use(PyObject *object, int more);

/*
 * After a job failed that used `object`: if it was interrupted, it may still use the store. A Store
 * then counts as closed, and is not freed; those of other objects are the job's own.
 */
void tp_store_leave(PyObject *object);

#endif
