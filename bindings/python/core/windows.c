/* SPDX-License-Identifier: BSD-3-Clause */
#include "windows.h"

#include <stdint.h>
#include <stdlib.h>

#include <tutti/cuda.h>
#include <tutti/window.h>

#include "arguments.h"
#include "arrays.h"
#include "errors.h"
#include "flight.h"
#include "streams.h"

/* An array that other ranks write to. In the list of its communicator until the window ends, also
 * when nobody holds the window any more. */
struct tp_exposed {
	struct tp_exposed *next, **link;
	struct tp_view view;
	bool has_view;
};

struct window {
	PyObject_HEAD
		/* clang-format off */
	struct tp_comm *comm; /* owned */
	/* clang-format on */
	struct tp_exposed *exposed; /* NULL: closed */
	tutti_window_t window;
	tutti_cuda_window_t on_gpu; /* instead; NULL: of the host */
};

/* What a method calls. */
struct call {
	tutti_window_t window;
	tutti_comm_t comm;
	void *data;
	size_t bytes, offset;
	int rank;
	uint32_t signal, signals;
	bool signalled;
	uint64_t number, *value;
	tutti_window_t *made;
	tutti_cuda_window_t on_gpu, *made_on_gpu;
};

static PyTypeObject *window_type, *gpu_window_type;

/* ---------------------------------------------------------------- arguments */

static bool take_number(const char *function, const char *name, PyObject *value, uint64_t most,
			uint64_t *out)
{
	PyObject *index;
	unsigned long long number;

	if (!value || value == Py_None)
		return true;
	index = PyNumber_Index(value);
	if (!index) {
		PyErr_Clear();
		return tp_invalid("%s(): %s is %R, expected an integer", function, name, value);
	}
	number = PyLong_AsUnsignedLongLong(index);
	Py_DECREF(index);
	if (number > most || PyErr_Occurred()) {
		PyErr_Clear();
		return tp_invalid("%s(): %s is %R, expected an integer from 0 to %llu", function,
				  name, value, (unsigned long long)most);
	}
	*out = number;
	return true;
}

static bool take_offset(const char *function, PyObject *value, struct call *call)
{
	uint64_t offset = 0;
	const bool taken = take_number(function, "offset", value, SIZE_MAX, &offset);

	call->offset = (size_t)offset;
	return taken;
}

static bool take_signal(const char *function, PyObject *value, struct call *call)
{
	uint64_t signal = 0;
	const bool taken = take_number(function, "signal", value, UINT32_MAX, &signal);

	call->signal = (uint32_t)signal;
	return taken;
}

/* The window of a call; false with an error if it is closed. */
static bool is_open(const struct window *self, const char *function, struct call *call)
{
	if (!self->exposed || !self->comm->comm) {
		tp_invalid("%s(): the window is closed", function);
		return false;
	}
	*call = (struct call){ .window = self->window, .rank = TUTTI_ANY_PEER };
	return true;
}

static bool begin(PyObject *object, struct tp_signature *s, PyObject *const *args, Py_ssize_t count,
		  PyObject *names, PyObject *found[TP_ARGUMENTS_MAX], struct call *call)
{
	return is_open((struct window *)object, s->function, call) &&
	       tp_arguments(s, args, count, names, found);
}

/* The last thing before a call: what is said of the next one is of this one. */
static PyObject *carry_out(PyObject *object, const char *function, PyObject *timeout,
			   tp_start_t *start, struct call *call)
{
	const struct window *self = (struct window *)object;

	if (!tp_comm_next_call(self->comm, function, timeout, NULL))
		return NULL;
	if (!self->exposed) /* code of Python has closed it, or another thread */
		return tp_invalid("%s(): the window is closed", function);
	if (!tp_flight_run(self->comm, start, call))
		return NULL;
	Py_RETURN_NONE;
}

/* The number that a call has found; `none`: what carry_out() gave. */
static PyObject *number_of(PyObject *none, const uint64_t *value)
{
	if (!none)
		return NULL;
	Py_DECREF(none);
	return PyLong_FromUnsignedLongLong(*value);
}

/* ---------------------------------------------------------------- calls */

