/* SPDX-License-Identifier: BSD-3-Clause */
#include "errors.h"

#include <stdarg.h>
#include <string.h>

/* by the negative of a result */
static const char *const class_names[] = { "Error",   "Invalid",  "Mismatch",
					   "Timeout", "PeerLost", "Aborted",
					   "System",  "NoMemory", "Unsupported" };
enum { CLASSES = sizeof(class_names) / sizeof(class_names[0]) };
static PyObject *classes[CLASSES];

bool tp_errors_load(void)
{
	PyObject *module = PyImport_ImportModule("tutti._errors");

	if (!module)
		return false;
	for (int i = 0; i < CLASSES; i++) {
		classes[i] = PyObject_GetAttrString(module, class_names[i]);
		if (!classes[i])
			break;
	}
	Py_DECREF(module);
	return !PyErr_Occurred();
}

PyObject *tp_invalid(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	PyErr_FormatV(classes[-TUTTI_ERR_INVALID], format, arguments);
	va_end(arguments);
	return NULL;
}

PyObject *tp_refuse_new(const char *type, const char *maker)
{
	PyErr_Format(PyExc_TypeError, "%s(): a program makes none by itself, expected %s", type,
		     maker);
	return NULL;
}

bool tp_invalid_occurred(void)
{
	return PyErr_ExceptionMatches(classes[-TUTTI_ERR_INVALID]);
}

bool tp_error_occurred(void)
{
	return PyErr_ExceptionMatches(classes[0]);
}

void tp_raise_text(tutti_result_t result, const char *text, int rank)
{
	PyObject *class = classes[result < 0 && -result < CLASSES ? -result : 0];
	PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	PyObject *error = message ? PyObject_CallFunctionObjArgs(class, message, NULL) : NULL;
	PyObject *number = error && rank >= 0 ? PyLong_FromLong(rank) : NULL;

	if (error && (!number || PyObject_SetAttrString(error, "rank", number) == 0))
		PyErr_SetObject(class, error);
	Py_XDECREF(number);
	Py_XDECREF(error);
	Py_XDECREF(message);
}

void tp_raise(tutti_comm_t comm, tutti_result_t result)
{
	const char *text = tutti_last_error(comm);
	int rank = -1;

	if (comm && result != TUTTI_ERR_INVALID && tutti_comm_error(comm, &rank) == TUTTI_OK)
		rank = -1;
	tp_raise_text(result, text[0] ? text : tutti_strerror(result), rank);
}
