/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tutti/_lists.py makes the methods of arrays that differ of: one call tells what an array is,
 * before anything is sent, and the other carries out a collective with a count for each rank.
 */
#include "lists.h"

#include <stdlib.h>

#include "arrays.h"
#include "errors.h"
#include "flight.h"
#include "groups.h"
#include "operations.h"
#include "streams.h"

struct call {
	tutti_comm_t comm;
	const void *send;
	void *recv;
	size_t count, received;
	size_t *send_counts, *recv_counts; /* NULL: there are none */
	tutti_dtype_t dtype;
	tutti_op_t op;
	int root;
	struct tp_stream stream;
	bool on_gpu;
	tutti_result_t (*run)(const struct call *call, tutti_request_t *request);
	tutti_result_t (*put)(const struct call *call); /* on the stream */
};

static tutti_result_t run_all_gather_v(const struct call *c, tutti_request_t *r)
{
	return tutti_all_gather_v(c->comm, c->send, c->recv, c->recv_counts, NULL, c->dtype, r);
}

static tutti_result_t run_gather_v(const struct call *c, tutti_request_t *r)
{
	return tutti_gather_v(c->comm, c->send, c->count, c->recv, c->recv_counts, NULL, c->dtype,
			      c->root, r);
}

static tutti_result_t run_scatter_v(const struct call *c, tutti_request_t *r)
{
	return tutti_scatter_v(c->comm, c->send, c->send_counts, NULL, c->recv, c->received,
			       c->dtype, c->root, r);
}

static tutti_result_t run_all_to_all_v(const struct call *c, tutti_request_t *r)
{
	return tutti_all_to_all_v(c->comm, c->send, c->send_counts, NULL, c->recv, c->recv_counts,
				  NULL, c->dtype, r);
}

static tutti_result_t run_reduce_scatter_v(const struct call *c, tutti_request_t *r)
{
	return tutti_reduce_scatter_v(c->comm, c->send, c->recv, c->send_counts, c->dtype, c->op,
				      r);
}

static tutti_result_t put_all_gather_v(const struct call *c)
{
	return tutti_cuda_all_gather_v(c->comm, c->send, c->recv, c->recv_counts, NULL, c->dtype,
				       c->stream.handle);
}

static tutti_result_t put_gather_v(const struct call *c)
{
	return tutti_cuda_gather_v(c->comm, c->send, c->count, c->recv, c->recv_counts, NULL,
				   c->dtype, c->root, c->stream.handle);
}

static tutti_result_t put_scatter_v(const struct call *c)
{
	return tutti_cuda_scatter_v(c->comm, c->send, c->send_counts, NULL, c->recv, c->received,
				    c->dtype, c->root, c->stream.handle);
}

static tutti_result_t put_all_to_all_v(const struct call *c)
{
	return tutti_cuda_all_to_all_v(c->comm, c->send, c->send_counts, NULL, c->recv,
				       c->recv_counts, NULL, c->dtype, c->stream.handle);
}

static tutti_result_t put_reduce_scatter_v(const struct call *c)
{
	return tutti_cuda_reduce_scatter_v(c->comm, c->send, c->recv, c->send_counts, c->dtype,
					   c->op, c->stream.handle);
}

static const struct by_counts {
	const char *name;
	tutti_result_t (*run)(const struct call *call, tutti_request_t *request);
	tutti_result_t (*put)(const struct call *call);
	bool reduces;
} by_counts[] = {
	{ "all_gather_v", run_all_gather_v, put_all_gather_v, false },
	{ "gather_v", run_gather_v, put_gather_v, false },
	{ "scatter_v", run_scatter_v, put_scatter_v, false },
	{ "all_to_all_v", run_all_to_all_v, put_all_to_all_v, false },
	{ "reduce_scatter_v", run_reduce_scatter_v, put_reduce_scatter_v, true },
};

