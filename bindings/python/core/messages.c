/* SPDX-License-Identifier: BSD-3-Clause */
#include "messages.h"

#include <stdlib.h>

#include "arguments.h"
#include "collectives.h"
#include "errors.h"
#include "groups.h"
#include "request.h"
#include "streams.h"

struct call {
	tutti_comm_t comm;
	const void *send;
	void *recv;
	size_t count;
	tutti_dtype_t dtype;
	int peer, tag;
	tutti_message_t *message;
	struct tp_stream stream;
	bool on_gpu;
	tutti_result_t (*run)(const struct call *call, tutti_request_t *request);
	tutti_result_t (*put)(const struct call *call); /* on the stream */
};

static tutti_result_t start_call(void *context, tutti_request_t *request)
{
	const struct call *call = context;

	return call->on_gpu ? call->put(call) : call->run(call, request);
}

static PyObject *block(struct tp_comm *self, struct call *call, struct tp_flight *flight)
{
	PyObject *result = NULL;

	if (tp_flight_run(self, start_call, call))
		result = tp_flight_result(flight);
	tp_flight_clear(flight);
	return result;
}

/* ---------------------------------------------------------------- send, recv */

static tutti_result_t run_send(const struct call *c, tutti_request_t *r)
{
	return tutti_send_tagged(c->comm, c->send, c->count, c->dtype, c->peer, c->tag, r);
}

static tutti_result_t run_recv(const struct call *c, tutti_request_t *r)
{
	return tutti_recv_tagged(c->comm, c->recv, c->count, c->dtype, c->peer, c->tag, c->message,
				 r);
}

static tutti_result_t put_send(const struct call *c)
{
	return tutti_cuda_send(c->comm, c->send, c->count, c->dtype, c->peer, c->stream.handle);
}

static tutti_result_t put_recv(const struct call *c)
{
	return tutti_cuda_recv(c->comm, c->recv, c->count, c->dtype, c->peer, c->stream.handle);
}

/* the three kinds of messages' methods */
enum direction { SEND, RECV, RECV_MESSAGE };

static struct tp_signature signatures[] = {
	[SEND] = { "send", 2, 3, { "x", "dest", "tag", "timeout", "stream" }, { NULL } },
	[RECV] = { "recv", 2, 3, { "out", "source", "tag", "timeout", "stream" }, { NULL } },
	[RECV_MESSAGE] = { "recv_message", 1, 3, { "out", "source", "tag", "timeout" }, { NULL } },
};

static bool take_peer(struct tp_comm *self, enum direction direction, PyObject *const *found,
		      struct call *call)
{
	const struct tp_signature *s = &signatures[direction];
	const bool any = direction != SEND;

	call->peer = TUTTI_ANY_PEER;
	if (!tp_int(s->function, s->names[1], found[1], &call->peer) ||
	    !tp_int(s->function, "tag", found[2], &call->tag))
		return false;
	if (call->peer >= self->size || call->peer < 0) {
		if (!any || call->peer != TUTTI_ANY_PEER)
			return tp_invalid("%s(): %s is %d, expected a rank of the communicator, "
					  "0 ... %d%s",
					  s->function, s->names[1], call->peer, self->size - 1,
					  any ? ", or tutti.ANY_RANK" : "");
	}
	if (call->tag < 0)
		return tp_invalid("%s(): tag is %d, expected 0 or more", s->function, call->tag);
	return true;
}

/* what messages of the host have and those of GPUs have not */
static bool fits_gpu(const struct tp_signature *s, const struct call *call)
{
	if (call->tag != 0)
		return tp_invalid("%s(): tag is %d, expected 0: messages of arrays on GPUs have no "
				  "tags; copy the array to the host, or use a communicator of its "
				  "own (comm.dup())",
				  s->function, call->tag);
	if (call->peer == TUTTI_ANY_PEER)
		return tp_invalid("%s(): %s is tutti.ANY_RANK, expected a rank: messages of arrays "
				  "on GPUs are received from one rank; copy the array to the host",
				  s->function, s->names[1]);
	return true;
}

