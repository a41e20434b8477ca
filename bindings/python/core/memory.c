/* SPDX-License-Identifier: BSD-3-Clause */
/* Freed when the last array upon it is gone: every buffer holds its Memory. */
#include "memory.h"

#include <tutti/tutti.h>

#include "errors.h"

struct memory {
	PyObject_HEAD
		/* clang-format off */
	void *data;
	/* clang-format on */
	Py_ssize_t bytes;
};

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "bytes", NULL };
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	tutti_result_t result;
	struct memory *self;
	PyObject *number;
	Py_ssize_t bytes;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O:Memory", names, &number))
		return NULL;
	bytes = PyNumber_AsSsize_t(number, PyExc_OverflowError);
	if (bytes <= 0) {
		PyErr_Clear();
		return tp_invalid("Memory(): bytes is %R, expected an integer from 1 to %zd",
				  number, PY_SSIZE_T_MAX);
	}
	self = (struct memory *)allocate(type, 0);
	if (!self)
		return NULL;
	self->bytes = bytes;
	Py_BEGIN_ALLOW_THREADS result = tutti_mem_alloc((size_t)bytes, &self->data);
	Py_END_ALLOW_THREADS if (result < 0)
	{
		self->data = NULL;
		Py_DECREF((PyObject *)self);
		tp_raise(NULL, result);
		return NULL;
	}
	return (PyObject *)self;
}

static void memory_dealloc(PyObject *object)
{
	struct memory *self = (struct memory *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	tutti_mem_free(self->data);
	free_object(object);
	Py_DECREF(type);
}

/* bytes in one dimension; NumPy and memoryview.cast() give them types and shapes */
static int memory_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct memory *self = (struct memory *)object;

	Py_INCREF(object);
	view->obj = object;
	view->buf = self->data;
	view->len = self->bytes;
	view->readonly = 0;
	view->itemsize = 1;
	view->format = flags & PyBUF_FORMAT ? (char *)"B" : NULL;
	view->ndim = 1;
	view->shape = flags & PyBUF_ND ? &self->bytes : NULL;
	view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &view->itemsize : NULL;
	view->suboffsets = NULL;
	view->internal = NULL;
	return 0;
}

static PyType_Slot memory_slots[] = {
	TP_SLOT(Py_tp_new, memory_new),
	TP_SLOT(Py_tp_dealloc, memory_dealloc),
	TP_SLOT(Py_bf_getbuffer, memory_buffer),
	{ Py_tp_doc, "Memory(bytes)\n--\n\nZeroed memory that the other ranks of this host can "
		     "read directly. See tutti.empty()." },
	{ 0, NULL },
};

PyObject *tp_memory_type(void)
{
	static PyType_Spec spec = { "tutti._core.Memory", sizeof(struct memory), 0,
				    Py_TPFLAGS_DEFAULT, memory_slots };

	return PyType_FromSpec(&spec);
}
