/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI-1 on a socket: what of it is tested by itself. */
#ifndef TT_PMI_WIRE_H
#define TT_PMI_WIRE_H

#include <stdbool.h>
#include <stddef.h>

/* The value of NAME in "NAME=VALUE NAME=VALUE"; false: there is none, or it does not fit. */
bool tt_pmi_field(const char *line, const char *name, char *out, size_t size);

#endif
