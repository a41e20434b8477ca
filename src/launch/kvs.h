/* SPDX-License-Identifier: BSD-3-Clause */
/* The key-value store that a launcher keeps for the ranks it starts, which reaches them before they
 * know each other. One thing is brought through it: a short text of rank 0 (meeting.h). A kind is one
 * file with one table. */
#ifndef TT_KVS_H
#define TT_KVS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* What to do instead, for messages. */
#define TT_KVS_INSTEAD                                                                             \
	"set TUTTI_STORE on every rank to an address of the machine of rank 0 and a free port, "   \
	"and TUTTI_KEY_FILE to a file with the job's key"

#define TT_KVS_KINDS   3
#define TT_KVS_KEY_MAX 64
#define TT_KVS_TEXT_MAX                                                                            \
	256 /* with its end; all kinds take so much. Letters, digits and "., :-" but blanks */

/* Which rank this process is; -1: on its host, where the launcher does not say. */
struct tt_kvs_place {
	int rank, size, local_rank, local_size;
};

struct tt_kvs {
	const char *name; /* for messages */
	/* Has this process one? NULL: yes; otherwise why not. One call at a time. */
	const char *(*lacks)(void);
	/* Called by all ranks with the same key: rank 0's text on all. Waits for all of them, for ever
	 * if one does not come. */
	tutti_result_t (*bring)(int rank, int size, const char *key, char text[TT_KVS_TEXT_MAX]);
	/* For launchers whose environment does not say it; NULL: none is known. */
	tutti_result_t (*place)(struct tt_kvs_place *out);
	/* The store may have a text that rank 0 of an earlier program left under the same key, until
	 * rank 0 sets it; a rank may ask again, and each call has a connection of its own. Otherwise
	 * no key is used twice, and there is one call at a time in a process. */
	bool may_be_old;
	/* Its library ends the process where it cannot reach the launcher. */
	bool may_exit;
};

extern const struct tt_kvs tt_kvs_pmix, tt_kvs_pmi_wire, tt_kvs_pmi_library, tt_kvs_torchrun;

/* The first of `kinds` that this process has (NULL: no more); NULL: none, and `why` has reasons. */
const struct tt_kvs *tt_kvs_find(const struct tt_kvs *const kinds[TT_KVS_KINDS], char *why,
				 size_t size);

/* What the next text is called: on all ranks alike, as all ask equally often. */
unsigned tt_kvs_number(void);

/* The text of rank 0 on all ranks, each of which calls this. TUTTI_ERR_TIMEOUT: not all have by
 * `deadline`. */
tutti_result_t tt_kvs_bring(const struct tt_kvs *kvs, int rank, int size, unsigned number,
			    char text[TT_KVS_TEXT_MAX], uint64_t deadline);

/* Asks a kind that knows the place of this process. TUTTI_ERR_TIMEOUT: no answer by `deadline`. */
tutti_result_t tt_kvs_place(const struct tt_kvs *kvs, struct tt_kvs_place *out, uint64_t deadline);

/* For kinds, at the process's end: a thread waits in one yet, which nobody waits for. */
bool tt_kvs_is_occupied(void);

/* An MPI library of this process uses the same connection with the launcher: has it begun to? Then it
 * ends it, too. */
bool tt_kvs_mpi_began(void);

#endif