/* which of the two ways of a view is taken, and what the library is to do with it */
static bool take_array(struct tp_flight *flight, enum direction direction, PyObject *array,
		       struct call *call)
{
	const struct tp_signature *s = &signatures[direction];
	const struct tp_wanted wanted = { s->function, s->names[0], direction != SEND,
					  &call->stream };

	if (!tp_view_take(&flight->input, array, &wanted))
		return false;
	flight->has_input = true;
	call->on_gpu = flight->input.on_gpu;
	if (!tp_stream_settle(&call->stream, s->function, &flight->input, NULL) ||
	    (call->on_gpu && !fits_gpu(s, call)))
		return false;
	call->send = call->recv = flight->input.data;
	call->count = tp_view_elements(&flight->input);
	call->dtype = flight->input.dtype;
	if (direction == RECV) {
		Py_INCREF(array);
		flight->result = array;
	}
	flight->is_message = direction == RECV_MESSAGE;
	flight->per = flight->input.per;
	return true;
}

/* The message tells its sender and length into the flight, which must not move any more. */
static PyObject *message(enum direction direction, bool start, PyObject *object,
			 PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	struct tp_comm *self = (struct tp_comm *)object;
	struct tp_signature *signature = &signatures[direction];
	struct call call = { .run = direction == SEND ? run_send : run_recv,
			     .put = direction == SEND ? put_send : put_recv,
			     .stream.gpu = self->gpu };
	PyObject *found[TP_ARGUMENTS_MAX];
	struct tp_flight *flight;
	struct tp_group *group;

	/* before anything is said of the call, which would stay for the next one */
	if ((start || direction == RECV_MESSAGE) && self->groups && tp_group_find(self))
		return tp_invalid("%s%s(): this thread has a group open, whose calls have no "
				  "results of their own; call send() and recv()",
				  start ? "start_" : "", signature->function);
	if (!tp_comm_open(self, signature->function) ||
	    !tp_arguments(signature, args, count, names, found) ||
	    !take_peer(self, direction, found, &call))
		return NULL;
	call.stream.given = found[4] == Py_None ? NULL : found[4];
	call.stream.refusal = start			  ? tp_stream_no_requests
			      : direction == RECV_MESSAGE ? "messages of arrays on GPUs tell no "
							    "length; call recv()"
							  : NULL;
	flight = tp_flight_new();
	if (!flight)
		return NULL;
	if (!take_array(flight, direction, found[0], &call))
		goto free_flight;
	call.comm = tp_comm_next_call(self, signature->function, found[3], &flight->input);
	if (!call.comm)
		goto free_flight;
	flight->message.size = sizeof(flight->message);
	call.message = direction == RECV_MESSAGE ? &flight->message : NULL;
	group = start || !self->groups ? NULL : tp_group_find(self);
	if (group) {
		PyObject *result = flight->result ? flight->result : Py_None;

		Py_INCREF(result);
		if (tp_group_collect(self, group, flight, start_call, &call))
			return result;
		Py_DECREF(result);
		return NULL;
	}
	if (start)
		return tp_request_start(self, flight, start_call, &call);
	{
		PyObject *result = block(self, &call, flight);

		free(flight);
		return result;
	}
free_flight:
	tp_flight_free(flight);
	return NULL;
}

#define METHODS(name, direction)                                                                   \
	static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t count,             \
			      PyObject *names)                                                     \
	{                                                                                          \
		return message(direction, false, self, args, count, names);                        \
	}                                                                                          \
	static PyObject *start_##name(PyObject *self, PyObject *const *args, Py_ssize_t count,     \
				      PyObject *names)                                             \
	{                                                                                          \
		return message(direction, true, self, args, count, names);                         \
	}

METHODS(send, SEND)
METHODS(recv, RECV)
METHODS(recv_message, RECV_MESSAGE)

/* ---------------------------------------------------------------- barrier */

static tutti_result_t run_barrier(const struct call *c, tutti_request_t *r)
{
	return tutti_barrier(c->comm, r);
}

static tutti_result_t put_barrier(const struct call *c)
{
	return tutti_cuda_barrier(c->comm, c->stream.handle);
}

