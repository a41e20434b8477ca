/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever reaches the port of a rank: three pending connections that say anything, and, where there is no
 * key, the ranks that they become. The input: what:1, then pieces client:1 length:1 bytes, each
 * of which arrives by itself; a length of 0 hangs up. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"
#include "fuzz_tcp.h"
#include "tcp.h"

#define COMM 7
enum { KEYED = 1, ENCRYPTED = 2, RAILS = 4 };
enum { CLIENTS = 3, RANK = 2, RANKS = 4 };

static int connect_to(const struct tcp_endpoint *e)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(e->card.port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	FUZZ_PROMISE(fd >= 0);
	fuzz_tcp_prepare(fd);
	FUZZ_PROMISE(connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0);
	return fd;
}

static void read_links(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	for (int peer = 0; peer < RANK; peer++) {
		for (int channel = 0; channel < TT_CHANNELS; channel++) {
			if (*tt_tcp_find_kept(e, peer, channel)) {
				struct tt_link *link;

				FUZZ_PROMISE(base->ops->connect(base, peer,
								(enum tt_channel)channel,
								&link) == TUTTI_OK);
			}
			if (e->peers[peer].link[channel])
				fuzz_tcp_read(&e->peers[peer].link[channel]->base);
		}
	}
}

static void check(struct tt_endpoint *base, bool keyed)
{
	const struct tcp_endpoint *e = tcp_endpoint_of(base);
	uint8_t note[TT_NOTE_BYTES];

	FUZZ_PROMISE(e->pending_count >= 0 && e->pending_count <= TCP_PENDING_MAX);
	FUZZ_PROMISE(base->fault.result <= 0 && base->fault.result >= TUTTI_ERR_UNSUPPORTED);
	FUZZ_PROMISE(memchr(base->fault.text, '\0', sizeof(base->fault.text)));
	FUZZ_PROMISE(base->fault.rank >= -1 && base->fault.rank < RANKS);
	for (int peer = 0; keyed && peer < RANKS; peer++) {
		FUZZ_PROMISE(!e->peers[peer].control);
		for (int channel = 0; channel < TT_CHANNELS; channel++)
			FUZZ_PROMISE(!e->peers[peer].link[channel]);
	}
	FUZZ_PROMISE(!keyed || !e->kept);
	FUZZ_PROMISE(!keyed || !base->fault.result);
	for (int i = 0; base->ops->control->receive(base, note); i++)
		FUZZ_PROMISE(!keyed && i < TT_NOTES_KEPT);
}

static void close_links(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	for (int peer = 0; peer < RANKS; peer++)
		for (int channel = 0; channel < TT_CHANNELS; channel++)
			if (e->peers[peer].link[channel])
				base->ops->close(&e->peers[peer].link[channel]->base);
}

/* The others' addresses are this rank's own. With `rails` a link may have two connections. */
static void know_peers(struct tt_endpoint *base, bool rails)
{
	static struct tt_peer peers[RANKS];
	static uint8_t address[TT_ADDRESS_MAX];
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	e->card.rails = rails ? 2 : 0;
	const size_t length = tt_tcp_card_write(&e->card, address);
	for (int rank = 0; rank < RANKS; rank++)
		peers[rank] = (struct tt_peer){ .rank = rank,
						.address_length = (uint16_t)length,
						.address = address };
	e->known = peers;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const bool keyed = size > 0 && (data[0] & KEYED),
		   encrypted = keyed && (data[0] & ENCRYPTED);
	const struct tt_key key = { .set = keyed, .encrypt = encrypted, .bytes = { 1, 2, 3 } };
	const struct tt_endpoint_config config = { .comm_id = COMM,
						   .rank = RANK,
						   .size = RANKS,
						   .timeout_s = 10,
						   .silence_s = 5,
						   .key = &key };
	const int before = fuzz_descriptors();
	struct tt_endpoint *base;
	int clients[CLIENTS];

	if (size == 0)
		return 0;
	FUZZ_PROMISE(tt_transport_tcp.open(&config, &base) == TUTTI_OK);
	know_peers(base, data[0] & RAILS);
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = connect_to(tcp_endpoint_of(base));
	data++;
	size--;
	while (size >= 2) {
		const int client = clients[data[0] % CLIENTS];
		const size_t length = data[1] < size - 2 ? data[1] : size - 2;
		uint8_t heard[256];

		if (data[1] == 0)
			shutdown(client, SHUT_WR);
		else if (send(client, data + 2, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		base->ops->progress(base, true);
		while (recv(client, heard, sizeof(heard), MSG_DONTWAIT) > 0)
			continue;
		if (!key.set)
			read_links(base);
		check(base, key.set);
		data += 2 + length;
		size -= 2 + length;
	}
	tt_tcp_pending_expire(tcp_endpoint_of(base), UINT64_MAX);
	FUZZ_PROMISE(tcp_endpoint_of(base)->pending_count == 0);
	close_links(base);
	base->ops->destroy(base);
	for (int i = 0; i < CLIENTS; i++)
		close(clients[i]);
	FUZZ_PROMISE(fuzz_descriptors() == before);
	return 0;
}
