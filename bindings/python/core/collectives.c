/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One function carries out every collective by its row of a table, which says what shapes its
 * arrays have and who needs which. Checks come before anything is sent. The blocking form has its
 * views on the stack and allocates nothing but the result.
 */
#include "collectives.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "errors.h"
#include "groups.h"
#include "operations.h"
#include "request.h"
#include "streams.h"

/* how the shapes of x and of the result belong together, with `size` ranks */
enum shapes {
	SAME,	  /* x and result have the same */
	GATHERED, /* the result has (size, *x.shape) */
	SHARED	  /* x has (size, *result.shape) */
};

struct arguments { /* of the library's call */
	tutti_comm_t comm;
	const void *send;
	void *recv;
	size_t count;
	tutti_dtype_t dtype;
	tutti_op_t op;
	int root;
	tutti_cuda_stream_t stream; /* of arrays on a GPU */
};

struct collective {
	const char *name;
	tutti_result_t (*run)(const struct arguments *a, tutti_request_t *request);
	tutti_result_t (*put)(const struct arguments *a); /* on a stream */
	enum shapes shapes;
	bool at_root_in;	    /* x matters at the root only */
	bool at_root_out;	    /* the result is there only */
	bool blocks;		    /* x has one block for each rank, result too: all_to_all */
	bool in_place;		    /* without `out`, the result is put into x: broadcast */
	bool excludes;		    /* rank 0 gets nothing: exscan */
	int op, root, out, timeout; /* places of the arguments, -1: there is none; `stream`
				     * is behind `timeout` */
	struct tp_signature signature;
};

static tutti_result_t run_all_reduce(const struct arguments *a, tutti_request_t *r)
{
	return tutti_all_reduce(a->comm, a->send, a->recv, a->count, a->dtype, a->op, r);
}

static tutti_result_t run_reduce(const struct arguments *a, tutti_request_t *r)
{
	return tutti_reduce(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->root, r);
}

static tutti_result_t run_reduce_scatter(const struct arguments *a, tutti_request_t *r)
{
	return tutti_reduce_scatter(a->comm, a->send, a->recv, a->count, a->dtype, a->op, r);
}

static tutti_result_t run_scan(const struct arguments *a, tutti_request_t *r)
{
	return tutti_scan(a->comm, a->send, a->recv, a->count, a->dtype, a->op, r);
}

static tutti_result_t run_exscan(const struct arguments *a, tutti_request_t *r)
{
	return tutti_exscan(a->comm, a->send, a->recv, a->count, a->dtype, a->op, r);
}

static tutti_result_t run_broadcast(const struct arguments *a, tutti_request_t *r)
{
	return tutti_broadcast(a->comm, a->send, a->recv, a->count, a->dtype, a->root, r);
}

static tutti_result_t run_all_gather(const struct arguments *a, tutti_request_t *r)
{
	return tutti_all_gather(a->comm, a->send, a->recv, a->count, a->dtype, r);
}

static tutti_result_t run_gather(const struct arguments *a, tutti_request_t *r)
{
	return tutti_gather(a->comm, a->send, a->recv, a->count, a->dtype, a->root, r);
}

static tutti_result_t run_scatter(const struct arguments *a, tutti_request_t *r)
{
	return tutti_scatter(a->comm, a->send, a->recv, a->count, a->dtype, a->root, r);
}

static tutti_result_t run_all_to_all(const struct arguments *a, tutti_request_t *r)
{
	return tutti_all_to_all(a->comm, a->send, a->recv, a->count, a->dtype, r);
}

/* the same on a stream */

static tutti_result_t put_all_reduce(const struct arguments *a)
{
	return tutti_cuda_all_reduce(a->comm, a->send, a->recv, a->count, a->dtype, a->op,
				     a->stream);
}

static tutti_result_t put_reduce(const struct arguments *a)
{
	return tutti_cuda_reduce(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->root,
				 a->stream);
}

static tutti_result_t put_reduce_scatter(const struct arguments *a)
{
	return tutti_cuda_reduce_scatter(a->comm, a->send, a->recv, a->count, a->dtype, a->op,
					 a->stream);
}

static tutti_result_t put_scan(const struct arguments *a)
{
	return tutti_cuda_scan(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->stream);
}

static tutti_result_t put_exscan(const struct arguments *a)
{
	return tutti_cuda_exscan(a->comm, a->send, a->recv, a->count, a->dtype, a->op, a->stream);
}

