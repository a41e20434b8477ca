/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the grammar of ports. */
#include "port_range.h"

#include <stddef.h>

#include "log.h"

const char *tt_number_read(const char *at, int most, int *number)
{
	long long value = 0;

	for (; *at >= '0' && *at <= '9' && value <= most; at++)
		value = 10 * value + (*at - '0');
	if (value < 1 || value > most)
		return NULL;
	*number = (int)value;
	return at;
}

tutti_result_t tt_port_range_parse(const char *text, struct tt_port_range *range)
{
	struct tt_port_range read = { 0, 0 };
	const char *end;

	if (text && *text) {
		end = tt_number_read(text, 65535, &read.first);
		end = end && *end == '-' ? tt_number_read(end + 1, 65535, &read.last) : NULL;
		if (!end || *end || read.first > read.last)
			return tt_fail(TUTTI_ERR_INVALID, TCP,
				       "TUTTI_PORT_RANGE is \"%s\": expected FIRST-LAST, ports "
				       "from 1 to 65535, such as 40000-40063",
				       text);
	}
	*range = read;
	return TUTTI_OK;
}
