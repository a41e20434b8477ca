/* SPDX-License-Identifier: BSD-3-Clause */
#include "streams.h"

#include "errors.h"

/* DLPack's number of the legacy default stream, whose handle is NULL */
#define LEGACY ((tutti_cuda_stream_t)1)

const char tp_stream_no_requests[] =
	"operations on GPUs have no requests; call the form without start_, which does not wait "
	"for them";

/* of tutti/_arrays.py */
static PyObject *stream_function;
static PyObject *lend_function;

static bool refuse(const struct tp_wanted *wanted, int device)
{
	const struct tp_stream *stream = wanted->stream;

	if (!stream || stream->refusal)
		return tp_invalid("%s(): %s is in memory of GPU %d, expected the host's: %s",
				  wanted->function, wanted->name, device,
				  stream ? stream->refusal : "copy it there");
	if (stream->gpu < 0)
		return tp_invalid("%s(): %s is in memory of GPU %d, and the communicator is bound "
				  "to none; call comm.bind_cuda(%d), and on the other ranks "
				  "comm.bind_cuda() with their GPUs",
				  wanted->function, wanted->name, device, device);
	return tp_invalid("%s(): %s is in memory of GPU %d, expected GPU %d, to which the "
			  "communicator is bound; copy it there, or bind another communicator "
			  "(comm.dup()) to GPU %d",
			  wanted->function, wanted->name, device, stream->gpu, device);
}

bool tp_stream_admits(const struct tp_wanted *wanted, bool managed, int device)
{
	const struct tp_stream *stream = wanted->stream;

	if (stream && !stream->refusal && stream->gpu >= 0 && (managed || device == stream->gpu))
		return true;
	return refuse(wanted, device);
}

bool tp_stream_choose(struct tp_stream *stream, const char *function, PyObject *array)
{
	PyObject *number;

	if (stream->chosen)
		return true;
	number = PyObject_CallFunction(stream_function, "sOO", function, array ? array : Py_None,
				       stream->given ? stream->given : Py_None);
	if (!number)
		return false;
	stream->handle = PyLong_AsVoidPtr(number);
	Py_DECREF(number);
	stream->chosen = !PyErr_Occurred();
	if (stream->handle == LEGACY)
		stream->handle = NULL;
	return stream->chosen;
}

bool tp_stream_lend(const struct tp_stream *stream, PyObject *array)
{
	PyObject *none;

	if (!stream->given)
		return true;
	none = PyObject_CallFunctionObjArgs(lend_function, array, stream->given, NULL);
	Py_XDECREF(none);
	return none;
}

PyObject *tp_stream_number(const struct tp_stream *stream)
{
	return PyLong_FromVoidPtr(stream->handle ? stream->handle : LEGACY);
}

bool tp_stream_settle(const struct tp_stream *stream, const char *function, const struct tp_view *x,
		      const struct tp_view *out)
{
	const bool on_gpu = x ? x->on_gpu : out->on_gpu;

	if (x && out && out->on_gpu != on_gpu)
		return tp_invalid("%s(): x is in memory of %s, out in memory of %s, expected both "
				  "in the same; copy one of them there",
				  function, on_gpu ? "a GPU" : "the host",
				  on_gpu ? "the host" : "a GPU");
	if (stream->given && !on_gpu)
		return tp_invalid("%s(): stream was given, and the arrays are in memory of the "
				  "host; expected arrays on a GPU, or no stream",
				  function);
	return true;
}

bool tp_streams_load(void)
{
	PyObject *arrays = PyImport_ImportModule("tutti._arrays");

	if (!arrays)
		return false;
	stream_function = PyObject_GetAttrString(arrays, "stream_of");
	lend_function = PyObject_GetAttrString(arrays, "lend");
	Py_DECREF(arrays);
	return stream_function && lend_function;
}
