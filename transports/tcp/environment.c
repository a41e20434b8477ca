/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the grammar of ports and sizes. Numbers are digits alone: the C library's functions would
 * take blanks and signs as well, and ports that are too large for an int for others. */
#include "environment.h"

#include <stddef.h>

#include "log.h"

#define BUFFER_MIN 4096
#define BUFFER_MAX (1 << 30)

/* A number of 1 to `most`, and what stands behind it; NULL: there is none. */
static const char *read_number(const char *at, int most, int *number)
{
	long long value = 0;

	for (; *at >= '0' && *at <= '9' && value <= most; at++)
		value = 10 * value + (*at - '0');
	if (value < 1 || value > most)
		return NULL;
	*number = (int)value;
	return at;
}

tutti_result_t tt_tcp_port_range(const char *text, struct tcp_port_range *range)
{
	struct tcp_port_range read = { 0, 0 };
	const char *end;

	if (text && *text) {
		end = read_number(text, 65535, &read.first);
		end = end && *end == '-' ? read_number(end + 1, 65535, &read.last) : NULL;
		if (!end || *end || read.first > read.last)
			return tt_fail(TUTTI_ERR_INVALID, TCP,
				       "TUTTI_PORT_RANGE is \"%s\": expected FIRST-LAST, ports "
				       "from 1 to 65535, such as 40000-40063",
				       text);
	}
	*range = read;
	return TUTTI_OK;
}

tutti_result_t tt_tcp_buffer_size(const char *text, int *bytes)
{
	int number = 0, unit = 1;
	const char *end;

	if (text && *text) {
		end = read_number(text, BUFFER_MAX, &number);
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
