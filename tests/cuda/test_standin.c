/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in of CUDA's driver, which TUTTI_CUDA_LIBRARY names, is as strict as <cuda.h> says of the
 * driver: it refuses what that refuses, and lets wait who must. That it does what it is asked for is
 * shown by the tests of the library that use it. The claims are in driver/. */
#include "driver/scene.h"

int main(void)
{
	return run_claims(open_driver, NULL);
}
