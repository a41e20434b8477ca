/* SPDX-License-Identifier: BSD-3-Clause */
#include "communicator.h"

#include <stdlib.h>
#include <string.h>

#include <tutti/cuda.h>

#include "arguments.h"
#include "arrays.h"
#include "caller.h"
#include "collectives.h"
#include "errors.h"
#include "flight.h"
#include "groups.h"
#include "job.h"
#include "lists.h"
#include "messages.h"
#include "operations.h"
#include "store.h"
#include "windows.h"

tutti_comm_t tp_comm_open(struct tp_comm *self, const char *function)
{
	if (!self->comm)
		tp_invalid("%s(): the communicator is closed; make a new one", function);
	return self->comm;
}

/* Code of Python has run since somebody looked whether the communicator is open. */
static tutti_comm_t say_next(struct tp_comm *self, const char *function, const tutti_call_t *call)
{
	const tutti_comm_t comm = tp_comm_open(self, function);
	const tutti_result_t result = comm ? tutti_next_call(comm, call) : TUTTI_OK;

	if (result == TUTTI_OK)
		return comm;
	tp_raise(comm, result);
	return NULL;
}

tutti_comm_t tp_comm_next_call(struct tp_comm *self, const char *function, PyObject *timeout,
			       const struct tp_view *view)
{
	const bool timed = timeout && timeout != Py_None;
	char element[TP_ELEMENT_BYTES];
	tutti_call_t call = TUTTI_CALL_INIT;
	PyObject *caller = NULL;
	tutti_comm_t comm;

	/* before anything is said of the next call: it may run code of Python, which may call */
	if (self->orphans > 0 && self->comm && !tp_group_find(self))
		tp_flight_sweep(self);
	if (timed && !tp_seconds(function, "timeout", timeout, &call.timeout_s))
		return NULL;
	if (self->callers && !tp_group_find(self)) /* a group's was said at its begin, for all */
		caller = tp_caller();
	call.caller = caller ? PyBytes_AsString(caller) : NULL;
	comm = timed || caller ? say_next(self, function, &call) : tp_comm_open(self, function);
	Py_XDECREF(caller);
	if (!comm || !view || !tp_view_element(view, element))
		return comm;
	const tutti_result_t result = tutti_next_element(comm, element);
	if (result == TUTTI_OK)
		return comm;
	tp_raise(comm, result);
	return NULL;
}

/* ---------------------------------------------------------------- making communicators */

enum maker { INIT, CREATE, JOIN, SPLIT, DUP, SHRINK, GROW };

/* One job makes them all. Strings are its own, as it may outlive its caller. */
struct make_job {
	struct tp_job job;
	enum maker maker;
	tutti_config_t config;
	char *transports, *algorithm, *host_id, *key;
	tutti_store_t store;
	bool made_store;
	double next_timeout;
	char *caller;	/* of what is made of a communicator; NULL: not to be recorded */
	int callers;	/* those of the new one's calls are recorded */
	int numbers[2]; /* rank, size; color, key; newcomers */
	tutti_comm_t out;
};

static struct make_job *job_of(struct tp_job *job)
{
	return (struct make_job *)job;
}

static tutti_result_t make(struct tp_job *job)
{
	struct make_job *j = job_of(job);
	tutti_call_t next = TUTTI_CALL_INIT;
	tutti_result_t result = TUTTI_OK;

	next.timeout_s = j->next_timeout;
	next.caller = j->caller;
	if (j->next_timeout > 0 || j->caller)
		result = tutti_next_call(j->job.comm, &next);
	if (result < 0)
		return result;
	switch (j->maker) {
	case INIT: return tutti_init(&j->config, &j->out);
	case CREATE:
		return tutti_comm_create(j->store, j->numbers[0], j->numbers[1], &j->config,
					 &j->out);
	case JOIN: return tutti_comm_join(j->store, &j->config, &j->out);
	case SPLIT: return tutti_comm_split(j->job.comm, j->numbers[0], j->numbers[1], &j->out);
	case DUP: return tutti_comm_dup(j->job.comm, &j->out);
	case SHRINK: return tutti_comm_shrink(j->job.comm, &j->out);
	case GROW: return tutti_comm_grow(j->job.comm, j->store, j->numbers[0], &j->out);
	}
	return TUTTI_ERR_INVALID;
}

