/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench as its users run it: real ranks, its output, its exit status, and what remains of it.
 * The claims are in bench/. */
#include <stdio.h>

#include "bench/claims.h"
#include "bench/runs.h"

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s PATH-OF-TUTTI-BENCH\n", argv[0]);
		return 2;
	}
	program = argv[1];
	return claims_on_results() + claims_on_refusals() + claims_on_pictures() +
	       claims_on_tuning() + claims_on_starts() + claims_on_overlaps() + claims_on_ends();
}