static tutti_result_t run_put(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	if (c->signalled)
		return tutti_put_signal(c->window, c->data, c->bytes, c->rank, c->offset, c->signal,
					c->number, NULL);
	return tutti_put(c->window, c->data, c->bytes, c->rank, c->offset, NULL);
}

static PyObject *put(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static struct tp_signature signature = {
		"put", 2, 3, { "x", "rank", "offset", "signal", "add", "timeout" }, { NULL }
	};
	static const struct tp_wanted wanted = { "put", "x", false, NULL };
	PyObject *found[TP_ARGUMENTS_MAX], *result = NULL;
	struct call call;
	struct tp_view view;

	if (!begin(object, &signature, args, count, names, found, &call) ||
	    !tp_int("put", "rank", found[1], &call.rank) || !take_offset("put", found[2], &call) ||
	    !take_signal("put", found[3], &call))
		return NULL;
	call.signalled = found[3] && found[3] != Py_None;
	call.number = 1;
	if (!take_number("put", "add", found[4], UINT64_MAX, &call.number) ||
	    !tp_view_take(&view, found[0], &wanted))
		return NULL;
	call.data = view.data;
	call.bytes = view.count * tp_view_item(&view);
	result = carry_out(object, "put", found[5], run_put, &call);
	tp_view_release(&view);
	return result;
}

static tutti_result_t run_get(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_get(c->window, c->data, c->bytes, c->rank, c->offset, NULL);
}

static PyObject *get(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static struct tp_signature signature = {
		"get", 2, 3, { "out", "rank", "offset", "timeout" }, { NULL }
	};
	static const struct tp_wanted wanted = { "get", "out", true, NULL };
	PyObject *found[TP_ARGUMENTS_MAX], *result;
	struct call call;
	struct tp_view view;

	if (!begin(object, &signature, args, count, names, found, &call) ||
	    !tp_int("get", "rank", found[1], &call.rank) || !take_offset("get", found[2], &call) ||
	    !tp_view_take(&view, found[0], &wanted))
		return NULL;
	call.data = view.data;
	call.bytes = view.count * tp_view_item(&view);
	result = carry_out(object, "get", found[3], run_get, &call);
	tp_view_release(&view);
	if (!result)
		return NULL;
	Py_DECREF(result);
	Py_INCREF(found[0]);
	return found[0];
}

static tutti_result_t run_fetch_add(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_fetch_add(c->window, c->rank, c->offset, c->number, c->value, NULL);
}

static PyObject *fetch_add(PyObject *object, PyObject *const *args, Py_ssize_t count,
			   PyObject *names)
{
	static struct tp_signature signature = {
		"fetch_add", 1, 3, { "rank", "offset", "add", "timeout" }, { NULL }
	};
	PyObject *found[TP_ARGUMENTS_MAX];
	uint64_t before = 0;
	struct call call;

	if (!begin(object, &signature, args, count, names, found, &call) ||
	    !tp_int("fetch_add", "rank", found[0], &call.rank) ||
	    !take_offset("fetch_add", found[1], &call))
		return NULL;
	call.number = 1;
	call.value = &before;
	if (!take_number("fetch_add", "add", found[2], UINT64_MAX, &call.number))
		return NULL;
	return number_of(carry_out(object, "fetch_add", found[3], run_fetch_add, &call), &before);
}

static tutti_result_t run_signal(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_signal(c->window, c->rank, c->signal, c->number);
}

static PyObject *send_signal(PyObject *object, PyObject *const *args, Py_ssize_t count,
			     PyObject *names)
{
	static struct tp_signature signature = {
		"signal", 1, 3, { "rank", "signal", "add" }, { NULL }
	};
	PyObject *found[TP_ARGUMENTS_MAX];
	struct call call;

	if (!begin(object, &signature, args, count, names, found, &call) ||
	    !tp_int("signal", "rank", found[0], &call.rank) ||
	    !take_signal("signal", found[1], &call))
		return NULL;
	call.number = 1;
	if (!take_number("signal", "add", found[2], UINT64_MAX, &call.number))
		return NULL;
	return carry_out(object, "signal", NULL, run_signal, &call);
}

