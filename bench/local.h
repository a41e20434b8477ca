/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on this machine, started without a launcher: the program runs itself once per rank. */
#ifndef BENCH_LOCAL_H
#define BENCH_LOCAL_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this process one of the ranks that a launcher started? Looks at the variables that tutti-run,
 * Open MPI, Hydra, Slurm and torchrun set. */
bool bench_launched(void);

/**
 * Run /proc/self/exe with `argv` in `ranks` processes and wait for them. Each finds TUTTI_RANK,
 * TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_JOB and TUTTI_STORE (set to `store`) in its
 * environment and is killed when the caller dies. When one fails, says which and how, and kills the
 * others once none of them has ended for two seconds. Returns an exit status: 0, or 1 if any
 * failed.
 */
int bench_run_local(int ranks, char **argv, const char *store);

#ifdef __cplusplus
}
#endif

#endif
