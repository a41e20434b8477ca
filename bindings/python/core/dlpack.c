/* SPDX-License-Identifier: BSD-3-Clause */
#include "dlpack.h"

#include "errors.h"

/* version 0 */
struct managed {
	struct tp_dl_tensor tensor;
	void *context;
	void (*deleter)(struct managed *self);
};

/* version 1 */
struct managed_versioned {
	uint32_t major;
	uint32_t minor;
	void *context;
	void (*deleter)(struct managed_versioned *self);
	uint64_t flags;
	struct tp_dl_tensor tensor;
};

enum { FLAG_READ_ONLY = 1 };

bool tp_dlpack_has(PyObject *object)
{
	return PyObject_HasAttrString((PyObject *)Py_TYPE(object), "__dlpack__");
}

bool tp_dlpack_device(PyObject *object, int *type, int *device)
{
	PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
	bool read = pair && PyTuple_Check(pair) && PyArg_ParseTuple(pair, "ii", type, device);

	if (pair && !read && !PyErr_Occurred())
		tp_invalid("__dlpack_device__() gave %R, expected a tuple of two numbers", pair);
	Py_XDECREF(pair);
	return read;
}

/* __dlpack__(max_version=(1, 0)); libraries of version 0 do not know that argument */
static PyObject *call_dlpack(PyObject *object, PyObject *stream)
{
	PyObject *function = PyObject_GetAttrString(object, "__dlpack__");
	PyObject *none = PyTuple_New(0);
	PyObject *named = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
	PyObject *plain = PyDict_New();
	PyObject *capsule = NULL;

	if (function && none && named && plain &&
	    (!stream || (PyDict_SetItemString(named, "stream", stream) == 0 &&
			 PyDict_SetItemString(plain, "stream", stream) == 0))) {
		capsule = PyObject_Call(function, none, named);
		if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
			PyErr_Clear();
			capsule = PyObject_Call(function, none, plain);
		}
	}
	Py_XDECREF(plain);
	Py_XDECREF(named);
	Py_XDECREF(none);
	Py_XDECREF(function);
	return capsule;
}

static const struct tp_dl_tensor *tensor_of(PyObject *capsule, bool *readonly)
{
	if (PyCapsule_IsValid(capsule, "dltensor")) {
		const struct managed *managed = PyCapsule_GetPointer(capsule, "dltensor");

		*readonly = false;
		return managed ? &managed->tensor : NULL;
	}
	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		const struct managed_versioned *managed =
			PyCapsule_GetPointer(capsule, "dltensor_versioned");

		if (managed && managed->major == 1) {
			*readonly = managed->flags & FLAG_READ_ONLY;
			return &managed->tensor;
		}
	}
	tp_invalid("__dlpack__() gave %R, expected a capsule of DLPack version 0 or 1", capsule);
	return NULL;
}

PyObject *tp_dlpack_ask(PyObject *object, PyObject *stream, const struct tp_dl_tensor **out,
			bool *readonly)
{
	PyObject *capsule = call_dlpack(object, stream);

	if (!capsule)
		return NULL;
	*out = tensor_of(capsule, readonly);
	if (!*out) {
		Py_DECREF(capsule);
		return NULL;
	}
	return capsule;
}