static bool is_outside(const struct tp_comm *self, const char *function)
{
	if (!self->groups || !tp_group_find(self))
		return true;
	return tp_invalid("%s(): this thread has a group open, and shapes or lengths are exchanged "
			  "first; call it outside",
			  function);
}

static PyObject *about(const struct tp_view *view)
{
	return Py_BuildValue("sNNN", tp_view_type(view), PyBool_FromLong(view->kind == TP_OPAQUE),
			     PyBool_FromLong(view->on_gpu),
			     tp_shape_tuple(view->shape, view->ndim));
}

/*
 * _describe(function, name, x, any_layout), of _lists.py: the element type of `x`, whether it is
 * opaque, whether `x` is on a GPU, and its shape. Refuses what the call could not take.
 */
static PyObject *describe(PyObject *object, PyObject *args)
{
	struct tp_comm *self = (struct tp_comm *)object;
	struct tp_stream stream = { .gpu = self->gpu };
	struct tp_wanted wanted = { .stream = &stream };
	struct tp_view view;
	int any_layout;
	PyObject *x, *result;

	if (!PyArg_ParseTuple(args, "ssOp", &wanted.function, &wanted.name, &x, &any_layout) ||
	    !tp_comm_open(self, wanted.function) || !is_outside(self, wanted.function))
		return NULL;
	wanted.any_layout = any_layout;
	if (!tp_view_take(&view, x, &wanted))
		return NULL;
	result = about(&view);
	tp_view_release(&view);
	return result;
}

/* a list of counts as the library takes it; NULL without an error for None */
static size_t *take_counts(PyObject *list, int size, size_t per)
{
	size_t *counts;

	if (list == Py_None)
		return NULL;
	if (PyList_Size(list) != size) {
		PyErr_SetString(PyExc_ValueError,
				"a list of counts has not the length of the size");
		return NULL;
	}
	counts = malloc(sizeof(*counts) * (size_t)size);
	if (!counts)
		return (size_t *)PyErr_NoMemory();
	for (int i = 0; i < size; i++)
		counts[i] = PyLong_AsSize_t(PyList_GetItem(list, i)) * per;
	if (PyErr_Occurred()) {
		free(counts);
		return NULL;
	}
	return counts;
}

/* Does the array hold exactly what the counts say? Those that do not exist fit. */
static bool holds(bool has_view, const struct tp_view *view, const size_t *counts, int size)
{
	size_t left = has_view ? tp_view_elements(view) : 0;

	if (!has_view || !counts)
		return true;
	for (int i = 0; i < size; i++) {
		if (counts[i] > left)
			return false;
		left -= counts[i];
	}
	return left == 0;
}

/* What the library cannot see: it gets addresses, one type, and the counts. */
static bool arrays_fit(const struct tp_comm *self, const char *function, const struct tp_flight *f,
		       const struct call *call)
{
	const bool both = f->has_input && f->has_output; /* and counts of one of them at least */

	if (both && !tp_view_same_type(&f->input, &f->output))
		return tp_invalid("%s(): out has elements of %s, x of %s, expected the same type",
				  function, tp_view_type(&f->output), tp_view_type(&f->input));
	if (!holds(f->has_input, &f->input, call->send_counts, self->size) ||
	    !holds(f->has_output, &f->output, call->recv_counts, self->size) ||
	    (both && !call->send_counts && call->recv_counts[self->rank] != call->count) ||
	    (both && !call->recv_counts && call->send_counts[self->rank] != call->received))
		return tp_invalid("%s(): arrays changed their lengths during the call; expected "
				  "that no other thread touches them",
				  function);
	return true;
}

static bool take_optional(struct tp_view *view, bool *has, PyObject *array,
			  const struct tp_wanted *wanted)
{
	if (array == Py_None)
		return true;
	if (!tp_view_take(view, array, wanted))
		return false;
	*has = true;
	return true;
}