static void drop(struct tp_job *job)
{
	tutti_comm_destroy(job_of(job)->out);
}

static void free_make_job(struct tp_job *job)
{
	struct make_job *j = job_of(job);

	if (j->made_store)
		tutti_store_close(j->store);
	free(j->caller);
	free(j->transports);
	free(j->algorithm);
	free(j->host_id);
	free(j->key);
	free(j);
}

static struct make_job *new_job(enum maker maker)
{
	struct make_job *job = calloc(1, sizeof(*job));

	if (!job) {
		PyErr_NoMemory();
		return NULL;
	}
	job->job.work = make;
	job->job.drop = drop;
	job->job.free_job = free_make_job;
	job->maker = maker;
	job->config.size = sizeof(job->config);
	return job;
}

/* free_make_job() for callers that hold the interpreter's lock, which closing a store may need */
static void free_unused(struct make_job *job)
{
	Py_BEGIN_ALLOW_THREADS free_make_job(&job->job);
	Py_END_ALLOW_THREADS
}

static PyObject *communicator_of(PyTypeObject *type, tutti_comm_t comm, bool callers)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct tp_comm *self;

	if (!comm)
		Py_RETURN_NONE; /* a negative color */
	self = (struct tp_comm *)allocate(type, 0);
	if (!self) {
		tutti_comm_destroy(comm);
		return NULL;
	}
	self->comm = comm;
	self->rank = tutti_comm_rank(comm);
	self->size = tutti_comm_size(comm);
	self->gpu = -1;
	self->callers = callers;
	return (PyObject *)self;
}

static PyObject *run_job(PyTypeObject *type, struct make_job *job, tutti_comm_t abort)
{
	PyObject *made;

	if (!tp_job_run(&job->job, abort))
		return NULL;
	made = communicator_of(type, job->out, job->callers);
	free_unused(job);
	return made;
}

/* the settings, as a tuple: timeout, transports, algorithm, host_id, reproducible, key, encrypt,
 * wire, callers */
static bool read_config(struct make_job *job, const char *function, PyObject *settings)
{
	const char *transports, *algorithm, *host_id, *key, *wire;
	PyObject *timeout;

	if (!PyArg_ParseTuple(settings, "Ozzzizizi", &timeout, &transports, &algorithm, &host_id,
			      &job->config.reproducible, &key, &job->config.encrypt, &wire,
			      &job->callers) ||
	    !tp_seconds(function, "timeout", timeout, &job->config.timeout_s))
		return false;
	if (wire && tutti_wire_parse(wire, &job->config.wire)) {
		tp_raise(NULL, TUTTI_ERR_INVALID);
		return false;
	}
	job->config.transports = job->transports = tp_job_copy(transports);
	job->config.algorithm = job->algorithm = tp_job_copy(algorithm);
	job->config.host_id = job->host_id = tp_job_copy(host_id);
	job->config.key = job->key = tp_job_copy(key);
	return true;
}

static bool read_store(struct make_job *job, PyObject *store)
{
	return !store || store == Py_None || tp_store_of(store, &job->store, &job->made_store);
}

static PyObject *make_from_outside(PyObject *class, enum maker maker, const char *function,
				   PyObject *settings, PyObject *store, int rank, int size)
{
	struct make_job *job = new_job(maker);
	PyObject *made;

	if (!job)
		return NULL;
	job->numbers[0] = rank;
	job->numbers[1] = size;
	if (!read_config(job, function, settings) || !read_store(job, store)) {
		free_unused(job);
		return NULL;
	}
	tp_store_use(store, 1);
	made = run_job((PyTypeObject *)class, job, NULL);
	tp_store_use(store, -1);
	if (!made)
		tp_store_leave(store);
	return made;
}

static PyObject *comm_init(PyObject *class, PyObject *args)
{
	PyObject *settings;

	if (!PyArg_ParseTuple(args, "O", &settings))
		return NULL;
	return make_from_outside(class, INIT, "init", settings, NULL, 0, 0);
}

