/* SPDX-License-Identifier: BSD-3-Clause */
#include "caller.h"

#include <stdbool.h>
#include <string.h>

/* Is it of a module of this package? Its path does not say: links may lead to the file. */
static bool is_ours(PyObject *frame)
{
	PyObject *globals = PyObject_GetAttrString(frame, "f_globals");
	PyObject *name = globals ? PyMapping_GetItemString(globals, "__name__") : NULL;
	PyObject *bytes = name ? PyUnicode_AsUTF8String(name) : NULL;
	const char *text = bytes ? PyBytes_AsString(bytes) : "";
	const bool ours = strcmp(text, "tutti") == 0 || strncmp(text, "tutti.", 6) == 0;

	PyErr_Clear();
	Py_XDECREF(bytes);
	Py_XDECREF(name);
	Py_XDECREF(globals);
	return ours;
}

/* A new reference; NULL: there is none. */
static PyObject *outside(void)
{
	PyObject *frame = (PyObject *)PyEval_GetFrame();

	Py_XINCREF(frame);
	while (frame && frame != Py_None && is_ours(frame)) {
		PyObject *back = PyObject_GetAttrString(frame, "f_back");

		Py_DECREF(frame);
		frame = back;
	}
	if (frame != Py_None)
		return frame;
	Py_DECREF(frame);
	return NULL;
}

static PyObject *last_part(PyObject *path)
{
	const Py_ssize_t length = PyUnicode_GetLength(path);
	const Py_ssize_t slash = PyUnicode_FindChar(path, '/', 0, length, -1);

	return PyUnicode_Substring(path, slash + 1, length); /* -1: there is no slash */
}

static PyObject *text_of(PyObject *frame)
{
	PyObject *code = PyObject_GetAttrString(frame, "f_code");
	PyObject *line = PyObject_GetAttrString(frame, "f_lineno");
	PyObject *path = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
	PyObject *function = code ? PyObject_GetAttrString(code, "co_name") : NULL;
	PyObject *file = path ? last_part(path) : NULL;
	PyObject *text = file && line && function
				 ? PyUnicode_FromFormat("%U:%S in %U", file, line, function)
				 : NULL;

	Py_XDECREF(file);
	Py_XDECREF(function);
	Py_XDECREF(path);
	Py_XDECREF(line);
	Py_XDECREF(code);
	return text;
}

PyObject *tp_caller(void)
{
	PyObject *frame = outside();
	PyObject *text = frame ? text_of(frame) : NULL;
	PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;

	PyErr_Clear();
	Py_XDECREF(text);
	Py_XDECREF(frame);
	return bytes;
}
