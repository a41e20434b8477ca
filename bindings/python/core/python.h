/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPython's limited API of 3.9, and the little beyond it that this module uses. The buffer protocol
 * joined the limited API in 3.11, with the struct that it has had since 3.0, and METH_FASTCALL in
 * 3.10, with the value and the signature of 3.7; so they are declared here. What CPython has older
 * than 3.9, and other implementations, tutti/__init__.py refuses.
 */
#ifndef TP_PYTHON_H
#define TP_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifndef Py_LIMITED_API
#error "the module is built for the stable ABI: define Py_LIMITED_API as 0x03090000"
#endif

#if Py_LIMITED_API + 0 < 0x030b0000
typedef struct {
	void *buf;
	PyObject *obj;
	Py_ssize_t len;
	Py_ssize_t itemsize;
	int readonly;
	int ndim;
	char *format;
	Py_ssize_t *shape;
	Py_ssize_t *strides;
	Py_ssize_t *suboffsets;
	void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);

#define PyBUF_WRITABLE	   0x0001
#define PyBUF_FORMAT	   0x0004
#define PyBUF_ND	   0x0008
#define PyBUF_STRIDES	   (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#define PyBUF_INDIRECT	   (0x0100 | PyBUF_STRIDES)
#define PyBUF_FULL_RO	   (PyBUF_INDIRECT | PyBUF_FORMAT)

#define Py_bf_getbuffer	    1
#define Py_bf_releasebuffer 2
#endif

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

/* a method of METH_FASTCALL | METH_KEYWORDS, and its entry in a table */
typedef PyObject *tp_method_t(PyObject *self, PyObject *const *args, Py_ssize_t count,
			      PyObject *names);
#define TP_METHOD(name, function, doc)                                                             \
	{                                                                                          \
		name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, doc  \
	}
/* the place of a function or of data in a table of slots */
#define TP_SLOT(slot, value)                                                                       \
	{                                                                                          \
		slot, (void *)(value)                                                              \
	}

#endif