static tutti_result_t put_broadcast(const struct arguments *a)
{
	return tutti_cuda_broadcast(a->comm, a->send, a->recv, a->count, a->dtype, a->root,
				    a->stream);
}

static tutti_result_t put_all_gather(const struct arguments *a)
{
	return tutti_cuda_all_gather(a->comm, a->send, a->recv, a->count, a->dtype, a->stream);
}

static tutti_result_t put_gather(const struct arguments *a)
{
	return tutti_cuda_gather(a->comm, a->send, a->recv, a->count, a->dtype, a->root, a->stream);
}

static tutti_result_t put_scatter(const struct arguments *a)
{
	return tutti_cuda_scatter(a->comm, a->send, a->recv, a->count, a->dtype, a->root,
				  a->stream);
}

static tutti_result_t put_all_to_all(const struct arguments *a)
{
	return tutti_cuda_all_to_all(a->comm, a->send, a->recv, a->count, a->dtype, a->stream);
}

enum {
	ALL_REDUCE,
	REDUCE,
	REDUCE_SCATTER,
	SCAN,
	EXSCAN,
	BROADCAST,
	ALL_GATHER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	COLLECTIVES
};

static struct collective table[COLLECTIVES] = {
	[ALL_REDUCE] = { .name = "all_reduce",
			 .run = run_all_reduce,
			 .put = put_all_reduce,
			 .shapes = SAME,
			 .op = 1,
			 .out = 2,
			 .root = -1,
			 .timeout = 3,
			 .signature = { "all_reduce",
					1,
					3,
					{ "x", "op", "out", "timeout", "stream" },
					{ NULL } } },
	[REDUCE] = { .name = "reduce",
		     .run = run_reduce,
		     .put = put_reduce,
		     .shapes = SAME,
		     .at_root_out = true,
		     .op = 1,
		     .root = 2,
		     .out = 3,
		     .timeout = 4,
		     .signature = { "reduce",
				    1,
				    4,
				    { "x", "op", "root", "out", "timeout", "stream" },
				    { NULL } } },
	[REDUCE_SCATTER] = { .name = "reduce_scatter",
			     .run = run_reduce_scatter,
			     .put = put_reduce_scatter,
			     .shapes = SHARED,
			     .op = 1,
			     .out = 2,
			     .root = -1,
			     .timeout = 3,
			     .signature = { "reduce_scatter",
					    1,
					    3,
					    { "x", "op", "out", "timeout", "stream" },
					    { NULL } } },
	[SCAN] = { .name = "scan",
		   .run = run_scan,
		   .put = put_scan,
		   .shapes = SAME,
		   .op = 1,
		   .out = 2,
		   .root = -1,
		   .timeout = 3,
		   .signature = { "scan",
				  1,
				  3,
				  { "x", "op", "out", "timeout", "stream" },
				  { NULL } } },
	[EXSCAN] = { .name = "exscan",
		     .run = run_exscan,
		     .put = put_exscan,
		     .shapes = SAME,
		     .excludes = true,
		     .op = 1,
		     .out = 2,
		     .root = -1,
		     .timeout = 3,
		     .signature = { "exscan",
				    1,
				    3,
				    { "x", "op", "out", "timeout", "stream" },
				    { NULL } } },
	[BROADCAST] = { .name = "broadcast",
			.run = run_broadcast,
			.put = put_broadcast,
			.shapes = SAME,
			.in_place = true,
			.op = -1,
			.root = 1,
			.out = 2,
			.timeout = 3,
			.signature = { "broadcast",
				       1,
				       3,
				       { "x", "root", "out", "timeout", "stream" },
				       { NULL } } },
	[ALL_GATHER] = { .name = "all_gather",
			 .run = run_all_gather,
			 .put = put_all_gather,
			 .shapes = GATHERED,
			 .op = -1,
			 .root = -1,
			 .out = 1,
			 .timeout = 2,
			 .signature = { "all_gather",
					1,
					2,
					{ "x", "out", "timeout", "stream" },
					{ NULL } } },
	[GATHER] = { .name = "gather",
		     .run = run_gather,
		     .put = put_gather,
		     .shapes = GATHERED,
		     .at_root_out = true,
		     .op = -1,
		     .root = 1,
		     .out = 2,
		     .timeout = 3,
		     .signature = { "gather",
				    1,
				    3,
				    { "x", "root", "out", "timeout", "stream" },
				    { NULL } } },
	[SCATTER] = { .name = "scatter",
		      .run = run_scatter,
		      .put = put_scatter,
		      .shapes = SHARED,
		      .at_root_in = true,
		      .op = -1,
		      .root = 1,
		      .out = 2,
		      .timeout = 3,
		      .signature = { "scatter",
				     1,
				     3,
				     { "x", "root", "out", "timeout", "stream" },
				     { NULL } } },
	[ALL_TO_ALL] = { .name = "all_to_all",
			 .run = run_all_to_all,
			 .put = put_all_to_all,
			 .shapes = SAME,
			 .blocks = true,
			 .op = -1,
			 .root = -1,
			 .out = 1,
			 .timeout = 2,
			 .signature = { "all_to_all",
					1,
					2,
					{ "x", "out", "timeout", "stream" },
					{ NULL } } },
};

