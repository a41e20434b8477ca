/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kernel a thread runs under, and in which of its namespaces: who can share what with
 * whom. */
#ifndef TT_SPI_MACHINE_H
#define TT_SPI_MACHINE_H

#include <stdint.h>

#include "tutti/tutti.h"

/* Plain bytes: travels between ranks. */
struct tt_machine {
	uint64_t boot;	    /* of the kernel: equal for all that run since */
	uint64_t network;   /* namespace of loopback and abstract sockets, which a thread may
			     * have alone; 0: unknown */
	uint64_t processes; /* namespace of process numbers; 0: unknown */
};

#define TT_MACHINE_NAME 64 /* bytes of a machine's name, its end included */

/* The calling thread's. Fails if it cannot be read now, for lack of descriptors or memory. */
tutti_result_t tt_machine_here(struct tt_machine *out);

/* The same for those who are equal in all of it, and for nobody else. */
void tt_machine_name(const struct tt_machine *machine, char out[TT_MACHINE_NAME]);

/* The first of these alone; known for good once it could be read. 0 with errno: it cannot be
 * now. */
uint64_t tt_machine_boot(void);

/* For names of machines; not collision-resistant. */
uint64_t tt_hash_text(const char *text);

#endif
