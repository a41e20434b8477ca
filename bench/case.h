/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be measured: one row per collective, with the shape of its buffers, what its command
 * line may say, and the factor between algorithm and bus bandwidth that nccl-tests uses.
 *
 * The *size* of a measurement is the bytes of the larger buffer of one rank, as in nccl-tests: all
 * blocks together for the collectives of blocks. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bench_kind {
	BENCH_ALL_REDUCE,
	BENCH_BROADCAST,
	BENCH_REDUCE,
	BENCH_REDUCE_SCATTER,
	BENCH_ALL_GATHER,
	BENCH_GATHER,
	BENCH_SCATTER,
	BENCH_ALL_TO_ALL,
	BENCH_SCAN,
	BENCH_EXSCAN,
	BENCH_BARRIER,
	BENCH_LATENCY,	 /* rank 0 and 1: there and back */
	BENCH_BANDWIDTH, /* rank 0 to 1: a window of sends, then one answer */
	/* one-sided, rank 0 at rank 1's memory */
	BENCH_PUT,	     /* a put, and a flush */
	BENCH_GET,	     /* a get */
	BENCH_PUT_BANDWIDTH, /* a window of puts, then one flush */
	BENCH_PUT_SIGNAL,    /* a put with a signal, there and back */
	BENCH_FETCH_ADD,     /* of a word of 8 bytes */
	BENCH_INIT,	     /* the start of all ranks, see start.h */
	BENCH_WAITING,	     /* what a wait costs, see waiting.h */
	BENCH_KIND_COUNT     /* "all": each collective */
};

struct bench_case {
	const char *name;
	bool reduces;	/* takes an operation */
	bool prefix;	/* reduces the ranks before the caller: no average */
	bool rooted;	/* takes a root */
	bool blocks;	/* the larger buffer holds a block per rank */
	bool empty;	/* moves no data */
	bool sums;	/* what it adds up is looked at each time */
	bool pair;	/* point to point: in place has no meaning */
	bool one_sided; /* of memory that was exposed before */
	bool apart;	/* has no sizes, and figures of its own */
	/* busbw = algbw × (bus_a (n-1)) / n where bus_a is not 0, else algbw */
	double bus_a;
};

const struct bench_case *bench_case(enum bench_kind kind);

/* Do bytes go from some ranks to others alone, so that some need not wait? */
bool bench_case_is_one_way(enum bench_kind kind);
/* A collective, of which there may be more in a run. */
bool bench_case_is_collective(enum bench_kind kind);

double bench_bus_factor(enum bench_kind kind, int ranks);

/* Bytes that memory which all ranks share must deliver and take for one call, whoever moves
 * them: every byte that is needed is read once, every byte of a result that is not there yet is
 * written once. Per byte of the size. */
double bench_least_factor(enum bench_kind kind, int ranks, bool inplace);

/* Elements that a call is given for at most `bytes` of the larger buffer, at least one (0 if
 * empty), and the bytes that this makes. */
size_t bench_case_count(enum bench_kind kind, size_t bytes, size_t element, int ranks);
size_t bench_case_bytes(enum bench_kind kind, size_t count, size_t element, int ranks);

#ifdef __cplusplus
}
#endif

#endif