/* ---------------------------------------------------------------- arrays of a call */

/* a call while it is prepared */
struct call {
	struct tp_comm *self;
	const struct collective *collective;
	PyObject *const *found; /* by place */
	struct tp_flight flight;
	struct arguments arguments;
	struct tp_stream stream;
	bool is_root;
	bool on_gpu;
};

static PyObject *given(const struct call *call, int place)
{
	PyObject *value = place < 0 ? NULL : call->found[place];

	return value == Py_None ? NULL : value;
}

static bool needs_input(const struct call *call)
{
	return !call->collective->at_root_in || call->is_root;
}

static bool needs_output(const struct call *call)
{
	return !call->collective->at_root_out || call->is_root;
}

static bool take_root(struct call *call)
{
	const struct collective *c = call->collective;

	call->arguments.root = 0;
	call->is_root = false;
	if (c->root < 0)
		return true;
	if (!tp_int(c->name, "root", call->found[c->root], &call->arguments.root))
		return false;
	if (call->arguments.root < 0 || call->arguments.root >= call->self->size)
		return tp_invalid("%s(): root is %d, expected a rank of the communicator: 0 ... %d",
				  c->name, call->arguments.root, call->self->size - 1);
	call->is_root = call->arguments.root == call->self->rank;
	return true;
}

/* the first length of an array of blocks is the number of ranks */
static bool has_blocks(const struct call *call, const struct tp_view *view, const char *name)
{
	const int size = call->self->size;

	if (view->ndim > 0 && view->shape[0] == size)
		return true;
	if (view->ndim == 0)
		return tp_invalid(
			"%s(): %s has no dimension, expected the shape (%d, ...): a block "
			"for each rank",
			call->collective->name, name, size);
	return tp_invalid(
		"%s(): %s has the first length %zd, expected the shape (%d, ...): a block "
		"for each rank; reshape it",
		call->collective->name, name, view->shape[0], size);
}

static bool take_input(struct call *call)
{
	const struct collective *c = call->collective;
	const bool written = c->in_place && !given(call, c->out) && !call->is_root;
	const struct tp_wanted wanted = { c->name, "x", written, &call->stream };
	PyObject *x = given(call, 0);

	if (!needs_input(call))
		return true;
	if (!x)
		return tp_invalid("%s(): x is None, expected an array%s", c->name,
				  c->at_root_in ? " at the root" : "");
	if (!tp_view_take(&call->flight.input, x, &wanted))
		return false;
	call->flight.has_input = true;
	return (c->shapes != SHARED && !c->blocks) || has_blocks(call, &call->flight.input, "x");
}

/* elements, as the library counts them, of a block; of x or else of the result */
static size_t elements(const struct call *call)
{
	const struct tp_flight *f = &call->flight;
	const bool divided = call->collective->shapes == SHARED || call->collective->blocks;

	if (!f->has_input)
		return tp_view_elements(&f->output);
	return tp_view_elements(&f->input) / (divided ? (size_t)call->self->size : 1);
}

