/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims on tutti-bench, in groups: each runs, and gives how many failed. */
#ifndef BENCH_CLAIMS_H
#define BENCH_CLAIMS_H

int claims_on_results(void);
int claims_on_refusals(void);
int claims_on_pictures(void);
int claims_on_tuning(void);
int claims_on_starts(void);
int claims_on_overlaps(void);
int claims_on_ends(void);

#endif