static PyObject *comm_create(PyObject *class, PyObject *args)
{
	PyObject *settings, *store, *numbers[2];
	int rank = -1, size = 0;

	if (!PyArg_ParseTuple(args, "OOOO", &settings, &store, &numbers[0], &numbers[1]) ||
	    !tp_int("Communicator", "rank", numbers[0], &rank) ||
	    !tp_int("Communicator", "size", numbers[1], &size))
		return NULL;
	return make_from_outside(class, CREATE, "Communicator", settings, store, rank, size);
}

static PyObject *comm_join(PyObject *class, PyObject *args)
{
	PyObject *settings, *store;

	if (!PyArg_ParseTuple(args, "OO", &settings, &store))
		return NULL;
	return make_from_outside(class, JOIN, "join", settings, store, 0, 0);
}

static bool is_outside(const struct tp_comm *self, const char *function)
{
	if (!tp_group_find(self))
		return true;
	return tp_invalid("%s(): this thread has a group open; call it outside", function);
}

/* Shrinking is no operation of the communicator, which is revoked. */
static void note_caller(struct make_job *job, const struct tp_comm *self)
{
	PyObject *caller = self->callers && job->maker != SHRINK ? tp_caller() : NULL;

	job->callers = self->callers;
	job->caller = tp_job_copy(caller ? PyBytes_AsString(caller) : NULL);
	Py_XDECREF(caller);
}

static PyObject *make_from_comm(PyObject *object, enum maker maker, const char *function,
				PyObject *store, int first, int second, PyObject *timeout)
{
	struct tp_comm *self = (struct tp_comm *)object;
	struct make_job *job;
	PyObject *made;

	if (!tp_comm_open(self, function) || !is_outside(self, function))
		return NULL;
	job = new_job(maker);
	if (!job)
		return NULL;
	job->numbers[0] = first;
	job->numbers[1] = second;
	note_caller(job, self);
	if (!tp_seconds(function, "timeout", timeout, &job->next_timeout) ||
	    !read_store(job, store) || !tp_comm_open(self, function)) {
		free_unused(job);
		return NULL;
	}
	job->job.comm = self->comm;
	self->users++;
	tp_store_use(store, 1);
	made = run_job(Py_TYPE(object), job, self->comm);
	tp_store_use(store, -1);
	self->users--;
	return made;
}

static PyObject *comm_split(PyObject *object, PyObject *const *args, Py_ssize_t count,
			    PyObject *names)
{
	static struct tp_signature signature = {
		"split", 1, 2, { "color", "key", "timeout" }, { NULL }
	};
	PyObject *found[TP_ARGUMENTS_MAX];
	int color = -1, key = 0;

	if (!tp_arguments(&signature, args, count, names, found) ||
	    !tp_int("split", "color", found[0], &color) || !tp_int("split", "key", found[1], &key))
		return NULL;
	return make_from_comm(object, SPLIT, "split", NULL, color, key, found[2]);
}

static PyObject *comm_dup(PyObject *object, PyObject *const *args, Py_ssize_t count,
			  PyObject *names)
{
	static struct tp_signature signature = { "dup", 0, 0, { "timeout" }, { NULL } };
	PyObject *found[TP_ARGUMENTS_MAX];

	if (!tp_arguments(&signature, args, count, names, found))
		return NULL;
	return make_from_comm(object, DUP, "dup", NULL, 0, 0, found[0]);
}

static PyObject *comm_shrink(PyObject *object, PyObject *unused)
{
	(void)unused;
	return make_from_comm(object, SHRINK, "shrink", NULL, 0, 0, NULL);
}

static PyObject *comm_grow(PyObject *object, PyObject *const *args, Py_ssize_t count,
			   PyObject *names)
{
	static struct tp_signature signature = {
		"grow", 1, 2, { "newcomers", "store", "timeout" }, { NULL }
	};
	PyObject *found[TP_ARGUMENTS_MAX];
	int newcomers = 0;

	if (!tp_arguments(&signature, args, count, names, found) ||
	    !tp_int("grow", "newcomers", found[0], &newcomers))
		return NULL;
	return make_from_comm(object, GROW, "grow", found[1], newcomers, 0, found[2]);
}

/* ---------------------------------------------------------------- its GPU */

struct binding {
	tutti_comm_t comm;
	int device;
};

static tutti_result_t start_binding(void *context, tutti_request_t *request)
{
	const struct binding *binding = context;

	(void)request;
	return tutti_cuda_bind(binding->comm, binding->device);
}