static bool make_output(struct call *call)
{
	const struct collective *c = call->collective;
	const struct tp_view *in = &call->flight.input;
	Py_ssize_t *shape = NULL;
	int ndim = in->ndim;

	if (!call->flight.has_input)
		return tp_invalid("%s(): out is None, expected the array that receives: only the "
				  "root knows shape and type (scatter_v() tells the others)",
				  c->name);
	if (c->shapes == GATHERED) {
		shape = malloc(sizeof(*shape) * ((size_t)ndim + 1));
		if (!shape)
			return PyErr_NoMemory();
		shape[0] = call->self->size;
		if (ndim > 0) /* else there is no table */
			memcpy(shape + 1, in->shape, sizeof(*shape) * (size_t)ndim);
		ndim++;
	} else if (c->shapes == SHARED) {
		ndim--;
	}
	call->flight.result = tp_array_like(given(call, 0), in,
					    shape		  ? shape
					    : c->shapes == SHARED ? in->shape + 1
								  : NULL,
					    ndim, &call->flight.finish);
	free(shape);
	if (call->flight.finish && tp_group_find(call->self))
		return tp_invalid("%s(): in a group, arrays that cannot be written need out=, an "
				  "array that can",
				  c->name);
	return call->flight.result;
}

static bool fits(const struct call *call)
{
	const struct tp_flight *f = &call->flight;
	const struct tp_view *in = &f->input, *out = &f->output;
	const size_t ranks = (size_t)call->self->size;
	const size_t blocks = call->collective->shapes == GATHERED || call->collective->blocks;
	const size_t wanted = elements(call) * (blocks ? ranks : 1);

	if (!f->has_input)
		return true;
	if (!tp_view_same_type(out, in))
		return tp_invalid("%s(): out has elements of %s, x of %s, expected the same type",
				  call->collective->name, tp_view_type(out), tp_view_type(in));
	if (tp_view_elements(out) != wanted)
		return tp_invalid("%s(): out has %zu elements, expected %zu",
				  call->collective->name, out->count, wanted / in->per);
	return true;
}

/* Nothing comes to rank 0: a defined array all the same. The host's is cleared when it is known
 * where it is; another library clears its own, before it is asked for the array. */
static bool clear_output(struct call *call)
{
	PyObject *zero;
	bool done;

	if (call->self->rank > 0 || !call->flight.input.on_gpu)
		return true;
	zero = PyLong_FromLong(0);
	done = zero && PyObject_SetItem(call->flight.result, Py_Ellipsis, zero) == 0;
	Py_XDECREF(zero);
	return done;
}

static bool take_output(struct call *call)
{
	const struct collective *c = call->collective;
	const struct tp_wanted wanted = { c->name, "out", true, &call->stream };
	PyObject *out = given(call, c->out);

	if (!needs_output(call)) {
		if (out)
			return tp_invalid(
				"%s(): out was given on rank %d, expected it at the root, "
				"%d, only: the result is there",
				c->name, call->self->rank, call->arguments.root);
		return true;
	}
	if (!out && c->in_place) {
		Py_INCREF(call->found[0]);
		call->flight.result = call->found[0];
		return true;
	}
	if (out) {
		Py_INCREF(out);
		call->flight.result = out;
	} else if (!make_output(call) || (c->excludes && !clear_output(call))) {
		return false;
	}
	if (!tp_view_take(&call->flight.output, call->flight.result, &wanted))
		return false;
	call->flight.has_output = true;
	return fits(call);
}

/* where the input may lie in the output: the library's "in place", by bytes from its start */
static const char *place_in_output(const struct call *call, size_t bytes)
{
	const char *out = call->arguments.recv;
	const char *in = call->arguments.send;
	const size_t rank = (size_t)call->self->rank;

	if (call->collective->shapes == GATHERED)
		return out + rank * bytes;
	if (call->collective->shapes == SHARED) /* the other way round: out lies in x */
		return out == in + rank * bytes ? in : NULL;
	return out;
}

static bool overlaps_well(const struct call *call)
{
	const struct tp_flight *f = &call->flight;
	const char *in, *out;
	size_t in_bytes, out_bytes, block;

	if (!f->has_input || !f->has_output)
		return true;
	in = f->input.data;
	out = f->output.data;
	if (in == out && call->collective->shapes == SAME)
		return true;
	in_bytes = f->input.count * tp_view_item(&f->input);
	out_bytes = f->output.count * tp_view_item(&f->output);
	block = elements(call) * tutti_dtype_size(f->input.dtype);
	if (in + in_bytes <= out || out + out_bytes <= in || in_bytes == 0 || out_bytes == 0)
		return true;
	if (in == place_in_output(call, block))
		return true;
	return tp_invalid("%s(): out overlaps x; expected memory of its own%s",
			  call->collective->name,
			  call->collective->shapes == SAME
				  ? ", or out=x"
				  : ", or the place of this rank's block in the larger one");
}

