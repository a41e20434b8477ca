/* SPDX-License-Identifier: BSD-3-Clause */
/* The library under measurement: tutti, or one of its peers, behind one table.
 *
 * A backend says what went wrong on standard error itself and returns -1; the program then ends.
 * All functions but `supports` and `describe` are collective over the ranks. */
#ifndef BENCH_BACKEND_H
#define BENCH_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_call {
	enum bench_kind kind;
	const void *send;
	void *recv;
	size_t count; /* elements, as the collective of tutti takes it */
	tutti_dtype_t dtype;
	int op; /* tutti_op_t, BENCH_NO_OP without */
	int root;
	bool inplace;
	/* Calls of a batch follow each other without a barrier; `last` says that none follows. */
	unsigned index;
	bool last;
	int caller; /* of BENCH_LATENCY: the thread that makes it, whose messages have this tag */
};

/* Per sample. */
struct bench_chain {
	double seconds; /* from the first call's beginning to the last one's end, on the device */
	double enqueue; /* until the host had put them there */
};

struct bench_backend;
struct bench_found;
struct bench_pattern;

/* Memory that the host does not reach, and calls that are put on a stream. Functions return 0,
 * or -1 having said why. */
struct bench_device {
	const char *name;
	bool shared;	     /* all ranks have the same one */
	bool windows, graph; /* how it makes the calls */
	bool threads;	     /* ranks are threads of one process */
	/* Why the host writes inputs and checks results, by copies. NULL: the device does, by
	 * learn(), fill() and check(), which are for then alone. */
	const char *without;
	/* In the order of the stream; either may be of the host, which is left alone until
	 * finish(). */
	int (*copy)(struct bench_backend *backend, void *to, const void *from, size_t bytes);
	int (*finish)(struct bench_backend *backend);
	/* What fill() and check() are about from now on; it is there as long. */
	int (*learn)(struct bench_backend *backend, const struct bench_pattern *pattern);
	/* Write `count` elements of the sequence, from a place of it on, in the order of the
	 * stream. */
	int (*fill)(struct bench_backend *backend, void *to, uint64_t place, size_t count);
	/* What is wrong with the call's result in repetition `shift`, once the stream has come
	 * so far. */
	int (*check)(struct bench_backend *backend, const struct bench_call *call, uint64_t shift,
		     struct bench_found *found);
	/* What calls work in from now on, until leave(). Collective. */
	int (*enter)(struct bench_backend *backend, void *in, void *out, size_t bytes);
	int (*leave)(struct bench_backend *backend);
	/* The calls of all chains until end(). */
	int (*begin)(struct bench_backend *backend, const struct bench_call *calls, unsigned count);
	void (*end)(struct bench_backend *backend);
	/* Ranks meet on the stream, then make them. Ends when they have ended. */
	int (*chain)(struct bench_backend *backend, const struct bench_call *calls, unsigned count,
		     struct bench_chain *took);
	/* What `count` copies take that follow each other, each `stride` behind the one before. */
	int (*time_copies)(struct bench_backend *backend, void *to, const void *from, size_t bytes,
			   size_t stride, unsigned count, double *seconds);
};

#define BENCH_WINDOW 64 /* the most messages or puts in flight */

enum bench_combine { BENCH_MAX, BENCH_SUM };

struct bench_backend {
	const char *library, *version; /* NULL: it has none to tell */
	int rank, size;
	void *context;

	/* Can the library do it? The same answer on every rank. */
	bool (*supports)(struct bench_backend *backend, const struct bench_call *call);
	int (*run)(struct bench_backend *backend, const struct bench_call *call);
	int (*barrier)(struct bench_backend *backend);
	/* values[i] = max or sum over all ranks, on all ranks */
	int (*combine)(struct bench_backend *backend, double *values, size_t count,
		       enum bench_combine how);
	/* Make a communicator of all ranks out of the one that there is, and free it: until it was
	 * there. NULL: not measured. */
	int (*split)(struct bench_backend *backend, double *seconds);
	/* Let the other ranks access this memory by one-sided calls, until conceal(). NULL: the
	 * library has none. */
	int (*expose)(struct bench_backend *backend, void *in, void *out, size_t bytes);
	int (*conceal)(struct bench_backend *backend);
	/* Page-aligned memory of the device, or memory that the library's peers can map. NULL: it has
	 * none. */
	void *(*alloc)(struct bench_backend *backend, size_t bytes);
	void (*release)(struct bench_backend *backend, void *memory);
	/* How this rank carried out the last call, which was like `call`: by transports such as
	 * "shm+tcp", "none" where it had no part in it; algorithm "none" of messages. "unknown"
	 * where the library does not tell. See transports.h for all ranks. */
	void (*describe)(struct bench_backend *backend, const struct bench_call *call,
			 const char **transport, const char **algorithm);
	/* What float32 travelled as in the call that describe() was about; TUTTI_WIRE_DEFAULT: the
	 * library has no formats. */
	tutti_wire_t wire;
	/* NULL: memory is the host's, and calls end when they return. Otherwise `alloc` gives
	 * zeroed memory of it, and nothing calls `run`. */
	const struct bench_device *device;
};

#ifdef __cplusplus
}
#endif

#endif
