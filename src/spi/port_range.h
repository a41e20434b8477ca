/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports that a firewall lets through, as users write them (TUTTI_PORT_RANGE). */
#ifndef TT_PORT_RANGE_H
#define TT_PORT_RANGE_H

#include "tutti/tutti.h"

struct tt_port_range {
	int first, last; /* 0: any free port */
};

/* NULL or "" if there is none. */
tutti_result_t tt_port_range_parse(const char *text, struct tt_port_range *range);

/* A number of 1 to `most` in digits alone, and what stands behind it; NULL: there is none. The C
 * library's functions would take blanks and signs as well, and ports that are too large for an int for
 * others. */
const char *tt_number_read(const char *at, int most, int *number);

#endif
