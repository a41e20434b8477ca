/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line that tutti-bench and its peers share. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "case.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a rank that is a thread belongs. */
struct bench_place {
	const char *store; /* its address */
	int rank, size;
};

struct bench_options {
	enum bench_kind kind; /* BENCH_KIND_COUNT: all collectives */
	int ranks;	      /* 0: not said */
	size_t begin, end;    /* bytes */
	int factor;
	int iters;  /* 0: adaptive */
	int warmup; /* -1: a few */
	double seconds;
	tutti_dtype_t dtype;
	int op;
	int root;
	tutti_wire_t wire;	/* of all_reduce; the default where nothing is said */
	int check;		/* 0: results are not verified */
	int callers;		/* of latency: threads of each rank that send and receive */
	bool mappable;		/* -m tutti */
	bool cuda;		/* -m cuda */
	bool windows, graph;	/* with it */
	bool nccl;		/* with it: NCCL's calls, not tutti's */
	bool threads;		/* with it: ranks are threads of one process */
	int chain;		/* with it: calls of a sample; 0: the usual number */
	int gpu;		/* with it; -1: each rank by its number on the host */
	bool inplace, outplace; /* which of the two to measure … */
	bool mpi_place; /* … or the one that MPI has: broadcasts in place, all else out of it */
	bool tune, overlap;
	const char *transport, *algorithm, *json, *plot;
	const char *simulate;		 /* a file that describes a cluster; NULL: measure */
	int most_ranks;			 /* with it */
	const struct bench_place *place; /* of a rank that is a thread; NULL: the launcher tells */
};

enum bench_parsed { BENCH_PARSED, BENCH_PARSED_HELP, BENCH_PARSED_VERSION, BENCH_PARSED_WRONG };

/* The strings are those of argv. Prints the help; for the version and errors see below. */
enum bench_parsed bench_options_parse(int argc, char **argv, struct bench_options *options);

/* What tutti takes from the environment where there is no option. */
void bench_options_take_environment(struct bench_options *options);

/* What can only be said once the number of ranks is known; false: bench_options_complain() prints
 * why. */
bool bench_options_fit(const struct bench_options *options, int ranks);

/* Keep an error that others found in the options: `what` is wrong, `why` follows it. False. */
bool bench_options_refuse(const char *what, const char *why);

/* Print what bench_options_parse(), bench_options_fit() or others found wrong, or have it. */
void bench_options_complain(void);
const char *bench_options_complaint(void);

/* The exit status after a command line that was not BENCH_PARSED. Prints the error, or the version:
 * `version`, or that of the header if it is NULL. */
int bench_options_end(enum bench_parsed parsed, const char *version);

#ifdef __cplusplus
}
#endif

#endif
