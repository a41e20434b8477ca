/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of src/spi/transport.h, tried on a transport. */
#ifndef TT_TESTS_TRANSPORT_SUITE_H
#define TT_TESTS_TRANSPORT_SUITE_H

#include "transport.h"

struct suite_options {
	bool threads;	/* ranks may be threads of one process */
	bool processes; /* ranks may be processes */
	bool shares;	/* has share() and wake() */
	/* Memory that export_memory() takes, and its release; NULL: the transport exports none. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *memory);
	const struct tt_key *key; /* NULL: none */
	size_t longest;		  /* bytes of the longest stream; 0: 4 MiB */
	/* What this process has of the kernel's besides descriptors, in words, into `room`
	 * bytes: the same after a claim as before. NULL: none. */
	void (*held)(char *out, size_t capacity);
};

/* Run every claim that fits the options, as processes first. Returns the number of claims that
 * failed. */
int transport_suite_run(const struct tt_transport *transport, const struct suite_options *options);

#endif