static bool set_place(struct call *call)
{
	const struct tp_flight *f = &call->flight;
	const bool out_on_gpu = f->has_output && f->output.on_gpu;

	call->on_gpu = f->has_input ? f->input.on_gpu : out_on_gpu;
	if (!call->on_gpu && !out_on_gpu && !call->stream.given)
		return true;
	call->arguments.stream = call->stream.handle;
	return tp_stream_settle(&call->stream, call->collective->name,
				f->has_input ? &f->input : NULL, f->has_output ? &f->output : NULL);
}

static bool set_operation(struct call *call, const struct tp_view *typed)
{
	const struct collective *c = call->collective;

	return c->op < 0 ||
	       tp_op_of(c->name, call->self, given(call, c->op), typed, &call->arguments.op);
}

static bool set_arguments(struct call *call)
{
	struct tp_flight *f = &call->flight;
	struct arguments *a = &call->arguments;
	const struct tp_view *typed = f->has_input ? &f->input : &f->output;

	a->send = f->has_input ? f->input.data : NULL;
	a->recv = f->has_output ? f->output.data : NULL;
	if (call->collective->in_place && !f->has_output)
		a->recv = f->input.data;
	a->count = elements(call);
	a->dtype = typed->dtype;
	if (!set_operation(call, typed) || !overlaps_well(call))
		return false;
	if (call->collective->op < 0)
		return true;
	if (!tp_view_normalize(&f->input))
		return false;
	a->send = f->input.data;
	return true;
}

static bool prepare(struct call *call)
{
	if (!take_root(call) || !take_input(call) || !take_output(call) || !set_place(call) ||
	    !set_arguments(call))
		return false;
	if (call->collective->excludes && call->self->rank == 0 && !call->on_gpu &&
	    !given(call, call->collective->out)) /* see clear_output() */
		memset(call->flight.output.data, 0,
		       call->flight.output.count * tp_view_item(&call->flight.output));
	/* what is said of the next call must not stay for another one: nothing fails behind it */
	if (call->collective->op >= 0 && (!tp_comm_open(call->self, call->collective->name) ||
					  !tp_op_ready(call->self, &call->arguments.op)))
		return false;
	call->arguments.comm = tp_comm_next_call(
		call->self, call->collective->name, given(call, call->collective->timeout),
		call->flight.has_input ? &call->flight.input : &call->flight.output);
	return call->arguments.comm;
}

/* ---------------------------------------------------------------- carrying it out */

static struct tp_flight *to_heap(const struct tp_flight *flight)
{
	struct tp_flight *copy = tp_flight_new();

	if (copy)
		*copy = *flight;
	else
		tp_flight_clear((struct tp_flight *)flight);
	return copy;
}

static PyObject *collect(struct tp_comm *self, struct tp_group *group,
			 const struct tp_flight *flight, tp_start_t *run, void *context)
{
	PyObject *result = flight->result ? flight->result : Py_None;
	struct tp_flight *copy = to_heap(flight);

	if (!copy)
		return NULL;
	Py_INCREF(result);
	if (tp_group_collect(self, group, copy, run, context))
		return result;
	Py_DECREF(result);
	return NULL;
}

bool tp_call_may_start(const struct tp_comm *self, const char *function)
{
	if (!self->groups || !tp_group_find(self))
		return true;
	return tp_invalid("start_%s(): this thread has a group open, whose calls have no requests "
			  "of their own; call %s(), and group(wait=False) for one request for all",
			  function, function);
}

PyObject *tp_call_carry_out(struct tp_comm *self, const struct tp_flight *flight, tp_start_t *run,
			    void *context)
{
	struct tp_group *group = self->groups ? tp_group_find(self) : NULL;
	struct tp_flight *copy;

	if (group)
		return collect(self, group, flight, run, context);
	copy = to_heap(flight);
	return copy ? tp_request_start(self, copy, run, context) : NULL;
}

static tutti_result_t start_call(void *context, tutti_request_t *request)
{
	const struct call *call = context;

	return call->on_gpu ? call->collective->put(&call->arguments)
			    : call->collective->run(&call->arguments, request);
}