static tutti_result_t run_wait_signal(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_wait_signal(c->window, c->signal, c->number, c->value, NULL);
}

static PyObject *wait_signal(PyObject *object, PyObject *const *args, Py_ssize_t count,
			     PyObject *names)
{
	static struct tp_signature signature = {
		"wait_signal", 1, 2, { "least", "signal", "timeout" }, { NULL }
	};
	PyObject *found[TP_ARGUMENTS_MAX];
	uint64_t value = 0;
	struct call call;

	if (!begin(object, &signature, args, count, names, found, &call) ||
	    !take_number("wait_signal", "least", found[0], UINT64_MAX, &call.number) ||
	    !take_signal("wait_signal", found[1], &call))
		return NULL;
	call.value = &value;
	return number_of(carry_out(object, "wait_signal", found[2], run_wait_signal, &call),
			 &value);
}

static tutti_result_t run_flush(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_flush(c->window, c->rank, NULL);
}

static PyObject *flush(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static struct tp_signature signature = { "flush", 0, 1, { "rank", "timeout" }, { NULL } };
	PyObject *found[TP_ARGUMENTS_MAX];
	struct call call;

	if (!begin(object, &signature, args, count, names, found, &call))
		return NULL;
	if (!tp_int("flush", "rank", found[0], &call.rank))
		return NULL;
	return carry_out(object, "flush", found[1], run_flush, &call);
}

static bool take_rank(PyObject *object, const char *function, PyObject *rank, struct call *call)
{
	const struct window *self = (struct window *)object;

	int number = TUTTI_ANY_PEER;

	if (!tp_int(function, "rank", rank, &number) || !is_open(self, function, call))
		return false;
	call->rank = number;
	if (call->rank >= 0 && call->rank < self->comm->size)
		return true;
	tp_invalid("%s(): rank is %d, expected a rank of the communicator, 0 ... %d", function,
		   call->rank, self->comm->size - 1);
	return false;
}

static PyObject *nbytes(PyObject *object, PyObject *rank)
{
	struct call call;

	return take_rank(object, "nbytes", rank, &call)
		       ? PyLong_FromSize_t(tutti_window_bytes(call.window, call.rank))
		       : NULL;
}

static PyObject *direct(PyObject *object, PyObject *rank)
{
	struct call call;

	return take_rank(object, "direct", rank, &call)
		       ? PyBool_FromLong(tutti_window_direct(call.window, call.rank))
		       : NULL;
}

/* ---------------------------------------------------------------- its life */

static void enter_list(struct tp_exposed *exposed, struct tp_comm *comm)
{
	exposed->next = comm->exposed;
	exposed->link = &comm->exposed;
	if (exposed->next)
		exposed->next->link = &exposed->next;
	comm->exposed = exposed;
}

static void release(struct tp_exposed *exposed)
{
	if (exposed->link)
		*exposed->link = exposed->next;
	if (exposed->next)
		exposed->next->link = exposed->link;
	if (exposed->has_view)
		tp_view_release(&exposed->view);
	free(exposed);
}

void tp_windows_end_all(struct tp_comm *comm)
{
	/* windows that are held see that the communicator is closed, before they look at theirs */
	while (comm->exposed)
		release(comm->exposed);
}

static struct tp_exposed *expose(PyObject *array, const struct tp_wanted *wanted)
{
	struct tp_exposed *exposed = calloc(1, sizeof(*exposed));

	if (!exposed) {
		PyErr_NoMemory();
		return NULL;
	}
	exposed->has_view = array && array != Py_None;
	if (exposed->has_view && !tp_view_take(&exposed->view, array, wanted)) {
		free(exposed);
		return NULL;
	}
	return exposed;
}

static tutti_result_t run_create(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_window_create(c->comm, c->data, c->bytes, c->signals, c->made);
}

/* It has the array, or there is an error and the array is let go. */
static struct window *new_window(struct tp_comm *comm, struct tp_exposed *exposed,
				 PyTypeObject *type)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct window *window = exposed ? (struct window *)allocate(type, 0) : NULL;

	if (!window) {
		if (exposed)
			release(exposed);
		return NULL;
	}
	Py_INCREF((PyObject *)comm);
	window->comm = comm;
	window->exposed = exposed;
	return window;
}