/* in the caller's thread, whose current GPU counts */
static PyObject *comm_bind_cuda(PyObject *object, PyObject *const *args, Py_ssize_t count,
				PyObject *names)
{
	static struct tp_signature signature = { "bind_cuda", 0, 1, { "device" }, { NULL } };
	struct tp_comm *self = (struct tp_comm *)object;
	struct binding binding = { .device = -1 };
	PyObject *found[TP_ARGUMENTS_MAX];

	if (!tp_comm_open(self, "bind_cuda") ||
	    !tp_arguments(&signature, args, count, names, found) ||
	    !is_outside(self, "bind_cuda") ||
	    !tp_int("bind_cuda", "device", found[0], &binding.device))
		return NULL;
	binding.comm = tp_comm_next_call(self, "bind_cuda", NULL, NULL);
	if (!binding.comm || !tp_flight_run(self, start_binding, &binding))
		return NULL;
	self->gpu = tutti_cuda_bound(binding.comm);
	Py_RETURN_NONE;
}

static PyObject *comm_cuda_device(PyObject *object, void *unused)
{
	const struct tp_comm *self = (struct tp_comm *)object;

	(void)unused;
	if (self->gpu < 0)
		Py_RETURN_NONE;
	return PyLong_FromLong(self->gpu);
}

/* ---------------------------------------------------------------- its end */

/* false: another thread is inside */
static bool close_comm(struct tp_comm *self)
{
	const tutti_comm_t comm = self->comm;

	if (!comm)
		return true;
	if (self->users > 0)
		return false;
	self->comm = NULL;
	Py_BEGIN_ALLOW_THREADS tutti_comm_destroy(comm);
	Py_END_ALLOW_THREADS tp_flight_end_all(self);
	tp_windows_end_all(self);
	tp_group_drop_all(self);
	return true;
}

static PyObject *comm_close(PyObject *object, PyObject *unused)
{
	(void)unused;
	if (!close_comm((struct tp_comm *)object))
		return tp_invalid("close(): another thread is inside a call on the communicator; "
				  "wait for it, or call abort() first");
	Py_RETURN_NONE;
}

static PyObject *comm_abort(PyObject *object, PyObject *const *args, Py_ssize_t count,
			    PyObject *names)
{
	static struct tp_signature signature = { "abort", 0, 1, { "reason" }, { NULL } };
	struct tp_comm *self = (struct tp_comm *)object;
	const tutti_comm_t comm = tp_comm_open(self, "abort");
	PyObject *found[TP_ARGUMENTS_MAX], *bytes = NULL;
	tutti_result_t result;

	if (!comm || !tp_arguments(&signature, args, count, names, found) ||
	    !tp_text("abort", "reason", found[0], &bytes))
		return NULL;
	result = tutti_comm_abort(comm, bytes ? PyBytes_AsString(bytes) : NULL);
	Py_XDECREF(bytes);
	if (result < 0) {
		tp_raise(comm, result);
		return NULL;
	}
	Py_RETURN_NONE;
}

static PyObject *comm_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
	(void)type, (void)args, (void)named;
	return tp_refuse_new("Communicator", "one of tutti.init(), tutti.join(), or "
					     "tutti.Communicator(store, rank, size)");
}

static void comm_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	close_comm((struct tp_comm *)object);
	free_object(object);
	Py_DECREF(type);
}

/* ---------------------------------------------------------------- what it says of itself */

static PyObject *comm_check(PyObject *object, PyObject *unused)
{
	struct tp_comm *self = (struct tp_comm *)object;
	const tutti_comm_t comm = tp_comm_open(self, "check");
	tutti_result_t result;

	(void)unused;
	if (!comm)
		return NULL;
	result = tutti_comm_error(comm, NULL);
	if (result == TUTTI_OK)
		Py_RETURN_NONE;
	tp_raise(comm, result);
	return NULL;
}

static PyObject *comm_transport(PyObject *object, PyObject *peer)
{
	struct tp_comm *self = (struct tp_comm *)object;
	const char *name;
	int rank = -1;

	if (!tp_int("transport", "peer", peer, &rank) || !tp_comm_open(self, "transport"))
		return NULL;
	name = tutti_comm_transport(self->comm, rank);
	if (name)
		return PyUnicode_FromString(name);
	return tp_invalid("transport(): peer is %d, expected a rank of the communicator, 0 ... %d",
			  rank, self->size - 1);
}

