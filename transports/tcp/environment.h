/* SPDX-License-Identifier: BSD-3-Clause */
/* What users write into environment variables about ports and buffers. */
#ifndef TT_TCP_ENVIRONMENT_H
#define TT_TCP_ENVIRONMENT_H

#include "tutti/tutti.h"

struct tcp_port_range {
	int first, last; /* 0: any free port */
};

/* The value of TUTTI_PORT_RANGE; NULL or "" if there is none. */
tutti_result_t tt_tcp_port_range(const char *text, struct tcp_port_range *range);

/* The value of TUTTI_TCP_BUFFER, in bytes; 0: the kernel's own tuning. */
tutti_result_t tt_tcp_buffer_size(const char *text, int *bytes);

#endif
