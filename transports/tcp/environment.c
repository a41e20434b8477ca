/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the grammar of sizes and numbers. */
#include "environment.h"

#include <stddef.h>

#include "address.h"
#include "log.h"
#include "port_range.h"

#define BUFFER_MIN 4096
#define BUFFER_MAX (1 << 30)

tutti_result_t tt_tcp_buffer_size(const char *text, int *bytes)
{
	int number = 0, unit = 1;
	const char *end;

	if (text && *text) {
		end = tt_number_read(text, BUFFER_MAX, &number);
		if (end && (*end == 'K' || *end == 'M'))
			unit = *end++ == 'K' ? 1 << 10 : 1 << 20;
		if (!end || *end || number > BUFFER_MAX / unit || number * unit < BUFFER_MIN)
			return tt_fail(TUTTI_ERR_INVALID, TCP,
				       "TUTTI_TCP_BUFFER is \"%s\": expected bytes of a socket "
				       "buffer, from 4096 to 1024M, such as 4M; "
				       "leave it unset for the kernel's own tuning",
				       text);
	}
	*bytes = number * unit;
	return TUTTI_OK;
}

tutti_result_t tt_tcp_rails(const char *text, uint8_t *rails)
{
	int number = 0;

	if (text && *text) {
		const char *end = tt_number_read(text, TCP_RAILS_MAX, &number);

		if (!end || *end || number < 1 || number > TCP_RAILS_MAX)
			return tt_fail(
				TUTTI_ERR_INVALID, TCP,
				"TUTTI_TCP_RAILS is \"%s\": expected the connections between two ranks, 1 to %d; leave it "
				"unset for one over each pair of interfaces",
				text, TCP_RAILS_MAX);
	}
	*rails = (uint8_t)number;
	return TUTTI_OK;
}