static PyObject *comm_last_plan(PyObject *object, void *unused)
{
	struct tp_comm *self = (struct tp_comm *)object;
	const tutti_comm_t comm = tp_comm_open(self, "last_plan");
	tutti_plan_info_t info = { .size = sizeof(info) };
	tutti_result_t result;
	PyObject *module, *plan;

	(void)unused;
	if (!comm)
		return NULL;
	result = tutti_comm_last_plan(comm, &info);
	if (result < 0) {
		tp_raise(comm, result);
		return NULL;
	}
	module = PyImport_ImportModule("tutti._events");
	plan = module ? PyObject_CallMethod(module, "Plan", "ssnI", info.algorithm, info.transports,
					    (Py_ssize_t)info.segment_bytes, info.rounds)
		      : NULL;
	Py_XDECREF(module);
	return plan;
}

static PyObject *comm_rank(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct tp_comm *)object)->rank);
}

static PyObject *comm_size(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct tp_comm *)object)->size);
}

static PyObject *comm_local_rank(PyObject *object, void *unused)
{
	const tutti_comm_t comm = tp_comm_open((struct tp_comm *)object, "local_rank");

	(void)unused;
	return comm ? PyLong_FromLong(tutti_comm_local_rank(comm)) : NULL;
}

static PyObject *comm_local_size(PyObject *object, void *unused)
{
	const tutti_comm_t comm = tp_comm_open((struct tp_comm *)object, "local_size");

	(void)unused;
	return comm ? PyLong_FromLong(tutti_comm_local_size(comm)) : NULL;
}

static PyObject *comm_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct tp_comm *)object)->comm);
}

