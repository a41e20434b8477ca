/* SPDX-License-Identifier: BSD-3-Clause */
#include "arguments.h"

#include <limits.h>
#include <string.h>

#include "errors.h"

static bool intern_names(struct tp_signature *s)
{
	for (int i = 0; i < TP_ARGUMENTS_MAX && s->names[i]; i++) {
		if (s->interned[i])
			continue;
		s->interned[i] = PyUnicode_InternFromString(s->names[i]);
		if (!s->interned[i])
			return false;
	}
	return true;
}

/* the place of a keyword; those that a call spells out are interned, so the address decides */
static int place_of(const struct tp_signature *s, PyObject *name)
{
	for (int i = 0; i < TP_ARGUMENTS_MAX && s->names[i]; i++) {
		if (s->interned[i] == name)
			return i;
	}
	for (int i = 0; i < TP_ARGUMENTS_MAX && s->names[i]; i++) {
		if (PyUnicode_CompareWithASCIIString(name, s->names[i]) == 0)
			return i;
	}
	return -1;
}

static bool take_keyword(const struct tp_signature *s, PyObject *name, PyObject *value,
			 PyObject *out[TP_ARGUMENTS_MAX])
{
	const int place = place_of(s, name);

	if (place < 0) {
		PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", s->function, name);
		return false;
	}
	if (out[place]) {
		PyErr_Format(PyExc_TypeError, "%s() was given '%U' twice", s->function, name);
		return false;
	}
	out[place] = value;
	return true;
}

bool tp_arguments(struct tp_signature *s, PyObject *const *args, Py_ssize_t count, PyObject *names,
		  PyObject *out[TP_ARGUMENTS_MAX])
{
	const Py_ssize_t keywords = names ? PyTuple_Size(names) : 0;

	if (!s->interned[0] && s->names[0] && !intern_names(s))
		return false;
	if (count > s->positional) {
		PyErr_Format(PyExc_TypeError,
			     "%s() was given %zd arguments by place, expected at most %d",
			     s->function, count, s->positional);
		return false;
	}
	for (int i = 0; i < TP_ARGUMENTS_MAX; i++)
		out[i] = i < count ? args[i] : NULL;
	for (Py_ssize_t i = 0; i < keywords; i++) {
		if (!take_keyword(s, PyTuple_GetItem(names, i), args[count + i], out))
			return false;
	}
	for (int i = 0; i < s->required; i++) {
		if (!out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() was not given '%s'", s->function,
				     s->names[i]);
			return false;
		}
	}
	return true;
}

bool tp_int(const char *function, const char *name, PyObject *value, int *out)
{
	PyObject *index;
	long number;

	if (!value || value == Py_None)
		return true;
	index = PyNumber_Index(value);
	if (!index) {
		PyErr_Clear();
		tp_invalid("%s(): %s is %R, expected an integer", function, name, value);
		return false;
	}
	number = PyLong_AsLong(index);
	Py_DECREF(index);
	if (number > INT_MAX || number < INT_MIN || (number == -1 && PyErr_Occurred())) {
		PyErr_Clear();
		tp_invalid("%s(): %s is %R, expected an integer of 32 bits", function, name, value);
		return false;
	}
	*out = (int)number;
	return true;
}

bool tp_text(const char *function, const char *name, PyObject *value, PyObject **out)
{
	PyObject *bytes;

	if (!value || value == Py_None)
		return true;
	if (!PyUnicode_Check(value))
		return tp_invalid("%s(): %s is %R, expected a string", function, name, value);
	bytes = PyUnicode_AsEncodedString(value, "utf-8", "replace");
	if (bytes && strlen(PyBytes_AsString(bytes)) != (size_t)PyBytes_Size(bytes)) {
		Py_CLEAR(bytes);
		tp_invalid("%s(): %s is %R, expected a string without NUL", function, name, value);
	}
	if (bytes)
		*out = bytes;
	return bytes;
}

bool tp_seconds(const char *function, const char *name, PyObject *value, double *out)
{
	double seconds;

	if (!value || value == Py_None)
		return true;
	seconds = PyFloat_AsDouble(value);
	if (PyErr_Occurred() || !(seconds > 0) || seconds > 1e9) {
		PyErr_Clear();
		tp_invalid("%s(): %s is %R, expected seconds, more than 0 and at most 1e9",
			   function, name, value);
		return false;
	}
	*out = seconds;
	return true;
}