static PyObject *give_up(struct window *window)
{
	release(window->exposed);
	window->exposed = NULL;
	Py_DECREF((PyObject *)window);
	return NULL;
}

static PyObject *create(struct window *window, const char *function, PyObject *timeout,
			tp_start_t *start, struct call *call)
{
	struct tp_exposed *exposed = window->exposed;

	call->data = exposed->has_view ? exposed->view.data : NULL;
	call->bytes = exposed->has_view ? exposed->view.count * tp_view_item(&exposed->view) : 0;
	call->comm = tp_comm_next_call(window->comm, function, timeout, NULL);
	if (!call->comm || !tp_flight_run(window->comm, start, call))
		return give_up(window);
	enter_list(exposed, window->comm);
	return (PyObject *)window;
}

PyObject *tp_comm_window(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	static struct tp_signature signature = {
		"window", 0, 2, { "x", "signals", "timeout" }, { NULL }
	};
	static const struct tp_wanted wanted = { "window", "x", true, NULL };
	struct tp_comm *self = (struct tp_comm *)object;
	struct call call = { 0 };
	PyObject *found[TP_ARGUMENTS_MAX];
	struct window *window;
	uint64_t signals = 0;

	if (!tp_comm_open(self, "window") || !tp_arguments(&signature, args, count, names, found) ||
	    !take_number("window", "signals", found[1], UINT32_MAX, &signals))
		return NULL;
	window = new_window(self, expose(found[0], &wanted), window_type);
	if (!window)
		return NULL;
	call.signals = (uint32_t)signals;
	call.made = &window->window;
	return create(window, "window", found[2], run_create, &call);
}

static tutti_result_t run_register(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return tutti_cuda_register(c->comm, c->data, c->bytes, c->made_on_gpu);
}

PyObject *tp_comm_register_cuda(PyObject *object, PyObject *const *args, Py_ssize_t count,
				PyObject *names)
{
	static struct tp_signature signature = { "register_cuda", 1, 1, { "x" }, { NULL } };
	struct tp_comm *self = (struct tp_comm *)object;
	struct tp_stream stream = { .gpu = self->gpu };
	const struct tp_wanted wanted = { "register_cuda", "x", true, &stream };
	PyObject *found[TP_ARGUMENTS_MAX];
	struct call call = { 0 };
	struct window *window;

	if (!tp_comm_open(self, "register_cuda") ||
	    !tp_arguments(&signature, args, count, names, found))
		return NULL;
	window = new_window(self, expose(found[0], &wanted), gpu_window_type);
	if (!window)
		return NULL;
	call.made_on_gpu = &window->on_gpu;
	if (!window->exposed->has_view || !window->exposed->view.on_gpu) {
		tp_invalid("register_cuda(): x is %R, expected an array in memory of the GPU to "
			   "which the communicator is bound",
			   found[0]);
		return give_up(window);
	}
	return create(window, "register_cuda", NULL, run_register, &call);
}

static tutti_result_t run_destroy(void *context, tutti_request_t *request)
{
	const struct call *c = context;

	(void)request;
	return c->on_gpu ? tutti_cuda_deregister(c->on_gpu) : tutti_window_destroy(c->window);
}

static PyObject *close_window(PyObject *object, PyObject *unused)
{
	struct window *self = (struct window *)object;
	struct tp_exposed *exposed = self->exposed;
	struct call call = { .window = self->window, .on_gpu = self->on_gpu };
	bool ended;

	(void)unused;
	self->exposed = NULL;
	if (!exposed || !self->comm->comm)
		Py_RETURN_NONE;
	ended = tp_flight_run(self->comm, run_destroy, &call);
	if (!ended && tp_invalid_occurred()) {
		self->exposed = exposed; /* it is as before */
		return NULL;
	}
	release(exposed);
	if (!ended)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *enter(PyObject *object, PyObject *unused)
{
	(void)unused;
	Py_INCREF(object);
	return object;
}

/* After an exception of this rank others may not come to the end: the window is left to the
 * communicator's. */
static PyObject *leave(PyObject *object, PyObject *args)
{
	PyObject *kind = NULL;

	if (!PyArg_ParseTuple(args, "O|OO:__exit__", &kind, &(PyObject *){ NULL },
			      &(PyObject *){ NULL }))
		return NULL;
	if (kind == Py_None)
		return close_window(object, NULL);
	Py_RETURN_NONE;
}

static PyObject *window_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
	(void)type, (void)args, (void)named;
	return tp_refuse_new("Window", "one of comm.window() or comm.register_cuda()");
}

