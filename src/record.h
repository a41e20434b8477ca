/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank says of itself to those that it meets, its addresses behind it. Same build on all ranks, so plain bytes; the
 * version refuses others. */
#ifndef TT_RECORD_H
#define TT_RECORD_H

#include "key.h"
#include "machine.h"
#include "model.h"
#include "transport.h"

#define TT_RECORD_VERSION   3
#define TT_RECORD_CPU_WORDS 16 /* up to 1024 cores */

struct tt_record {
	uint32_t version;
	int32_t pid;
	uint64_t process; /* the same for threads of one process, and for nobody else on the host */
	struct tt_machine machine; /* where `pid` names it */
	char host_id[64];
	uint64_t cpus[TT_RECORD_CPU_WORDS]; /* where the rank may run */
	uint32_t quota;		  /* cores' worth of time that its control group allows; 0: no limit */
	struct tt_model model; /* of rank 0: all must choose by the same figures */
	uint32_t addresses;
	uint32_t keyed;
	uint8_t proof[TT_PROOF_BYTES]; /* of the whole record with its addresses, these bytes left out */
};

struct tt_record_address {
	char transport[8];
	uint32_t length; /* of the bytes that follow */
};

/* Whose record it is. */
struct tt_record_from {
	const struct tt_key *key;
	uint64_t comm_id;
	int rank;
};

/* Only those that have the key can have written it, for this rank of this communicator. */
void tt_record_prove(const struct tt_record_from *from, const uint8_t *bytes, size_t length,
		     uint8_t proof[TT_PROOF_BYTES]);
/* What came from another rank; `reader` is this one, for sentences. On success the proof is good, the text ends, and rank 0's
 * figures are such as can be computed with. */
tutti_result_t tt_record_read(const struct tt_record_from *from, const uint8_t *bytes, size_t length, int reader,
			      struct tt_record *out);
/* Fills in the address that the rank gave for a transport; length 0 if it has none. */
void tt_record_find_address(const struct tt_record *record, const uint8_t *bytes, size_t length, const char *transport,
			    struct tt_peer *peer);

#endif
