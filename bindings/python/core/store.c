/* SPDX-License-Identifier: BSD-3-Clause */
#include "store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "errors.h"
#include "job.h"

enum { VALUE_MAX = 1 << 20 }; /* bytes, as tutti_store_set() says */

struct store {
	PyObject_HEAD
		/* clang-format off */
	tutti_store_t store; /* NULL: closed */
	/* clang-format on */
	int users; /* calls that are inside the library with it */
};

static PyTypeObject *store_type;

/* ---------------------------------------------------------------- jobs */

/* opens a store, sets or gets */
struct store_job {
	struct tp_job job;
	char *address, *key, *name;
	int serve, encrypt;
	double timeout;
	void *value;
	size_t length;
	tutti_store_t store;
};

static struct store_job *job_of(struct tp_job *job)
{
	return (struct store_job *)job;
}

static tutti_result_t open_work(struct tp_job *job)
{
	struct store_job *self = job_of(job);
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;

	config.serve = self->serve;
	config.timeout_s = self->timeout;
	config.key = self->key;
	config.encrypt = self->encrypt;
	return tutti_store_open_with(self->address, &config, &self->store);
}

static tutti_result_t set_work(struct tp_job *job)
{
	struct store_job *self = job_of(job);

	return tutti_store_set(self->store, self->name, self->value, self->length);
}

static tutti_result_t get_work(struct tp_job *job)
{
	struct store_job *self = job_of(job);

	return tutti_store_get(self->store, self->name, self->value, &self->length, self->timeout);
}

static void open_drop(struct tp_job *job)
{
	tutti_store_close(job_of(job)->store);
}

static void no_drop(struct tp_job *job)
{
	(void)job;
}

static void free_store_job(struct tp_job *job)
{
	struct store_job *self = job_of(job);

	free(self->address);
	free(self->key);
	free(self->name);
	free(self->value);
	free(self);
}

static struct store_job *new_job(tutti_result_t (*work)(struct tp_job *job),
				 void (*drop)(struct tp_job *job))
{
	struct store_job *job = calloc(1, sizeof(*job));

	if (!job) {
		PyErr_NoMemory();
		return NULL;
	}
	job->job.work = work;
	job->job.drop = drop;
	job->job.free_job = free_store_job;
	return job;
}

/* ---------------------------------------------------------------- the type */

/* a copy of a string that must be there */
static bool take_text(const char *function, const char *name, PyObject *value, char **out)
{
	PyObject *bytes = NULL;

	if (!tp_text(function, name, value, &bytes))
		return false;
	if (!bytes)
		return tp_invalid("%s(): %s is None, expected a string", function, name);
	*out = tp_job_copy(PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	return *out || PyErr_NoMemory();
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "address", "serve", "timeout", "key", "encrypt", NULL };
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *address, *key = NULL, *timeout = NULL, *encrypt = NULL;
	struct store_job *job;
	struct store *self;
	int serve = 0;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O|pOOO:Store", names, &address, &serve,
					 &timeout, &key, &encrypt))
		return NULL;
	job = new_job(open_work, open_drop);
	if (!job)
		return NULL;
	job->serve = serve;
	if (!take_text("Store", "address", address, &job->address) ||
	    (key && key != Py_None && !take_text("Store", "key", key, &job->key)) ||
	    !tp_int("Store", "encrypt", encrypt, &job->encrypt) ||
	    !tp_seconds("Store", "timeout", timeout, &job->timeout)) {
		free_store_job(&job->job);
		return NULL;
	}
	if (!tp_job_run(&job->job, NULL))
		return NULL;
	self = (struct store *)allocate(type, 0);
	if (self)
		self->store = job->store;
	else
		tutti_store_close(job->store);
	free_store_job(&job->job);
	return (PyObject *)self;
}

static tutti_store_t opened(PyObject *object, const char *function)
{
	tutti_store_t store = ((struct store *)object)->store;

	if (!store)
		tp_invalid("%s(): the store is closed; make a new one", function);
	return store;
}

/* Carry out a job of the open store, and free it. An interrupted one keeps the store. */
static bool run_job(PyObject *object, struct store_job *job)
{
	struct store *self = (struct store *)object;
	bool done;

	self->users++;
	done = tp_job_run(&job->job, NULL);
	self->users--;
	if (!done)
		tp_store_leave(object);
	return done;
}

