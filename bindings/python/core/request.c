/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

#include <sched.h>

#include "arguments.h"
#include "errors.h"

struct request {
	PyObject_HEAD
		/* clang-format off */
	struct tp_comm *comm;
	/* clang-format on */
	struct tp_flight *flight;
};

static PyTypeObject *request_type;

static PyObject *request_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
	(void)type, (void)args, (void)named;
	return tp_refuse_new("Request", "one of a method such as comm.start_all_reduce()");
}

static void request_dealloc(PyObject *object)
{
	struct request *self = (struct request *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->flight)
		tp_flight_orphan(self->flight);
	Py_XDECREF((PyObject *)self->comm);
	free_object(object);
	Py_DECREF(type);
}

PyObject *tp_request_new(struct tp_comm *comm, struct tp_flight *flight)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(request_type, Py_tp_alloc);
	struct request *self;

	flight->held = true;
	tp_flight_enter(flight, comm);
	self = (struct request *)allocate(request_type, 0);
	if (!self) {
		tp_flight_orphan(flight);
		return NULL;
	}
	Py_INCREF((PyObject *)comm);
	self->comm = comm;
	self->flight = flight;
	return (PyObject *)self;
}

PyObject *tp_request_start(struct tp_comm *comm, struct tp_flight *flight, tp_start_t *start,
			   void *context)
{
	tutti_result_t result;

	comm->users++;
	Py_BEGIN_ALLOW_THREADS result = start(context, &flight->request);
	Py_END_ALLOW_THREADS comm->users--;
	if (result < 0) {
		tp_raise(comm->comm, result);
		tp_flight_free(flight);
		return NULL;
	}
	return tp_request_new(comm, flight);
}

/* what wait(), done() and result say of one that has ended */
static PyObject *outcome(struct tp_flight *flight)
{
	if (flight->code >= 0)
		return tp_flight_result(flight);
	tp_flight_raise(flight);
	return NULL;
}

/* Be the one that waits, whom others leave the request to: once a look of theirs is over, by which it
 * may have ended. */
static bool claim(struct tp_flight *flight, const char *function)
{
	if (flight->waiting) {
		tp_invalid("%s(): another thread waits for this request, and one can at a time; "
			   "share its result instead",
			   function);
		return false;
	}
	flight->waiting = true;
	while (flight->looking) {
		Py_BEGIN_ALLOW_THREADS sched_yield();
		Py_END_ALLOW_THREADS
	}
	return true;
}

static PyObject *request_wait(PyObject *object, PyObject *const *args, Py_ssize_t count,
			      PyObject *names)
{
	static struct tp_signature signature = { "wait", 0, 1, { "timeout" }, { NULL } };
	struct tp_flight *flight = ((struct request *)object)->flight;
	PyObject *found[TP_ARGUMENTS_MAX];
	double seconds = -1;
	tutti_result_t result;
	bool waited;

	if (!tp_arguments(&signature, args, count, names, found) ||
	    !tp_seconds("wait", "timeout", found[0], &seconds))
		return NULL;
	if (!flight->ending && !claim(flight, "wait"))
		return NULL;
	if (flight->ending) {
		flight->waiting = false;
		return outcome(flight);
	}
	flight->owner->users++;
	Py_INCREF(object);
	waited = tp_flight_await(&flight->request, seconds, &result);
	flight->owner->users--;
	flight->waiting = false;
	if (waited)
		tp_flight_end(flight, result);
	else if (!PyErr_Occurred())
		PyErr_SetString(PyExc_TimeoutError,
				"wait(): the request has not finished in this time, and goes on");
	Py_DECREF(object);
	return waited ? outcome(flight) : NULL;
}

/* Ends the flight if the library has: a short look, by any thread. */
static bool look(struct tp_flight *flight)
{
	tutti_result_t result;

	if (flight->ending || flight->waiting || flight->looking)
		return flight->ending;
	flight->looking = true;
	flight->owner->users++;
	Py_BEGIN_ALLOW_THREADS result = tutti_test(&flight->request);
	Py_END_ALLOW_THREADS flight->owner->users--;
	flight->looking = false;
	if (result != TUTTI_IN_PROGRESS)
		tp_flight_end(flight, result);
	return flight->ending;
}

static PyObject *request_done(PyObject *object, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(look(((struct request *)object)->flight));
}

static PyObject *request_notify_fd(PyObject *object, PyObject *number)
{
	struct tp_flight *flight = ((struct request *)object)->flight;
	tutti_result_t result;
	int fd = -1;

	if (!tp_int("notify_fd", "fd", number, &fd) || !claim(flight, "notify_fd"))
		return NULL;
	result = tutti_notify_fd(flight->ending ? NULL : flight->request, fd);
	flight->waiting = false;
	if (result < 0) {
		tp_raise(NULL, result);
		return NULL;
	}
	Py_RETURN_NONE;
}

static PyMethodDef request_methods[] = {
	TP_METHOD(
		"wait", request_wait,
		"wait($self, timeout=None)\n--\n\n"
		"Wait until the operation has ended and return its result, or raise its error.\n\n"
		"`timeout` are seconds; after them TimeoutError is raised (not tutti.Timeout), and "
		"the\noperation goes on: this is not its deadline. Ctrl-C ends the wait and "
		"leaves the\noperation going, too. May be called again: the result stays."),
	{ "done", request_done, METH_NOARGS,
	  "done($self)\n--\n\nHas the operation ended? wait() then returns at once." },
	{ "notify_fd", request_notify_fd, METH_O,
	  "notify_fd($self, fd)\n--\n\n"
	  "Have 1 written to the eventfd `fd` when the operation has ended, for event loops." },
	{ NULL, NULL, 0, NULL },
};

/* await: tutti/_events.py knows the loop */
static PyObject *request_await(PyObject *object)
{
	PyObject *module = PyImport_ImportModule("tutti._events");
	PyObject *waiter = module ? PyObject_CallMethod(module, "ended", "O", object) : NULL;

	Py_XDECREF(module);
	return waiter;
}

static PyType_Slot request_slots[] = {
	TP_SLOT(Py_tp_new, request_refuse),
	TP_SLOT(Py_tp_dealloc, request_dealloc),
	TP_SLOT(Py_tp_methods, request_methods),
	TP_SLOT(Py_am_await, request_await),
	{ Py_tp_doc, "An operation in flight, of a start_...() method.\n\n"
		     "`await request` gives its result in asyncio, wait() elsewhere. Until it has "
		     "ended, its arrays\nbelong to tutti: do not change the input, do not read the "
		     "output. It keeps them alive." },
	{ 0, NULL },
};

PyObject *tp_request_type(void)
{
	static PyType_Spec spec = { "tutti._core.Request", sizeof(struct request), 0,
				    Py_TPFLAGS_DEFAULT, request_slots };

	request_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)request_type;
}
