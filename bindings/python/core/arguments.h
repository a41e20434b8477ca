/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of calls by the vector convention, without tuples and dictionaries. */
#ifndef TP_ARGUMENTS_H
#define TP_ARGUMENTS_H

#include <stdbool.h>

#include "python.h"

#define TP_ARGUMENTS_MAX 8

/* What a function takes. Names are those of its documentation; `interned` is filled at first use. */
struct tp_signature {
	const char *function;
	int required;	/* how many of the first arguments must be there */
	int positional; /* how many may be given by place */
	const char *names[TP_ARGUMENTS_MAX];
	PyObject *interned[TP_ARGUMENTS_MAX];
};

/* Sort a call's arguments by `signature`: borrowed references, NULL for what was not given. */
bool tp_arguments(struct tp_signature *signature, PyObject *const *args, Py_ssize_t count,
		  PyObject *names, PyObject *out[TP_ARGUMENTS_MAX]);

/* Conversions of one argument, which may be NULL or None: then `*out` stays. They set an error. */
bool tp_int(const char *function, const char *name, PyObject *value, int *out);
/* a new reference to bytes; lone surrogates become question marks */
bool tp_text(const char *function, const char *name, PyObject *value, PyObject **out);
bool tp_seconds(const char *function, const char *name, PyObject *value, double *out);

#endif
