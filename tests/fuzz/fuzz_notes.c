/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other when a wait gets long: notes of TT_NOTE_BYTES from neighbours that
 * say anything, to rank 1 of four, which remembers its last two calls. */
#include <string.h>

#include "agreement.h"
#include "consensus.h"
#include "fuzz.h"
#include "notes.h"

enum { RANKS = 4 };

static const uint8_t *connection;
static size_t wire_left;

static bool hear(struct tt_endpoint *endpoint, void *note)
{
	(void)endpoint;
	if (wire_left < TT_NOTE_BYTES)
		return false;
	memcpy(note, connection, TT_NOTE_BYTES);
	connection += TT_NOTE_BYTES;
	wire_left -= TT_NOTE_BYTES;
	return true;
}

static void tell(struct tt_endpoint *endpoint, const void *note)
{
	uint8_t told[TT_NOTE_BYTES];

	(void)endpoint;
	memcpy(told, note, sizeof(told)); /* all of it is there to be read */
}

static void revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	(void)endpoint;
	FUZZ_PROMISE(fault->result == TUTTI_ERR_MISMATCH);
	FUZZ_PROMISE(fault->rank >= 0 && fault->rank < RANKS);
	FUZZ_PROMISE(memchr(fault->text, '\0', sizeof(fault->text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tt_transport_control control = { .receive = hear,
							     .send = tell,
							     .revoke = revoke };
	static const struct tt_transport ops = { .name = "fuzz", .control = &control };
	struct tt_endpoint endpoint = { .ops = &ops };
	struct tutti_comm *comm = calloc(1, sizeof(*comm));

	FUZZ_PROMISE(comm);
	comm->rank = 1;
	comm->size = RANKS;
	comm->next_seq = 3;
	FUZZ_PROMISE(tt_notes_open(comm));
	comm->endpoints[0] = &endpoint;
	comm->nendpoints = 1;
	FUZZ_PROMISE(tt_comm_fault_open(comm));
	comm->agreement->ns = UINT64_C(1) << 40; /* nothing is reported yet */
	for (uint64_t seq = 1; seq < comm->next_seq; seq++) {
		const struct tt_op_header header = { .magic = TT_OP_HEADER_MAGIC,
						     .rank = 1,
						     .seq = seq,
						     .count = 4096,
						     .root = -1,
						     .op = 0,
						     .collective = 1,
						     .dtype = TUTTI_FLOAT32 };

		tt_notes_remember(comm, &header);
	}
	connection = data;
	wire_left = size;
	tt_notes_exchange(comm, NULL, 1);
	FUZZ_PROMISE(tt_notes_last_called(comm, comm->rank) == 0); /* nobody speaks for this rank */
	tt_consensus_free(comm);
	tt_comm_fault_free(comm);
	tt_notes_free(comm);
	free(comm);
	return 0;
}