static void window_dealloc(PyObject *object)
{
	struct window *self = (struct window *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF((PyObject *)self->comm);
	free_object(object);
	Py_DECREF(type);
}

static PyMethodDef methods[] = {
	TP_METHOD("put", put,
		  "put($self, x, rank, offset=0, *, signal=None, add=1, timeout=None)\n--\n\n"
		  "Write the array `x` to byte `offset` of the window of `rank`; then add `add` to "
		  "its signal number `signal`, if that is given. Returns when `x` may be changed "
		  "again; flush() waits until it has arrived."),
	TP_METHOD("get", get,
		  "get($self, out, rank, offset=0, *, timeout=None)\n--\n\n"
		  "Fill the array `out` from byte `offset` of the window of `rank`. Returns it."),
	TP_METHOD(
		"fetch_add", fetch_add,
		"fetch_add($self, rank, offset=0, add=1, *, timeout=None)\n--\n\n"
		"Add to the 64-bit word at byte `offset` of the window of `rank`. Returns what it "
		"was, an unsigned number."),
	TP_METHOD("signal", send_signal,
		  "signal($self, rank, signal=0, add=1)\n--\n\n"
		  "Add to a signal of `rank`, behind all that this rank has put there."),
	TP_METHOD("wait_signal", wait_signal,
		  "wait_signal($self, least, signal=0, *, timeout=None)\n--\n\n"
		  "Wait until this rank's signal number `signal` is `least` or more. Returns it."),
	TP_METHOD("flush", flush,
		  "flush($self, rank=None, *, timeout=None)\n--\n\n"
		  "Wait until all that this rank has put has arrived at `rank`, or at every rank."),
	{ "nbytes", nbytes, METH_O, "nbytes($self, rank)\n--\n\nBytes of `rank` in the window." },
	{ "direct", direct, METH_O,
	  "direct($self, rank)\n--\n\n"
	  "Is the window of `rank` accessed by loads and stores, without messages?" },
	{ "close", close_window, METH_NOARGS,
	  "close($self)\n--\n\n"
	  "End the window: when all ranks have called it, and all has arrived. Closing the "
	  "communicator ends its windows without waiting." },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", leave, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyMethodDef gpu_methods[] = {
	{ "close", close_window, METH_NOARGS,
	  "close($self)\n--\n\n"
	  "End the window: when all ranks have called it. No operation may use it then. Closing "
	  "the communicator ends its windows." },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", leave, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	TP_SLOT(Py_tp_new, window_refuse),
	TP_SLOT(Py_tp_dealloc, window_dealloc),
	TP_SLOT(Py_tp_methods, methods),
	{ Py_tp_doc, "Memory of each rank that the others access: comm.window()." },
	{ 0, NULL },
};

static PyType_Slot gpu_slots[] = {
	TP_SLOT(Py_tp_new, window_refuse),
	TP_SLOT(Py_tp_dealloc, window_dealloc),
	TP_SLOT(Py_tp_methods, gpu_methods),
	{ Py_tp_doc, "An array on each rank's GPU that the others reach: comm.register_cuda()." },
	{ 0, NULL },
};

PyObject *tp_window_type(void)
{
	static PyType_Spec spec = { "tutti._core.Window", sizeof(struct window), 0,
				    Py_TPFLAGS_DEFAULT, slots };

	window_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)window_type;
}

PyObject *tp_cuda_window_type(void)
{
	static PyType_Spec spec = { "tutti._core.CudaWindow", sizeof(struct window), 0,
				    Py_TPFLAGS_DEFAULT, gpu_slots };

	gpu_window_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)gpu_window_type;
}