static PyObject *carry_out(struct call *call, bool start)
{
	PyObject *result = NULL;

	if (start || call->self->groups) {
		if (start || tp_group_find(call->self))
			return tp_call_carry_out(call->self, &call->flight, start_call, call);
	}
	if (tp_flight_run(call->self, start_call, call))
		result = tp_flight_result(&call->flight);
	tp_flight_clear(&call->flight);
	return result;
}

static PyObject *method(int number, bool start, PyObject *object, PyObject *const *args,
			Py_ssize_t count, PyObject *names)
{
	struct collective *collective = &table[number];
	PyObject *found[TP_ARGUMENTS_MAX];
	struct call call; /* is long: what is not set is not looked at */

	call.self = (struct tp_comm *)object;
	call.collective = collective;
	call.found = found;
	if (!tp_comm_open(call.self, collective->name) ||
	    (start && !tp_call_may_start(call.self, collective->name)) ||
	    !tp_arguments(&collective->signature, args, count, names, found))
		return NULL;
	call.stream = (struct tp_stream){ .gpu = call.self->gpu,
					  .refusal = start ? tp_stream_no_requests : NULL,
					  .given = given(&call, collective->timeout + 1) };
	tp_flight_init(&call.flight);
	if (!prepare(&call)) {
		tp_flight_clear(&call.flight);
		return NULL;
	}
	return carry_out(&call, start);
}

/* the two methods of a row */
#define METHODS(name, number)                                                                      \
	static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t count,             \
			      PyObject *names)                                                     \
	{                                                                                          \
		return method(number, false, self, args, count, names);                            \
	}                                                                                          \
	static PyObject *start_##name(PyObject *self, PyObject *const *args, Py_ssize_t count,     \
				      PyObject *names)                                             \
	{                                                                                          \
		return method(number, true, self, args, count, names);                             \
	}

METHODS(all_reduce, ALL_REDUCE)
METHODS(reduce, REDUCE)
METHODS(reduce_scatter, REDUCE_SCATTER)
METHODS(scan, SCAN)
METHODS(exscan, EXSCAN)
METHODS(broadcast, BROADCAST)
METHODS(all_gather, ALL_GATHER)
METHODS(gather, GATHER)
METHODS(scatter, SCATTER)
METHODS(all_to_all, ALL_TO_ALL)

#define STARTED(name)                                                                              \
	"The same as " name "(), but returns a Request at once, which gives the result."

