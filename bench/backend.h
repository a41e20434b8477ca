/* SPDX-License-Identifier: BSD-3-Clause */
/* The library under measurement: tutti, or one of its peers, behind one table.
 *
 * A backend says what went wrong on standard error itself and returns -1; the program then ends.
 * All functions but `supports` and `describe` are collective over the ranks. */
#ifndef BENCH_BACKEND_H
#define BENCH_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

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
};

enum bench_combine { BENCH_MAX, BENCH_SUM };

struct bench_backend {
	const char *library;
	int rank, size;
	void *context;

	/* Can the library do it? The same answer on every rank. */
	bool (*supports)(struct bench_backend *backend, const struct bench_call *call);
	int (*run)(struct bench_backend *backend, const struct bench_call *call);
	int (*barrier)(struct bench_backend *backend);
	/* values[i] = max or sum over all ranks, on all ranks */
	int (*combine)(struct bench_backend *backend, double *values, size_t count,
		       enum bench_combine how);
	/* Page-aligned; `mappable`: memory the library's peers can map, where it has such. */
	void *(*alloc)(struct bench_backend *backend, size_t bytes, bool mappable);
	void (*release)(struct bench_backend *backend, void *memory, bool mappable);
	/* How the last call was carried out; "unknown" where the library does not tell. */
	void (*describe)(struct bench_backend *backend, const char **transport,
			 const char **algorithm);
};

#ifdef __cplusplus
}
#endif

#endif
