/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kernel a thread runs under, and in which of its namespaces: who can share what with whom. */
#ifndef TT_SPI_MACHINE_H
#define TT_SPI_MACHINE_H

#include <stdint.h>

/* Plain bytes: travels between ranks. */
struct tt_machine {
	uint64_t boot;	    /* of the kernel: equal for all that run since */
	uint64_t network;   /* namespace of loopback and abstract sockets, which a thread may have alone; 0: unknown */
	uint64_t processes; /* namespace of process numbers; 0: unknown */
};

/* The calling thread's. */
struct tt_machine tt_machine_here(void);

/* The first of these alone; known once it was asked for. */
uint64_t tt_machine_boot(void);

/* For names of machines, not against anybody who means ill. */
uint64_t tt_hash_text(const char *text);

#endif