static PyObject *store_set(PyObject *object, PyObject *args)
{
	struct store_job *job;
	const char *value;
	PyObject *name;
	Py_ssize_t length;

	if (!PyArg_ParseTuple(args, "Oy#:set", &name, &value, &length))
		return NULL;
	job = new_job(set_work, no_drop);
	if (!job)
		return NULL;
	job->length = (size_t)length;
	job->value = malloc((size_t)length + 1);
	if (!job->value)
		PyErr_NoMemory();
	else if (take_text("set", "key", name, &job->name))
		job->store = opened(object, "set");
	if (!job->store) {
		free_store_job(&job->job);
		return NULL;
	}
	memcpy(job->value, value, (size_t)length);
	if (!run_job(object, job))
		return NULL;
	free_store_job(&job->job);
	Py_RETURN_NONE;
}

static PyObject *store_get(PyObject *object, PyObject *args, PyObject *named)
{
	static char *names[] = { "key", "timeout", NULL };
	PyObject *name, *timeout = NULL, *value;
	struct store_job *job;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O|O:get", names, &name, &timeout))
		return NULL;
	job = new_job(get_work, no_drop);
	if (!job)
		return NULL;
	job->timeout = 300;
	job->length = VALUE_MAX;
	job->value = malloc(VALUE_MAX);
	if (!job->value)
		PyErr_NoMemory();
	else if (take_text("get", "key", name, &job->name) &&
		 tp_seconds("get", "timeout", timeout, &job->timeout))
		job->store = opened(object, "get");
	if (!job->store) {
		free_store_job(&job->job);
		return NULL;
	}
	if (!run_job(object, job))
		return NULL;
	value = PyBytes_FromStringAndSize(job->value, (Py_ssize_t)job->length);
	free_store_job(&job->job);
	return value;
}

static PyObject *store_close(PyObject *object, PyObject *unused)
{
	struct store *self = (struct store *)object;
	tutti_store_t store = self->store;

	(void)unused;
	if (self->users > 0)
		return tp_invalid("close(): another thread is inside a call that uses the store; "
				  "wait for it");
	self->store = NULL;
	Py_BEGIN_ALLOW_THREADS tutti_store_close(store);
	Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *store_enter(PyObject *object, PyObject *unused)
{
	(void)unused;
	Py_INCREF(object);
	return object;
}

static PyObject *store_exit(PyObject *object, PyObject *args)
{
	(void)args;
	return store_close(object, NULL);
}

static PyObject *store_address(PyObject *object, void *unused)
{
	tutti_store_t store = opened(object, "address");

	(void)unused;
	return store ? PyUnicode_FromString(tutti_store_address(store)) : NULL;
}

static void store_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF(store_close(object, NULL));
	free_object(object);
	Py_DECREF(type);
}

