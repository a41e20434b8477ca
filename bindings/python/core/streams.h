/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on arrays of a GPU: does the call take such, and on which stream of CUDA is it put? Each
 * call has one struct tp_stream, which the views of its arrays settle.
 */
#ifndef TP_STREAMS_H
#define TP_STREAMS_H

#include <stdbool.h>

#include <tutti/cuda.h>

#include "arrays.h"

struct tp_stream {
	int gpu;	     /* to which the communicator is bound; -1: to none */
	const char *refusal; /* why the call takes no arrays on GPUs, and what to do; or NULL */
	PyObject *given;     /* the argument `stream`; NULL: that of the first array's library */
	bool chosen;
	tutti_cuda_stream_t handle;
};

/* Why calls that give a request take no arrays on GPUs. */
extern const char tp_stream_no_requests[];

/* May the call use an array in memory of GPU `device`, which is `managed`? Else an error. */
bool tp_stream_admits(const struct tp_wanted *wanted, bool managed, int device);

/*
 * Choose the stream, unless that is done: the one that was given, or that of the library of `array`
 * (NULL: there is none).
 */
bool tp_stream_choose(struct tp_stream *stream, const char *function, PyObject *array);

/*
 * Tell the library of `array`, where it can be told, that a stream which was given uses the array's
 * memory: it is not to be handed out again before that stream has come to its end.
 */
bool tp_stream_lend(const struct tp_stream *stream, PyObject *array);

/* The stream as __dlpack__() takes it: a new reference. */
PyObject *tp_stream_number(const struct tp_stream *stream);

/*
 * The call has all its arrays, `x` and `out`, of which one may be NULL: they are to be all on the
 * GPU or all on the host. An error where they are not, or where `stream` was given for the host.
 */
bool tp_stream_settle(const struct tp_stream *stream, const char *function, const struct tp_view *x,
		      const struct tp_view *out);

/* Python's part: tutti/_arrays.py */
bool tp_streams_load(void);

#endif
