/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank sends of itself, and the addresses behind it, as the others read them and their
 * transports use them. The input: key:1 rank:1 bytes; no input can bring the proof of a key. */
#include <string.h>

#include "fuzz.h"
#include "log.h"
#include "model_file.h"
#include "fd_message.h"
#include "record.h"
#include "shm.h"
#include "tcp.h"

/* As join() does. */
static void name_socket(const struct tt_peer *peer)
{
	struct shm_address address;
	struct sockaddr_un name;

	memcpy(&address, peer->address, sizeof(address));
	FUZZ_PROMISE(shm_socket_name(address.socket, &name) <= sizeof(name));
}

static void look_for(const struct tt_record *record, const uint8_t *bytes, size_t length,
		     const struct tt_transport *transport)
{
	struct tt_peer *peers = calloc(2, sizeof(*peers));

	FUZZ_PROMISE(peers);
	tt_record_find_address(record, bytes, length, transport->name, &peers[0]);
	FUZZ_PROMISE(peers[0].address_length <= TT_ADDRESS_MAX);
	peers[1] = peers[0];
	if (transport->reach(&peers[0], &peers[1]) && transport == &tt_transport_shm)
		name_socket(&peers[0]);
	free(peers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tt_key key = { .set = size > 0 && data[0] % 2, .bytes = { 1 } };
	const struct tt_record_from from = { &key, 7, size > 1 ? data[1] % 3 : 0 };
	const size_t length = size > 2 ? size - 2 : 0;
	uint8_t *bytes = malloc(length); /* exactly, and aligned */
	struct tt_record record;
	char host[TT_MACHINE_NAME];

	FUZZ_PROMISE(bytes || length == 0);
	if (length)
		memcpy(bytes, data + 2, length);
	tt_record_is_coming(bytes, length);
	tt_record_host(bytes, length, host);
	FUZZ_PROMISE(memchr(host, 0, sizeof(host)));
	if (tt_record_read(&from, bytes, length, false, 1, &record) == TUTTI_OK) {
		FUZZ_PROMISE(!key.set && memchr(record.host_id, '\0', sizeof(record.host_id)));
		FUZZ_PROMISE(from.rank != 0 || tt_model_is_sane(&record.model));
		look_for(&record, bytes, length, &tt_transport_shm);
		look_for(&record, bytes, length, &tt_transport_tcp);
	} else {
		FUZZ_PROMISE(tt_thread_error()[0]);
	}
	free(bytes);
	return 0;
}
