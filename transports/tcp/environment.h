/* SPDX-License-Identifier: BSD-3-Clause */
/* What users write into environment variables about buffers. */
#ifndef TT_TCP_ENVIRONMENT_H
#define TT_TCP_ENVIRONMENT_H

#include <stdint.h>

#include "tutti/tutti.h"

/* The value of TUTTI_TCP_BUFFER, in bytes; 0: the kernel's own tuning. */
tutti_result_t tt_tcp_buffer_size(const char *text, int *bytes);

/* The value of TUTTI_TCP_RAILS; 0: one for each way. */
tutti_result_t tt_tcp_rails(const char *text, uint8_t *rails);

#endif
