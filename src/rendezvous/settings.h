/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's settings, from the user's configuration and, where it is silent, the
 * environment (docs/reference/environment.md). */
#ifndef TT_SETTINGS_H
#define TT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"
#include "transport.h"
#include "tutti/tutti.h"

struct tt_settings {
	uint64_t timeout_ns;
	double silence_s;    /* until a host that answers nothing is lost */
	char transports[64]; /* "" for all */
	char algorithm[32];  /* "" for the tuner's choice */
	char host_id[64];
	char trace[256]; /* directory of the flight recorder, "off", or "" for the default */
	char job[64];	 /* what all communicators of a job have in common, for reports; "": the
			  * first one's id */
	bool reproducible;
	tutti_wire_t wire;     /* what float32 travels as in all-reduces; not the default */
	size_t segment_bytes;  /* 0: chosen */
	size_t engine_bytes;   /* from which on a copy between two GPUs goes by a copy engine; 0:
			       * none does */
	size_t exchange_bytes; /* on GPUs: of calls that are exchanged, times the ranks */
	size_t cuda_multicast; /* 1: windows go by the switch between GPUs where there is one */
	size_t cuda_blocks;    /* that a kernel on a GPU has at most */
	struct tt_key key;
};

/* `config` may be NULL. TUTTI_ERR_INVALID with an error message for what makes no sense. */
tutti_result_t tt_settings_read(const tutti_config_t *config, struct tt_settings *out);

/* Warn of variables TUTTI_… that tutti does not read: once per process, and on rank 0 alone. */
void tt_settings_warn(int rank);

/* Is the transport one of the comma-separated names of `list`? An empty list has all but those
 * for tests. */
bool tt_settings_allow(const char *list, const struct tt_transport *transport);

#endif
