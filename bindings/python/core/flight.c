/* SPDX-License-Identifier: BSD-3-Clause */
#include "flight.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "errors.h"

#define SLICE 0.05 /* seconds between looks for signals */

static PyObject *message_class;

/* The library asks this while a thread waits. Python handles signals in its main thread alone. */
static int has_been_interrupted(void)
{
	PyGILState_STATE state;
	int raised;

	if ((pid_t)syscall(SYS_gettid) != getpid() || !Py_IsInitialized())
		return 0;
	state = PyGILState_Ensure();
	raised = PyErr_Occurred() ||
		 PyErr_CheckSignals() < 0; /* the exception stays with the thread */
	PyGILState_Release(state);
	return raised;
}

bool tp_flight_load(void)
{
	PyObject *module = PyImport_ImportModule("tutti._events");

	if (!module)
		return false;
	message_class = PyObject_GetAttrString(module, "Message");
	Py_DECREF(module);
	tutti_interrupt_set(has_been_interrupted);
	return message_class;
}

struct tp_flight *tp_flight_new(void)
{
	struct tp_flight *flight = calloc(1, sizeof(*flight));

	if (!flight)
		PyErr_NoMemory();
	return flight;
}

/* What belonged to the operation. May run code of Python. */
static void release(struct tp_flight *flight)
{
	struct tp_flight *next;

	for (struct tp_flight *member = flight->members; member; member = next) {
		next = member->next;
		tp_flight_free(member);
	}
	flight->members = NULL;
	if (flight->has_input)
		tp_view_release(&flight->input);
	if (flight->has_output)
		tp_view_release(&flight->output);
	flight->has_input = flight->has_output = false;
}

void tp_flight_clear(struct tp_flight *flight)
{
	release(flight);
	Py_CLEAR(flight->result);
	Py_CLEAR(flight->finish);
	Py_CLEAR(flight->text);
}

void tp_flight_free(struct tp_flight *flight)
{
	tp_flight_clear(flight);
	free(flight);
}

void tp_flight_enter(struct tp_flight *flight, struct tp_comm *owner)
{
	flight->owner = owner;
	flight->next = owner->flights;
	flight->link = &owner->flights;
	if (flight->next)
		flight->next->link = &flight->next;
	owner->flights = flight;
}

static void leave(struct tp_flight *flight)
{
	if (!flight->link)
		return;
	if (!flight->held)
		flight->owner->orphans--;
	*flight->link = flight->next;
	if (flight->next)
		flight->next->link = flight->link;
	flight->link = NULL;
	flight->next = NULL;
	flight->owner = NULL;
}

void tp_flight_end(struct tp_flight *flight, tutti_result_t result)
{
	flight->code = result;
	flight->fault = -1;
	if (result < 0) {
		const tutti_comm_t comm = flight->owner ? flight->owner->comm : NULL;
		const char *text = comm ? tutti_last_error(comm) : "the communicator was closed";

		flight->text = PyUnicode_FromString(text[0] ? text : tutti_strerror(result));
		if (!flight->text)
			PyErr_Clear();
		if (comm)
			tutti_comm_error(comm, &flight->fault);
	}
	leave(flight);
	flight->ending = true;
	release(flight);
	flight->ended = true;
}

void tp_flight_orphan(struct tp_flight *flight)
{
	flight->held = false;
	if (flight->ended)
		tp_flight_free(flight);
	else if (!flight->ending) /* else who ends it frees it */
		flight->owner->orphans++;
}

void tp_flight_sweep(struct tp_comm *comm)
{
	struct tp_flight *next, *over = NULL;

	for (struct tp_flight *flight = comm->flights; flight && comm->orphans > 0; flight = next) {
		next = flight->next;
		if (flight->held || tutti_test(&flight->request) == TUTTI_IN_PROGRESS)
			continue;
		leave(flight);
		flight->next = over;
		over = flight;
	}
	for (; over; over = next) { /* may run code of Python, which may start and sweep others */
		next = over->next;
		tp_flight_free(over);
	}
}

void tp_flight_end_all(struct tp_comm *comm)
{
	while (comm->flights) {
		struct tp_flight *flight = comm->flights;

		flight->request = NULL;
		tp_flight_end(flight, TUTTI_ERR_ABORTED);
		if (!flight->held)
			tp_flight_free(flight);
	}
}

PyObject *tp_flight_result(struct tp_flight *flight)
{
	PyObject *result = flight->result ? flight->result : Py_None;

	if (flight->is_message)
		return PyObject_CallFunction(message_class, "in", flight->message.peer,
					     (Py_ssize_t)(flight->message.count / flight->per));
	if (flight->finish) { /* the array that it makes is the result from then on */
		PyObject *finish = flight->finish, *made;

		Py_INCREF(finish);
		Py_INCREF(result);
		made = PyObject_CallFunctionObjArgs(finish, result, NULL);
		Py_DECREF(finish);
		Py_DECREF(result);
		if (!made)
			return NULL;
		if (flight->finish) { /* else another thread has done it meanwhile */
			Py_CLEAR(flight->finish);
			Py_XDECREF(flight->result);
			flight->result = made;
		} else {
			Py_DECREF(made);
		}
		result = flight->result;
	}
	Py_INCREF(result);
	return result;
}

void tp_flight_raise(const struct tp_flight *flight)
{
	PyObject *bytes = flight->text ? PyUnicode_AsUTF8String(flight->text) : NULL;
	const char *text = bytes ? PyBytes_AsString(bytes) : NULL;

	PyErr_Clear();
	tp_raise_text(flight->code, text ? text : tutti_strerror(flight->code), flight->fault);
	Py_XDECREF(bytes);
}

bool tp_flight_await(tutti_request_t *request, double seconds, tutti_result_t *result)
{
	size_t index;

	for (;;) {
		const double slice = seconds >= 0 && seconds < SLICE ? seconds : SLICE;

		Py_BEGIN_ALLOW_THREADS *result = tutti_wait_any_for(request, 1, slice, &index);
		Py_END_ALLOW_THREADS if (*result != TUTTI_IN_PROGRESS) return true;
		if (PyErr_CheckSignals() < 0)
			return false;
		if (seconds >= 0) {
			seconds -= slice;
			if (seconds <= 0)
				return false;
		}
	}
}

bool tp_flight_run(struct tp_comm *comm, tp_start_t *start, void *context)
{
	tutti_result_t result;

	comm->users++;
	Py_BEGIN_ALLOW_THREADS result = start(context, NULL);
	Py_END_ALLOW_THREADS if (result < 0 &&
				 !PyErr_Occurred()) /* what a signal's handler raised counts more */
		tp_raise(comm->comm, result);
	comm->users--;
	return result >= 0 && !PyErr_Occurred(); /* one may come as the call succeeds */
}