static PyGetSetDef properties[] = {
	{ "rank", comm_rank, NULL, "The caller's rank, 0 ... size-1.", NULL },
	{ "size", comm_size, NULL, "The number of ranks.", NULL },
	{ "local_rank", comm_local_rank, NULL, "The rank among those of this host.", NULL },
	{ "local_size", comm_local_size, NULL, "The number of ranks on this host.", NULL },
	{ "closed", comm_closed, NULL, "Was close() called?", NULL },
	{ "cuda_device", comm_cuda_device, NULL,
	  "The number of the GPU to which bind_cuda() has bound it, or None.", NULL },
	{ "last_plan", comm_last_plan, NULL,
	  "How the last collective was carried out: Plan(algorithm, transports, segment_bytes, "
	  "rounds).",
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef own_methods[] = {
	{ "_init", comm_init, METH_VARARGS | METH_CLASS, NULL },
	{ "_create", comm_create, METH_VARARGS | METH_CLASS, NULL },
	{ "_join", comm_join, METH_VARARGS | METH_CLASS, NULL },
	TP_METHOD("_group_begin", tp_comm_group_begin, NULL),
	TP_METHOD("_group_end", tp_comm_group_end, NULL),
	TP_METHOD("_group_drop", tp_comm_group_drop, NULL),
	TP_METHOD(
		"window", tp_comm_window,
		"window($self, x=None, signals=0, *, timeout=None)\n--\n\n"
		"Let the other ranks access the array `x`, of the host and contiguous, by one-sided "
		"calls; with `signals` counters beside it. Returns a tutti.Window. Each rank may "
		"have another array, or none. Arrays of tutti.empty() are accessed by loads and "
		"stores where ranks share a host. Collective."),
	TP_METHOD("premul_sum", tp_comm_premul_sum,
		  "premul_sum($self, scalar)\n--\n\n"
		  "Make the sum in which this rank's array is first multiplied by `scalar`.\n\n"
		  "scalar: one number, such as numpy.float32(0.5), of the type that arrays will "
		  "have. Ranks may\nhave different ones. All ranks make the same Ops in the same "
		  "order; 256 at most at a time."),
	TP_METHOD(
		"split", comm_split,
		"split($self, color, key=0, *, timeout=None)\n--\n\n"
		"Make communicators of the ranks with the same `color`, ordered by `key`, then by "
		"rank.\n\nA negative color takes part and gets None."),
	TP_METHOD("dup", comm_dup,
		  "dup($self, *, timeout=None)\n--\n\n"
		  "Make a communicator of the same ranks with an order of calls of its own."),
	{ "shrink", comm_shrink, METH_NOARGS,
	  "shrink($self)\n--\n\n"
	  "Go on without the ranks that are gone: a communicator of the survivors, in their old "
	  "order.\n\nEach survivor calls it when it has the error. Close the old one then." },
	TP_METHOD("grow", comm_grow,
		  "grow($self, newcomers, store=None, *, timeout=None)\n--\n\n"
		  "Take in so many processes that call tutti.join(): a communicator of all.\n\n"
		  "store: where they meet, on rank 0; None: that of TUTTI_STORE."),
	TP_METHOD(
		"bind_cuda", comm_bind_cuda,
		"bind_cuda($self, device=-1)\n--\n\n"
		"Bind to a GPU. The methods then take its arrays: they put the operation on a stream "
		"of CUDA\nand return; the result is used in that stream's order.\n\n"
		"device: the GPU's number in this process, -1: the one that is current. All ranks "
		"call, each with\nits own GPU or with one that others have, too. Waits for all ranks; "
		"a communicator is bound once.\n"
		"The methods' argument `stream` is a cudaStream_t as a number, or a stream of PyTorch, "
		"CuPy or another\nlibrary with __cuda_stream__(). None: where the array's library "
		"works now."),
	TP_METHOD(
		"register_cuda", tp_comm_register_cuda,
		"register_cuda($self, x)\n--\n\n"
		"Let the other ranks reach the array `x`, on the GPU to which the communicator is "
		"bound: collectives whose arrays are registered, and are the same parts of these "
		"on all ranks, need no copies in between. All ranks call, each with as many bytes. "
		"Returns a tutti.CudaWindow, by which that ends. Collective."),
	{ "close", comm_close, METH_NOARGS,
	  "close($self)\n--\n\n"
	  "Leave the communicator; waits for no other rank. Finish your requests first: those that "
	  "have not\nended raise tutti.Aborted." },
	TP_METHOD(
		"abort", comm_abort,
		"abort($self, reason=None)\n--\n\n"
		"End all operations on all ranks, now and later, by tutti.Aborted with `reason`. Any "
		"thread may\ncall. The communicator is still to be closed."),
	{ "check", comm_check, METH_NOARGS,
	  "check($self)\n--\n\nRaise the error that has ended the communicator, if there is one." },
	{ "transport", comm_transport, METH_O,
	  "transport($self, peer)\n--\n\nWhat carries messages to a rank: 'shm', 'rdma', 'tcp', or "
	  "'none' for oneself." },
};
enum { OWN = sizeof(own_methods) / sizeof(own_methods[0]) };

/* ours and those of the collectives, messages and lists, as one table that the type keeps */
static PyMethodDef *join_methods(void)
{
	const size_t collectives = (size_t)tp_collective_count();
	const size_t messages = (size_t)tp_message_count();
	const size_t lists = (size_t)tp_list_count();
	PyMethodDef *all = calloc(OWN + collectives + messages + lists + 1, sizeof(*all));

	if (!all)
		return (PyMethodDef *)PyErr_NoMemory();
	memcpy(all, own_methods, sizeof(own_methods));
	memcpy(all + OWN, tp_collective_methods, collectives * sizeof(*all));
	memcpy(all + OWN + collectives, tp_message_methods, messages * sizeof(*all));
	memcpy(all + OWN + collectives + messages, tp_list_methods, lists * sizeof(*all));
	return all;
}

PyObject *tp_communicator_type(void)
{
	PyMethodDef *methods = join_methods();
	PyType_Slot slots[] = {
		TP_SLOT(Py_tp_new, comm_refuse),
		TP_SLOT(Py_tp_dealloc, comm_dealloc),
		TP_SLOT(Py_tp_methods, methods),
		TP_SLOT(Py_tp_getset, properties),
		{ Py_tp_doc, "What tutti.Communicator is made of." },
		{ 0, NULL },
	};
	PyType_Spec spec = { "tutti._core.Communicator", sizeof(struct tp_comm), 0,
			     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots };

	return methods ? PyType_FromSpec(&spec) : NULL;
}
