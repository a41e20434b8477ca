/* SPDX-License-Identifier: BSD-3-Clause */
/* The module tutti._core: the types, and functions that need no communicator. */
#include <sys/eventfd.h>

#include <tutti/tutti.h>

#include "arrays.h"
#include "communicator.h"
#include "errors.h"
#include "flight.h"
#include "memory.h"
#include "operations.h"
#include "python.h"
#include "request.h"
#include "store.h"
#include "streams.h"
#include "windows.h"

static PyObject *key_make(PyObject *module, PyObject *unused)
{
	char key[TUTTI_KEY_LENGTH + 1];
	const tutti_result_t result = tutti_key_make(key);

	(void)module, (void)unused;
	if (result == TUTTI_OK)
		return PyUnicode_FromString(key);
	tp_raise(NULL, result);
	return NULL;
}

/* that of the module os is new in 3.10 */
static PyObject *make_eventfd(PyObject *module, PyObject *unused)
{
	const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	(void)module, (void)unused;
	return fd < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(fd);
}

static PyObject *version(PyObject *module, PyObject *unused)
{
	(void)module, (void)unused;
	return PyUnicode_FromString(tutti_version());
}

static PyMethodDef functions[] = {
	{ "key_make", key_make, METH_NOARGS,
	  "key_make()\n--\n\n"
	  "Make a job's key of random bits, 64 hexadecimal digits: one rank makes it, all pass it as "
	  "`key`." },
	{ "version", version, METH_NOARGS, "version()\n--\n\nThe version of the library." },
	{ "eventfd", make_eventfd, METH_NOARGS, NULL },
	{ "numpy_is", tp_arrays_fast, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "tutti._core",
	.m_doc = "The C part of tutti.",
	.m_size = -1,
	.m_methods = functions,
};

static bool add_type(PyObject *module, const char *name, PyObject *type)
{
	if (!type)
		return false;
	if (PyModule_AddObject(module, name, type) == 0)
		return true;
	Py_DECREF(type);
	return false;
}

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (module && tp_errors_load() && tp_arrays_load(module) && tp_streams_load() &&
	    tp_flight_load() && tp_operations_load() &&
	    add_type(module, "Communicator", tp_communicator_type()) &&
	    add_type(module, "Request", tp_request_type()) &&
	    add_type(module, "Op", tp_op_type()) && add_type(module, "Store", tp_store_type()) &&
	    add_type(module, "Memory", tp_memory_type()) &&
	    add_type(module, "Window", tp_window_type()) &&
	    add_type(module, "CudaWindow", tp_cuda_window_type()) &&
	    PyModule_AddIntConstant(module, "ANY_RANK", TUTTI_ANY_PEER) == 0)
		return module;
	Py_XDECREF(module);
	return NULL;
}