PyMethodDef tp_collective_methods[] = {
	TP_METHOD(
		"all_reduce", all_reduce,
		"all_reduce($self, x, op='sum', out=None, *, timeout=None, stream=None)\n--\n\n"
		"Reduce the arrays of all ranks, element by element; every rank gets the result.\n\n"
		"x: an array of any shape, the same on all ranks. The result has its shape and "
		"type. out=x: in place.\n"
		"op: 'sum', 'prod', 'min', 'max', 'avg', 'band', 'bor', 'bxor', or an Op. Of bool, "
		"sum and max are\n'lor', prod and min are 'land'; complex numbers have 'sum' and "
		"'avg'.\n"
		"timeout: the deadline of this call in seconds.\n"
		"stream: where the operation is put, of arrays on a GPU: see bind_cuda().\n\n"
		">>> comm.all_reduce(numpy.ones(3))      # with 4 ranks\n"
		"array([4., 4., 4.])"),
	TP_METHOD("start_all_reduce", start_all_reduce,
		  "start_all_reduce($self, x, op='sum', out=None, *, timeout=None)\n--\n\n" STARTED(
			  "all_reduce")),
	TP_METHOD(
		"reduce", reduce,
		"reduce($self, x, op='sum', root=0, out=None, *, timeout=None, stream=None)\n--\n\n"
		"Reduce as all_reduce() does; `root` gets the result, the others None.\n\n"
		"x: an array of any shape, the same on all ranks. out: at the root only; out=x is "
		"in place."),
	TP_METHOD(
		"start_reduce", start_reduce,
		"start_reduce($self, x, op='sum', root=0, out=None, *, timeout=None)\n--\n\n" STARTED(
			"reduce")),
	TP_METHOD(
		"reduce_scatter", reduce_scatter,
		"reduce_scatter($self, x, op='sum', out=None, *, timeout=None, stream=None)\n--\n\n"
		"Reduce arrays of one block for each rank; rank r gets block r of the result.\n\n"
		"x: an array of shape (size, *s). The result has the shape s. In place: "
		"out=x[comm.rank]."),
	TP_METHOD(
		"start_reduce_scatter", start_reduce_scatter,
		"start_reduce_scatter($self, x, op='sum', out=None, *, timeout=None)\n--\n\n" STARTED(
			"reduce_scatter")),
	TP_METHOD("scan", scan,
		  "scan($self, x, op='sum', out=None, *, timeout=None, stream=None)\n--\n\n"
		  "Rank r gets the reduction of the arrays of ranks 0 ... r. Not for 'avg'.\n\n"
		  "x: an array of any shape, the same on all ranks. The result has its shape. "
		  "out=x: in place."),
	TP_METHOD("start_scan", start_scan,
		  "start_scan($self, x, op='sum', out=None, *, timeout=None)\n--\n\n" STARTED(
			  "scan")),
	TP_METHOD(
		"exscan", exscan,
		"exscan($self, x, op='sum', out=None, *, timeout=None, stream=None)\n--\n\n"
		"Rank r gets the reduction of the arrays of ranks 0 ... r-1. Not for 'avg'.\n\n"
		"x: an array of any shape, the same on all ranks. The result has its shape. Rank 0 "
		"gets zeros,\nor keeps what `out` had."),
	TP_METHOD("start_exscan", start_exscan,
		  "start_exscan($self, x, op='sum', out=None, *, timeout=None)\n--\n\n" STARTED(
			  "exscan")),
	TP_METHOD("broadcast", broadcast,
		  "broadcast($self, x, root=0, out=None, *, timeout=None, stream=None)\n--\n\n"
		  "Give every rank the array of `root`.\n\n"
		  "x: an array of any shape, the same on all ranks. Without `out`, the ranks other "
		  "than the root\nhave theirs overwritten, and x is the result. With `out`, x is "
		  "unchanged."),
	TP_METHOD("start_broadcast", start_broadcast,
		  "start_broadcast($self, x, root=0, out=None, *, timeout=None)\n--\n\n" STARTED(
			  "broadcast")),
	TP_METHOD(
		"all_gather", all_gather,
		"all_gather($self, x, out=None, *, timeout=None, stream=None)\n--\n\n"
		"Collect the arrays of all ranks; every rank gets all.\n\n"
		"x: an array of any shape, the same on all ranks (all_gather_v() takes different "
		"ones).\nThe result has the shape (size, *x.shape). In place: x is out[comm.rank].\n\n"
		">>> comm.all_gather(numpy.array(comm.rank))      # with 4 ranks\n"
		"array([0, 1, 2, 3])"),
	TP_METHOD("start_all_gather", start_all_gather,
		  "start_all_gather($self, x, out=None, *, timeout=None)\n--\n\n" STARTED(
			  "all_gather")),
	TP_METHOD(
		"gather", gather,
		"gather($self, x, root=0, out=None, *, timeout=None, stream=None)\n--\n\n"
		"Collect the arrays of all ranks at `root`; the others get None.\n\n"
		"x: an array of any shape, the same on all ranks. The result has the shape (size, "
		"*x.shape).\nout: at the root only."),
	TP_METHOD("start_gather", start_gather,
		  "start_gather($self, x, root=0, out=None, *, timeout=None)\n--\n\n" STARTED(
			  "gather")),
	TP_METHOD("scatter", scatter,
		  "scatter($self, x, root=0, out=None, *, timeout=None, stream=None)\n--\n\n"
		  "Hand block r of the root's array to rank r.\n\n"
		  "x: at the root an array of shape (size, *s), elsewhere None. The result has the "
		  "shape s.\nout: the array that receives; the root may leave it out."),
	TP_METHOD("start_scatter", start_scatter,
		  "start_scatter($self, x, root=0, out=None, *, timeout=None)\n--\n\n" STARTED(
			  "scatter")),
	TP_METHOD(
		"all_to_all", all_to_all,
		"all_to_all($self, x, out=None, *, timeout=None, stream=None)\n--\n\n"
		"Hand block r of x to rank r; block r of the result comes from rank r.\n\n"
		"x: an array of shape (size, *s), the same on all ranks. The result has its shape. "
		"out=x: in place."),
	TP_METHOD("start_all_to_all", start_all_to_all,
		  "start_all_to_all($self, x, out=None, *, timeout=None)\n--\n\n" STARTED(
			  "all_to_all")),
};

int tp_collective_count(void)
{
	return sizeof(tp_collective_methods) / sizeof(tp_collective_methods[0]);
}
