/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on TCP over the loopback interface. */
#include "tcp.h"
#include "transport_suite.h"

int main(void)
{
	const struct suite_options options = { .threads = true,
					       .processes = true,
					       .locates = true };

	return transport_suite_run(&tt_transport_tcp, &options);
}
