/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on TCP with TLS. */
#include "key.h"
#include "tcp.h"
#include "transport_suite.h"

int main(void)
{
	static const struct tt_key key = { .set = true,
					   .bytes = { 's', 'u', 'i', 't', 'e' },
					   .encrypt = true };
	const struct suite_options options = { .threads = true, .processes = true, .key = &key };

	return transport_suite_run(&tt_transport_tcp, &options);
}