static bool take_arrays(struct tp_flight *flight, const char *function, PyObject *send,
			PyObject *recv, struct tp_stream *stream)
{
	const struct tp_wanted x = { function, "x", false, stream };
	const struct tp_wanted out = { function, "out", true, stream };

	return take_optional(&flight->input, &flight->has_input, send, &x) &&
	       take_optional(&flight->output, &flight->has_output, recv, &out) &&
	       tp_stream_settle(stream, function, flight->has_input ? &flight->input : NULL,
				flight->has_output ? &flight->output : NULL);
}

static bool set_operation(struct tp_comm *self, const char *function, PyObject *op,
			  struct tp_flight *flight, struct call *call)
{
	if (!tp_op_of(function, self, op == Py_None ? NULL : op, &flight->input, &call->op) ||
	    !tp_view_normalize(&flight->input))
		return false;
	call->send = flight->input.data;
	return true;
}

static tutti_result_t start_call(void *context, tutti_request_t *request)
{
	const struct call *call = context;

	return call->on_gpu ? call->put(call) : call->run(call, request);
}

/* the counts of a call, of which each may be None */
static bool set_counts(struct call *call, int size, size_t per, PyObject *send, PyObject *recv)
{
	call->send_counts = take_counts(send, size, per);
	if (!PyErr_Occurred())
		call->recv_counts = take_counts(recv, size, per);
	return !PyErr_Occurred();
}

static void set_arrays(struct call *call, const struct tp_flight *flight)
{
	const struct tp_view *typed = flight->has_input ? &flight->input : &flight->output;

	call->on_gpu = typed->on_gpu;
	call->dtype = typed->dtype;
	if (flight->has_input) {
		call->send = flight->input.data;
		call->count = tp_view_elements(&flight->input);
	}
	if (flight->has_output) {
		call->recv = flight->output.data;
		call->received = tp_view_elements(&flight->output);
	}
}

/* _counted(number, send, recv, send_counts, recv_counts, op, root, timeout), of _communicator.py */
static PyObject *counted(PyObject *object, PyObject *args)
{
	struct tp_comm *self = (struct tp_comm *)object;
	PyObject *send, *recv, *send_list, *recv_list, *op, *timeout, *result = NULL;
	struct tp_flight flight = { 0 };
	struct call call = { .stream.gpu = self->gpu };
	int number;

	if (!PyArg_ParseTuple(args, "iOOOOOiO", &number, &send, &recv, &send_list, &recv_list, &op,
			      &call.root, &timeout))
		return NULL;
	if (number < 0 || (size_t)number >= sizeof(by_counts) / sizeof(by_counts[0])) {
		PyErr_SetString(PyExc_ValueError, "no collective has that number");
		return NULL;
	}
	const struct by_counts *c = &by_counts[number];
	call.run = c->run;
	call.put = c->put;
	if (!tp_comm_open(self, c->name) || !is_outside(self, c->name) ||
	    !take_arrays(&flight, c->name, send, recv, &call.stream))
		goto out;
	set_arrays(&call, &flight);
	if (!set_counts(&call, self->size, flight.has_input ? flight.input.per : flight.output.per,
			send_list, recv_list) ||
	    !arrays_fit(self, c->name, &flight, &call) ||
	    (c->reduces && !set_operation(self, c->name, op, &flight, &call)))
		goto out;
	if (!tp_comm_open(self, c->name) || (c->reduces && !tp_op_ready(self, &call.op)))
		goto out;
	call.comm = tp_comm_next_call(self, c->name, timeout, NULL);
	if (call.comm && tp_flight_run(self, start_call, &call))
		result = tp_flight_result(&flight);
out:
	free(call.send_counts);
	free(call.recv_counts);
	tp_flight_clear(&flight);
	return result;
}

PyMethodDef tp_list_methods[] = {
	{ "_describe", describe, METH_VARARGS, NULL },
	{ "_counted", counted, METH_VARARGS, NULL },
};

int tp_list_count(void)
{
	return sizeof(tp_list_methods) / sizeof(tp_list_methods[0]);
}