/* it has no array, so `stream` alone says where it is */
static bool place_barrier(struct call *call, bool start, PyObject *stream)
{
	if (!stream || stream == Py_None)
		return true;
	if (start)
		return tp_invalid("start_barrier(): stream was given, but %s",
				  tp_stream_no_requests);
	if (call->stream.gpu < 0)
		return tp_invalid("barrier(): stream was given, and the communicator is bound to "
				  "no GPU; call comm.bind_cuda() on all ranks");
	call->stream.given = stream;
	call->on_gpu = true;
	return tp_stream_choose(&call->stream, "barrier", NULL);
}

static PyObject *any_barrier(bool start, PyObject *object, PyObject *const *args, Py_ssize_t count,
			     PyObject *names)
{
	static struct tp_signature signature = {
		"barrier", 0, 0, { "timeout", "stream" }, { NULL }
	};
	struct tp_comm *self = (struct tp_comm *)object;
	struct call call = { .run = run_barrier, .put = put_barrier, .stream.gpu = self->gpu };
	struct tp_flight flight = { 0 };
	PyObject *found[TP_ARGUMENTS_MAX];

	if (!tp_comm_open(self, "barrier") || (start && !tp_call_may_start(self, "barrier")) ||
	    !tp_arguments(&signature, args, count, names, found) ||
	    !place_barrier(&call, start, found[1]))
		return NULL;
	call.comm = tp_comm_next_call(self, "barrier", found[0], NULL);
	if (!call.comm)
		return NULL;
	if (start || (self->groups && tp_group_find(self)))
		return tp_call_carry_out(self, &flight, start_call, &call);
	return block(self, &call, &flight);
}

static PyObject *barrier(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
	return any_barrier(false, self, args, count, names);
}

static PyObject *start_barrier(PyObject *self, PyObject *const *args, Py_ssize_t count,
			       PyObject *names)
{
	return any_barrier(true, self, args, count, names);
}

PyMethodDef tp_message_methods[] = {
	TP_METHOD("send", send,
		  "send($self, x, dest, tag=0, *, timeout=None, stream=None)\n--\n\n"
		  "Send an array to rank `dest`, which receives it with the same tag.\n\n"
		  "x: an array of any shape. Messages of one tag arrive in the order of the calls. "
		  "May wait\nfor the receive. To oneself: only in a group. Arrays on a GPU have "
		  "the tag 0.\nstream: see bind_cuda()."),
	TP_METHOD("start_send", start_send,
		  "start_send($self, x, dest, tag=0, *, timeout=None)\n--\n\n"
		  "The same as send(), but returns a Request at once."),
	TP_METHOD(
		"recv", recv,
		"recv($self, out, source, tag=0, *, timeout=None, stream=None)\n--\n\n"
		"Receive a message of rank `source` into `out`, and return that.\n\n"
		"out: an array of as many elements as the message has, and of its type. source: a "
		"rank,\nor tutti.ANY_RANK. stream: see bind_cuda()."),
	TP_METHOD("start_recv", start_recv,
		  "start_recv($self, out, source, tag=0, *, timeout=None)\n--\n\n"
		  "The same as recv(), but returns a Request at once, which gives `out`."),
	TP_METHOD(
		"recv_message", recv_message,
		"recv_message($self, out, source=-1, tag=0, *, timeout=None)\n--\n\n"
		"Receive a message that may be shorter than `out`, and return Message(source, "
		"length).\n\n"
		"out: an array with room for the message, of its type. The first `length` elements "
		"are written."),
	TP_METHOD("start_recv_message", start_recv_message,
		  "start_recv_message($self, out, source=-1, tag=0, *, timeout=None)\n--\n\n"
		  "The same as recv_message(), but returns a Request at once."),
	TP_METHOD("barrier", barrier,
		  "barrier($self, *, timeout=None, stream=None)\n--\n\n"
		  "Return when every rank has called.\n\n"
		  "stream: return at once; the stream goes on when those of all ranks are here."),
	TP_METHOD("start_barrier", start_barrier,
		  "start_barrier($self, *, timeout=None)\n--\n\n"
		  "The same as barrier(), but returns a Request at once."),
};

int tp_message_count(void)
{
	return sizeof(tp_message_methods) / sizeof(tp_message_methods[0]);
}