static PyMethodDef store_methods[] = {
	{ "set", store_set, METH_VARARGS,
	  "set($self, key, value, /)\n--\n\nKeep bytes, at most 1 MiB, under a key." },
	{ "get", (PyCFunction)(void (*)(void))store_get, METH_VARARGS | METH_KEYWORDS,
	  "get($self, key, timeout=300.0)\n--\n\n"
	  "Wait for a key and return its bytes; tutti.Timeout after `timeout` seconds." },
	{ "close", store_close, METH_NOARGS,
	  "close($self)\n--\n\n"
	  "Close; who serves it waits up to 10 s until the others have closed theirs." },
	{ "__enter__", store_enter, METH_NOARGS, NULL },
	{ "__exit__", store_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef store_properties[] = {
	{ "address", store_address, NULL, "The address for others, with the port filled in.",
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot store_slots[] = {
	TP_SLOT(Py_tp_new, store_new),
	TP_SLOT(Py_tp_dealloc, store_dealloc),
	TP_SLOT(Py_tp_methods, store_methods),
	TP_SLOT(Py_tp_getset, store_properties),
	{ Py_tp_doc,
	  "Store(address, serve=False, timeout=None, key=None, encrypt=0)\n--\n\n"
	  "Where ranks meet: keys and bytes that all of them see.\n\n"
	  "address: 'tcp://HOST:PORT', 'unix:NAME' or 'file:DIRECTORY'. One rank opens tcp: and "
	  "unix: with\nserve=True; port 0 picks one, see `address`. timeout: seconds until the "
	  "host of the store must be there.\nkey: 64 hexadecimal digits, see key_make(). "
	  "encrypt: 1 for TLS, -1 not even if TUTTI_ENCRYPT says so." },
	{ 0, NULL },
};

PyObject *tp_store_type(void)
{
	static PyType_Spec spec = { "tutti._core.Store", sizeof(struct store), 0,
				    Py_TPFLAGS_DEFAULT, store_slots };

	store_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)store_type;
}

void tp_store_use(PyObject *object, int more)
{
	if (object && Py_TYPE(object) == store_type)
		((struct store *)object)->users += more;
}

void tp_store_leave(PyObject *object)
{
	if (object && Py_TYPE(object) == store_type && !tp_error_occurred())
		((struct store *)object)->store = NULL;
}

/* ---------------------------------------------------------------- stores of Python */

/*
 * When the interpreter ends, it ends threads that ask for its lock, wherever they are: also one to
 * which Ctrl-C has left a start. The library takes functions for broken that do not return, and ends
 * the process. So such a thread stays here, until the process is gone.
 */
static void stay(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

/* the errno of the exception that is set, which is shown: its caller sees a result only */
static int errno_of_exception(void)
{
	if (PyErr_ExceptionMatches(PyExc_TimeoutError)) {
		PyErr_Clear();
		return ETIMEDOUT;
	}
	PyErr_WriteUnraisable(NULL);
	return EIO;
}

static int call_set(void *context, const char *key, const void *value, size_t length)
{
	const PyGILState_STATE state = PyGILState_Ensure();
	PyObject *result =
		PyObject_CallMethod(context, "set", "sy#", key, value, (Py_ssize_t)length);
	const int error = result ? 0 : errno_of_exception();

	Py_XDECREF(result);
	PyGILState_Release(state);
	return error;
}

static int python_set(void *context, const char *key, const void *value, size_t length)
{
	int error;

	pthread_cleanup_push(stay, NULL);
	error = call_set(context, key, value, length);
	pthread_cleanup_pop(0);
	return error;
}

static int copy_bytes(PyObject *bytes, void *value, size_t *length)
{
	const size_t room = *length;
	Py_ssize_t size;
	char *data;

	if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0)
		return errno_of_exception();
	*length = (size_t)size;
	memcpy(value, data, (size_t)size < room ? (size_t)size : room);
	return (size_t)size <= room ? 0 : EMSGSIZE;
}

static int call_get(void *context, const char *key, void *value, size_t *length, double timeout)
{
	const PyGILState_STATE state = PyGILState_Ensure();
	PyObject *bytes = PyObject_CallMethod(context, "get", "sd", key, timeout);
	const int error = bytes ? copy_bytes(bytes, value, length) : errno_of_exception();

	Py_XDECREF(bytes);
	PyGILState_Release(state);
	return error;
}

static int python_get(void *context, const char *key, void *value, size_t *length, double timeout)
{
	int error;

	pthread_cleanup_push(stay, NULL);
	error = call_get(context, key, value, length, timeout);
	pthread_cleanup_pop(0);
	return error;
}

static void python_destroy(void *context)
{
	pthread_cleanup_push(stay, NULL);
	const PyGILState_STATE state = PyGILState_Ensure();

	Py_DECREF((PyObject *)context);
	PyGILState_Release(state);
	pthread_cleanup_pop(0);
}

bool tp_store_of(PyObject *object, tutti_store_t *out, bool *made)
{
	static const tutti_store_ops_t ops = { sizeof(ops), python_set, python_get,
					       python_destroy };
	PyObject *module, *adapted;
	tutti_result_t result;

	*made = false;
	if (Py_TYPE(object) == store_type) {
		*out = opened(object, "Communicator");
		return *out;
	}
	module = PyImport_ImportModule("tutti._stores");
	adapted = module ? PyObject_CallMethod(module, "adapt", "O", object) : NULL;
	Py_XDECREF(module);
	if (!adapted)
		return false;
	result = tutti_store_create(&ops, adapted, out);
	if (result < 0) {
		Py_DECREF(adapted);
		tp_raise(NULL, result);
		return false;
	}
	*made = true;
	return true;
}
