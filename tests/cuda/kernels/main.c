/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs on GPUs, through the driver: every kernel gives the bits of the host's plain C one,
 * copies copy all and nothing else, and kernels that wait have an end. Where TUTTI_CUDA_LIBRARY names
 * the stand-in, that runs the same source on the host. */
#include "world.h"

int main(void)
{
	const tutti_result_t result = begin();

	if (result) {
		puts(tutti_last_error(NULL));
		return result == TUTTI_ERR_UNSUPPORTED ? 77 : 1;
	}
	const int failed = run_claims(NULL, NULL);

	end();
	return failed;
}
