/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of the library as exceptions: the classes of tutti/_errors.py. */
#ifndef TP_ERRORS_H
#define TP_ERRORS_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "python.h"

/* Find the classes; once, when the module is loaded. */
bool tp_errors_load(void);

/* Raise tutti.Invalid; the format is that of PyErr_Format(). NULL, so that callers return it. */
PyObject *tp_invalid(const char *format, ...);

/* Refuse to make an object of a type that the library alone makes: by `maker`. NULL */
PyObject *tp_refuse_new(const char *type, const char *maker);

/* Is the error that is set tutti.Invalid? */
bool tp_invalid_occurred(void);

/* Is it any error of tutti? */
bool tp_error_occurred(void);

/* Raise what stands for `result`, with the text of the library and the rank that it is about. */
void tp_raise(tutti_comm_t comm, tutti_result_t result);
/* The same with a text of the caller's. */
void tp_raise_text(tutti_result_t result, const char *text, int rank);

#endif
