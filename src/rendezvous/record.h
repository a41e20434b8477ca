/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank says of itself to those that it meets, its addresses behind it. Same build on all
 * ranks, so plain bytes; the version refuses others. */
#ifndef TT_RECORD_H
#define TT_RECORD_H

#include "domain.h"
#include "key.h"
#include "machine.h"
#include "model.h"
#include "transport.h"

#define TT_RECORD_VERSION  9
#define TT_RECORD_NOTE_MAX 160

struct tt_record {
	uint32_t version;
	int32_t pid;
	uint64_t process; /* the same for threads of one process, and for nobody else on the host */
	struct tt_machine machine;     /* where `pid` names it */
	char host_id[TT_MACHINE_NAME]; /* "": the machine's name */
	uint64_t cpus[TT_CPU_WORDS];   /* where the rank may run */
	uint32_t quota; /* cores' worth of time that its control group allows; 0: no limit */
	struct tt_domain domain; /* of `cpus` */
	struct tt_model model;	 /* of rank 0: all must choose by the same figures */
	uint32_t entries;
	int32_t failure; /* a tutti_result_t: the rank cannot join, and behind the record stands
			  * why; 0: there are entries */
	uint32_t keyed;
	uint8_t proof[TT_PROOF_BYTES]; /* of the whole record with its addresses, these bytes
					* left out */
};

/* Of a transport; its address follows, and then the note. */
struct tt_record_entry {
	char transport[8];
	uint32_t length; /* of the address; 0: it has none */
	uint32_t note;	 /* of what keeps others from reaching it by that, for messages */
	uint32_t coming; /* not 0: see `lacks` of transport.h */
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
/* Does the proof show that? `keyed`: does the maker say that it has a key? For error messages,
 * `reader` is this rank. */
tutti_result_t tt_record_judge_proof(const struct tt_record_from *from, bool keyed,
				     const uint8_t expected[TT_PROOF_BYTES],
				     const uint8_t given[TT_PROOF_BYTES], int reader);
/* The proof stands elsewhere from now on. Bytes that are none of a record stay. */
void tt_record_forget_proof(uint8_t *bytes, size_t length);
/* What came from another rank. On success the proof is good, unless the record is `proven`
 * already, the host id is there, and rank 0's figures are such as can be computed with. */
tutti_result_t tt_record_read(const struct tt_record_from *from, const uint8_t *bytes,
			      size_t length, bool proven, int reader, struct tt_record *out);
/* What the rank gave for a transport; NULL: nothing. The address is behind the entry, then the
 * note. */
const uint8_t *tt_record_find(const struct tt_record *record, const uint8_t *bytes, size_t length,
			      const char *transport, struct tt_record_entry *entry);
/* Does the rank wait for a way by which other machines can reach it? Believes the bytes. */
bool tt_record_is_coming(const uint8_t *bytes, size_t length);
/* A rank's host id, of bytes that are not checked yet; "" if they are none. */
void tt_record_host(const uint8_t *bytes, size_t length, char host_id[TT_MACHINE_NAME]);
/* A number for each place of a hash of host ids, -1 at first. Two ids may share a place. */
struct tt_host_table {
	int *number; /* NULL: no memory; of malloc() */
	size_t mask;
};
struct tt_host_table tt_host_table_make(int ranks);
size_t tt_host_table_place(const struct tt_host_table *table, const char *host_id);
/* Where in the bytes the address is that the rank gave for a transport; length 0 if it has
 * none. */
void tt_record_find_address(const struct tt_record *record, const uint8_t *bytes, size_t length,
			    const char *transport, struct tt_peer *peer);

#endif
