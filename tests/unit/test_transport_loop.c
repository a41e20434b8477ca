/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on the fabric in memory: as it is, and with short, stalled
 * and late operations, which no claim may notice. */
#include <stdlib.h>

#include "loop.h"
#include "transport_suite.h"

int main(void)
{
	struct suite_options options = {
		.threads = true,
		.shares = true,
		.allocate = malloc,
		.release = free,
	};
	int failed = transport_suite_run(&tt_transport_loop, &options);

	options.longest = 1u << 17;
	tt_loop_set_faults("short=700,stall=3,capacity=4096,seed=5");
	failed += transport_suite_run(&tt_transport_loop, &options);
	tt_loop_set_faults("delay=300,short=5000,capacity=20000");
	failed += transport_suite_run(&tt_transport_loop, &options);
	tt_loop_set_faults(NULL);
	return failed;
}
