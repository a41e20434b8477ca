/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that dials whoever listens at another's address, which answers anything: its connection
 * for data and its control connection, as often as it tries; and, where there is no key, the rank
 * that such a listener can pass for. The input: what:1, then pieces connection:1 length:1 bytes,
 * each of which arrives by itself; a length of 0 hangs up. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"
#include "fuzz_tcp.h"
#include "tcp.h"

#define COMM 7
enum { KEYED = 1, ENCRYPTED = 2 };
enum { OPEN_MAX = 4, RANKS = 2 };

static struct {
	int fd;
	uint16_t port;
	int open[OPEN_MAX], count;
} listener;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);

	setenv("TUTTI_INTERFACE", "lo",
	       1); /* a dial tries all addresses: there, and where nobody listens */
	listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	FUZZ_PROMISE(listener.fd >= 0 && bind(listener.fd, (struct sockaddr *)&at, length) == 0);
	FUZZ_PROMISE(listen(listener.fd, 64) == 0);
	FUZZ_PROMISE(getsockname(listener.fd, (struct sockaddr *)&at, &length) == 0);
	listener.port = ntohs(at.sin_port);
	return 0;
}

static void accept_all(void)
{
	int fd;

	while (listener.count < OPEN_MAX &&
	       (fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		fuzz_tcp_prepare(fd);
		listener.open[listener.count++] = fd;
	}
}

static void forget(int i)
{
	close(listener.open[i]);
	listener.open[i] = listener.open[--listener.count];
}

/* What the dialer says is passed over; where it has hung up, so does the listener. */
static void hear_all(void)
{
	uint8_t heard[4096];

	for (int i = listener.count - 1; i >= 0; i--) {
		ssize_t n;

		while ((n = recv(listener.open[i], heard, sizeof(heard), 0)) > 0)
			continue;
		if (n == 0 || errno != EAGAIN)
			forget(i);
	}
}

/* Time passes for dials that do nothing else: between two rounds of attempts. */
static void pass_time(struct tcp_endpoint *e)
{
	struct tcp_dial *next;

	for (struct tcp_dial *dial = e->dials; dial; dial = next) {
		next = dial->next;
		if (dial->alive == 0 || dial->begun < dial->count)
			tt_tcp_dial_step(dial, dial->next_at);
	}
}

static void move_on(struct tt_endpoint *base)
{
	base->ops->progress(base, true);
	pass_time(tcp_endpoint_of(base));
	base->ops->progress(base, true);
	accept_all();
}

static int open_attempts(const struct tcp_dial *dial)
{
	int open = 0;

	for (int i = 0; i < dial->count; i++)
		open += dial->attempts[i].source.connection.fd >= 0;
	return open;
}

static void check(struct tt_endpoint *base, struct tcp_link *link, bool keyed)
{
	const struct tcp_endpoint *e = tcp_endpoint_of(base);
	uint8_t note[TT_NOTE_BYTES];
	int dials = 0;

	for (const struct tcp_dial *dial = e->dials; dial; dial = dial->next, dials++)
		FUZZ_PROMISE(dial->begun <= dial->count && dial->alive == open_attempts(dial));
	FUZZ_PROMISE(dials == e->dial_count && dials <= 2);
	FUZZ_PROMISE(!e->trouble.result); /* none is this rank's own */
	FUZZ_PROMISE(base->fault.result <= 0 && base->fault.result >= TUTTI_ERR_UNSUPPORTED);
	FUZZ_PROMISE(memchr(base->fault.text, '\0', sizeof(base->fault.text)));
	FUZZ_PROMISE(base->fault.rank >= -1 && base->fault.rank < RANKS);
	/* who has not the key is at most a rank that cannot be reached */
	FUZZ_PROMISE(!keyed || (link->state != TCP_LINK_UP && !e->peers[1].control));
	FUZZ_PROMISE(!keyed || !base->fault.result ||
		     (base->fault.result == TUTTI_ERR_PEER_LOST && base->fault.rank == 1));
	for (int i = 0; base->ops->control->receive(base, note); i++)
		FUZZ_PROMISE(!keyed && i < TT_NOTES_KEPT);
}

static struct tt_peer listening_peer(const struct tcp_endpoint *e)
{
	static uint8_t address[TT_ADDRESS_MAX];
	struct tcp_card card = e->card;

	card.port = listener.port;
	return (struct tt_peer){ .rank = 1,
				 .use = true,
				 .address_length = (uint16_t)tt_tcp_card_write(&card, address),
				 .address = address };
}

static void answer(struct tt_endpoint *base, struct tt_link *link, bool keyed, const uint8_t *data,
		   size_t size)
{
	while (size >= 2) {
		const size_t length = data[1] < size - 2 ? data[1] : size - 2;

		if (listener.count == 0)
			break; /* they have given up */
		const int i = data[0] % listener.count;

		if (data[1] == 0 && data[0] & 0x80)
			forget(i);
		else if (data[1] == 0)
			shutdown(listener.open[i], SHUT_WR);
		else
			send(listener.open[i], data + 2, length, MSG_NOSIGNAL);
		move_on(base);
		hear_all();
		fuzz_tcp_read(link);
		check(base, (struct tcp_link *)link, keyed);
		data += 2 + length;
		size -= 2 + length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const bool keyed = size > 0 && (data[0] & KEYED),
		   encrypted = keyed && (data[0] & ENCRYPTED);
	const struct tt_key key = { .set = keyed, .encrypt = encrypted, .bytes = { 1, 2, 3 } };
	const struct tt_endpoint_config config = { .comm_id = COMM,
						   .rank = 0,
						   .size = RANKS,
						   .timeout_s = 10,
						   .silence_s = 5,
						   .key = &key };
	const struct tt_hello control = { .purpose = TCP_FOR_CONTROL, .comm_id = COMM, .to = 1 };
	const int before = fuzz_descriptors();
	struct tt_peer peers[RANKS] = { { .rank = 0 } };
	struct tt_endpoint *base;
	struct tt_link *link;

	if (size == 0)
		return 0;
	FUZZ_PROMISE(tt_transport_tcp.open(&config, &base) == TUTTI_OK);
	peers[1] = listening_peer(tcp_endpoint_of(base));
	tcp_endpoint_of(base)->known = peers;
	FUZZ_PROMISE(tt_tcp_dial(tcp_endpoint_of(base), &control) == TUTTI_OK);
	FUZZ_PROMISE(base->ops->connect(base, 1, TT_CHANNEL_COLLECTIVE, &link) == TUTTI_OK);
	move_on(base);
	answer(base, link, keyed, data + 1, size - 1);
	base->ops->close(link);
	base->ops->destroy(base);
	do {
		while (listener.count > 0)
			forget(0);
		accept_all();
	} while (listener.count > 0);
	FUZZ_PROMISE(fuzz_descriptors() == before);
	return 0;
}
