/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train as a user runs it: under tutti-run, on real and on broken data. The environment names
 * the programs and the data: TEST_RUN, TEST_TRAIN, DIGITS. With TRAIN_DEVICE=cuda all of that is
 * done on GPUs, and what there is beyond. The claims are in train/. */
#include <stdlib.h>

#include "train/claims.h"

int main(void)
{
	const int failed = claims_of_learning() + claims_of_ways() + claims_of_bfloat16() +
			   claims_of_optimisers() + claims_of_pieces() + claims_of_shares() +
			   claims_of_output() + claims_of_errors();

	return failed || !getenv("TRAIN_DEVICE") ? failed : claims_of_gpus();
}
