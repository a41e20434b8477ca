/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in of CUDA's driver, which TUTTI_CUDA_LIBRARY names, does what <cuda.h> says of the
 * driver. The claims are in driver/. What other processes do is done by this program, run again with
 * a word that says what. */
#include <string.h>

#include "driver/claims.h"

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "peer") == 0)
		return be_peer(argv[2]);
	if (argc == 2 && strcmp(argv[1], "owner") == 0)
		return be_owner();
	if (argc == 2 && strcmp(argv[1], "apart") == 0)
		return be_apart();
	return claims_on_contexts() + claims_on_memory() + claims_on_streams() +
	       claims_on_events() + claims_on_capture() + claims_on_ranges() +
	       claims_on_processes() + claims_on_kernels() + claims_on_failures();
}
