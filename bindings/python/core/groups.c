/* SPDX-License-Identifier: BSD-3-Clause */
#include "groups.h"

#include <pthread.h>
#include <stdlib.h>

#include "arguments.h"
#include "errors.h"
#include "request.h"

struct tp_group {
	struct tp_group *next;
	pthread_t thread;
	struct tp_flight *members;
};

struct tp_group *tp_group_find(const struct tp_comm *comm)
{
	struct tp_group *group = comm->groups;

	while (group && !pthread_equal(group->thread, pthread_self()))
		group = group->next;
	return group;
}

bool tp_group_collect(struct tp_comm *comm, struct tp_group *group, struct tp_flight *flight,
		      tp_start_t *start, void *context)
{
	tutti_result_t result;

	comm->users++;
	Py_BEGIN_ALLOW_THREADS result = start(context, NULL);
	Py_END_ALLOW_THREADS comm->users--;
	if (result < 0) {
		tp_raise(comm->comm, result);
		tp_flight_free(flight);
		return false;
	}
	flight->next = group->members;
	group->members = flight;
	return true;
}

static void take_out(struct tp_comm *comm, struct tp_group *group)
{
	struct tp_group **link = &comm->groups;

	while (*link != group)
		link = &(*link)->next;
	*link = group->next;
}

static void group_free(struct tp_group *group)
{
	struct tp_flight holder = { .members = group->members };

	tp_flight_clear(&holder);
	free(group);
}

void tp_group_drop_all(struct tp_comm *comm)
{
	while (comm->groups) {
		struct tp_group *group = comm->groups;

		comm->groups = group->next;
		group_free(group);
	}
}

static tutti_result_t start_begin(void *context, tutti_request_t *request)
{
	(void)request;
	return tutti_group_begin(context);
}

PyObject *tp_comm_group_begin(PyObject *object, PyObject *const *args, Py_ssize_t count,
			      PyObject *names)
{
	static struct tp_signature signature = { "group", 0, 1, { "timeout" }, { NULL } };
	struct tp_comm *self = (struct tp_comm *)object;
	PyObject *found[TP_ARGUMENTS_MAX];
	struct tp_group *group;
	tutti_comm_t comm;

	if (!tp_arguments(&signature, args, count, names, found))
		return NULL;
	comm = tp_comm_next_call(self, "group", found[0], NULL);
	if (!comm)
		return NULL;
	group = calloc(1, sizeof(*group));
	if (!group)
		return PyErr_NoMemory();
	if (!tp_flight_run(self, start_begin, comm)) {
		free(group);
		return NULL;
	}
	group->thread = pthread_self();
	group->next = self->groups;
	self->groups = group;
	Py_RETURN_NONE;
}

static tutti_result_t start_end(void *context, tutti_request_t *request)
{
	return tutti_group_end(context, request);
}

static struct tp_group *group_to_end(struct tp_comm *self)
{
	struct tp_group *group = tp_comm_open(self, "group") ? tp_group_find(self) : NULL;

	if (!group && !PyErr_Occurred())
		tp_invalid("group(): this thread has no group open; leave it in the thread that "
			   "entered it");
	return group;
}

PyObject *tp_comm_group_end(PyObject *object, PyObject *const *args, Py_ssize_t count,
			    PyObject *names)
{
	static struct tp_signature signature = { "group", 1, 1, { "wait" }, { NULL } };
	struct tp_comm *self = (struct tp_comm *)object;
	struct tp_group *group = group_to_end(self);
	PyObject *found[TP_ARGUMENTS_MAX];
	struct tp_flight *flight;
	bool done;

	if (!group || !tp_arguments(&signature, args, count, names, found))
		return NULL;
	if (!PyObject_IsTrue(found[0])) {
		flight = tp_flight_new();
		if (!flight)
			return NULL;
		flight->members = group->members;
		take_out(self, group);
		free(group);
		return tp_request_start(self, flight, start_end, self->comm);
	}
	take_out(self, group);
	done = tp_flight_run(self, start_end, self->comm);
	group_free(group);
	if (!done)
		return NULL;
	Py_RETURN_NONE;
}

/* An invalid call makes the end of the group start nothing. */
static tutti_result_t start_nothing(void *context, tutti_request_t *request)
{
	(void)request;
	tutti_broadcast(context, NULL, NULL, 0, TUTTI_UINT8, -1, NULL);
	return tutti_group_end(context, NULL);
}

PyObject *tp_comm_group_drop(PyObject *object, PyObject *const *args, Py_ssize_t count,
			     PyObject *names)
{
	struct tp_comm *self = (struct tp_comm *)object;
	struct tp_group *group = group_to_end(self);

	(void)args, (void)count, (void)names;
	if (!group)
		return NULL;
	take_out(self, group);
	self->users++;
	Py_BEGIN_ALLOW_THREADS start_nothing(self->comm, NULL);
	Py_END_ALLOW_THREADS self->users--;
	group_free(group);
	Py_RETURN_NONE;
}
