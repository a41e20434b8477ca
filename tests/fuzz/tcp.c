/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes to a rank by TCP, from ranks and from strangers, and what users say of TCP. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "endpoint.h"
#include "environment.h"
#include "fuzz.h"
#include "log.h"
#include "port_range.h"
#include "tcp.h"
#include "transport.h"

/* ---- the first bytes of a connection, from somebody who has not the key: as the listener reads
 * them, and as the dialer does */

static const struct tt_key key = { true, { 1, 2, 3 } };
static const uint8_t nonce[TT_NONCE_BYTES] = { 4, 5, 6 };

static void listen_to(const uint8_t in[TT_HELLO_BYTES])
{
	uint8_t again[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];
	struct tt_hello hello = { 0 };
	const enum tt_verdict verdict = tt_hello_read(&tt_tcp_protocol, in, &hello);

	FUZZ_PROMISE(verdict < TT_VERDICTS && tt_verdict_text(verdict));
	if (verdict != TT_VERDICT_ACCEPTED)
		return;
	FUZZ_PROMISE(hello.channel >= 0 && hello.channel < 256);
	tt_hello_write(&tt_tcp_protocol, &hello, in + TT_HELLO_BYTES - TT_NONCE_BYTES, again);
	FUZZ_PROMISE(memcmp(again, in, sizeof(again)) == 0);
	tt_answer_write(&tt_tcp_protocol, &key, in, hello.to, TT_VERDICT_ACCEPTED, nonce, answer);
	FUZZ_PROMISE(tt_answer_read(&tt_tcp_protocol, &key, in, answer) == TT_VERDICT_ACCEPTED);
}

FUZZ(handshake)
{
	const struct tt_hello asked = {
		.purpose = TCP_FOR_DATA, .comm_id = 7, .to = 1, .keyed = true
	};
	uint8_t bytes[TT_ANSWER_BYTES + TT_CONFIRM_BYTES], hello[TT_HELLO_BYTES];

	fuzz_take(&(struct fuzz_in){ data, size }, bytes, sizeof(bytes));
	if (size > 0 && size <= TT_HELLO_BYTES) {
		/* what its beginning rules out, the whole does not bring back */
		const enum tt_verdict verdict = tt_hello_begins(&tt_tcp_protocol, data, size);

		FUZZ_PROMISE(verdict == TT_VERDICT_ACCEPTED ||
			     tt_hello_begins(&tt_tcp_protocol, bytes, TT_HELLO_BYTES) !=
				     TT_VERDICT_ACCEPTED);
		tt_answer_begins(&tt_tcp_protocol, data, size);
	}
	listen_to(bytes);
	tt_hello_write(&tt_tcp_protocol, &asked, nonce, hello);
	FUZZ_PROMISE(tt_answer_read(&tt_tcp_protocol, &key, hello, bytes) != TT_VERDICT_ACCEPTED);
	FUZZ_PROMISE(tt_confirm_read(&tt_tcp_protocol, &key, hello, bytes,
				     bytes + TT_ANSWER_BYTES) != TT_VERDICT_ACCEPTED);
}

/* ---- the handshake of two ranks of one job in which somebody on the way changes bits: the input
 * says whether they have a key, and then which bits of hello, answer and confirmation */

static const struct tt_hello between = {
	TCP_FOR_DATA, 1, UINT64_C(0x123456789abcdef0), 2, 5, false
};

static bool change(uint8_t *bytes, const uint8_t *mask, size_t n)
{
	bool some = false;

	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= mask[i];
		some |= mask[i] != 0;
	}
	return some;
}

/* With a key no change goes unnoticed by the end that it is to fool. */
static void shake_hands(const struct tt_key *job_key, const uint8_t *mask)
{
	static const uint8_t nonces[2][TT_NONCE_BYTES] = { { 1, 2, 3 }, { 4, 5, 6 } };
	uint8_t hello[TT_HELLO_BYTES], heard[TT_HELLO_BYTES], said[TT_ANSWER_BYTES],
		answer[TT_ANSWER_BYTES];
	uint8_t confirm[TT_CONFIRM_BYTES];
	struct tt_hello own = between;

	own.keyed = job_key->set;
	tt_hello_write(&tt_tcp_protocol, &own, nonces[0], hello);
	memcpy(heard, hello, sizeof(heard));
	bool changed = change(heard, mask, sizeof(heard));
	tt_answer_write(&tt_tcp_protocol, job_key, heard, own.to, TT_VERDICT_ACCEPTED, nonces[1],
			said);
	memcpy(answer, said, sizeof(answer));
	changed |= change(answer, mask + TT_HELLO_BYTES, sizeof(answer));
	const enum tt_verdict accepted = tt_answer_read(&tt_tcp_protocol, job_key, hello, answer);
	FUZZ_PROMISE(accepted < TT_VERDICTS);
	if (job_key->set || !changed)
		FUZZ_PROMISE((accepted == TT_VERDICT_ACCEPTED) == !changed);
	tt_confirm_write(&tt_tcp_protocol, job_key, hello, answer, confirm);
	changed |= change(confirm, mask + TT_HELLO_BYTES + TT_ANSWER_BYTES, sizeof(confirm));
	/* the listener's own proof is no part of what the other confirms: who changes that is
	 * found out by the dialer */
	if (job_key->set && memcmp(heard, hello, sizeof(hello)) != 0)
		FUZZ_PROMISE(tt_confirm_read(&tt_tcp_protocol, job_key, heard, said, confirm) ==
			     TT_VERDICT_OTHER_KEY);
	if (!changed)
		FUZZ_PROMISE(tt_confirm_read(&tt_tcp_protocol, job_key, heard, said, confirm) ==
			     TT_VERDICT_ACCEPTED);
}

FUZZ(handshake_between)
{
	uint8_t mask[TT_HELLO_BYTES + TT_ANSWER_BYTES + TT_CONFIRM_BYTES];
	const struct tt_key given = { .set = size > 0 && data[0] % 2,
				      .bytes = { 0x5c, 0xa1, 0xab, 0x1e } };

	if (size == 0)
		return;
	fuzz_take(&(struct fuzz_in){ data + 1, size - 1 }, mask, sizeof(mask));
	shake_hands(&given, mask);
}

/* ---- the addresses that a rank tells its peers, and what a dialling rank makes of them */

FUZZ(tcp_address)
{
	struct tcp_candidate candidates[TCP_CANDIDATES_MAX];
	struct tcp_card theirs, own;
	char text[TCP_ADDRESS_TEXT];
	const size_t half = size / 2;

	if (!tt_tcp_card_read(data, half, &own) ||
	    !tt_tcp_card_read(data + half, size - half, &theirs))
		return;
	FUZZ_PROMISE(own.count >= 0 && own.count <= TCP_ADDRESSES_MAX);
	for (int i = 0; i < own.count; i++)
		FUZZ_PROMISE(own.at[i].prefix <= (own.at[i].family == 4 ? 32 : 128));
	const int n = tt_tcp_candidates(&own, &theirs, candidates, false);

	FUZZ_PROMISE(n >= 0 && n <= TCP_CANDIDATES_MAX);
	for (int i = 0; i < n; i++)
		tt_tcp_text(&candidates[i].to, text);
	FUZZ_PROMISE(tt_tcp_connectable(&own, &theirs) == (n > 0));
	const int ways = tt_tcp_ways(&own, &theirs, candidates),
		  rails = tt_tcp_rail_count(&own, &theirs);
	FUZZ_PROMISE(ways >= 0 && ways <= TCP_RAILS_MAX && ways <= n);
	FUZZ_PROMISE(rails >= 1 && rails <= TCP_RAILS_MAX);
	for (int i = 0; i < ways; i++)
		FUZZ_PROMISE(candidates[i].from_length > 0);
}

/* ---- what users write into TUTTI_PORT_RANGE, TUTTI_TCP_BUFFER and TUTTI_TCP_RAILS: what is taken
 * is in its bounds, and was written in digits */

static void check_ports(const char *text)
{
	struct tt_port_range range = { -1, -1 };
	char again[32];

	if (tt_port_range_parse(text, &range) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0] && range.first == -1 && range.last == -1);
		return;
	}
	FUZZ_PROMISE(text[strspn(text, "0123456789-")] == '\0');
	if (!*text) {
		FUZZ_PROMISE(range.first == 0 && range.last == 0);
		return;
	}
	FUZZ_PROMISE(range.first >= 1 && range.first <= range.last && range.last <= 65535);
	snprintf(again, sizeof(again), "%d-%d", range.first, range.last);
	text += strspn(text, "0");
	FUZZ_PROMISE(strncmp(text, again, strcspn(again, "-") + 1) == 0);
	text = strchr(text, '-') + 1;
	FUZZ_PROMISE(strcmp(text + strspn(text, "0"), strchr(again, '-') + 1) == 0);
}

static void check_buffer(const char *text)
{
	int bytes = -1;

	if (tt_tcp_buffer_size(text, &bytes) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0] && bytes == -1);
		return;
	}
	const size_t digits = strspn(text, "0123456789");

	FUZZ_PROMISE(!text[digits] || (strchr("KM", text[digits]) && !text[digits + 1]));
	FUZZ_PROMISE(*text ? bytes >= 4096 && bytes <= 1 << 30 : bytes == 0);
	if (*text)
		FUZZ_PROMISE((unsigned)bytes == strtoull(text, NULL, 10)
							<< (text[digits] == 'K' ? 10
							    : text[digits]	? 20
										: 0));
}

static void check_rails(const char *text)
{
	uint8_t rails;

	if (tt_tcp_rails(text, &rails) == TUTTI_OK)
		FUZZ_PROMISE(*text ? rails == atoi(text) && rails >= 1 && rails <= 8 : rails == 0);
	else
		FUZZ_PROMISE(tt_thread_error()[0]);
}

FUZZ(tcp_environment)
{
	char *text = fuzz_text(data, size);

	check_ports(text);
	check_buffer(text);
	check_rails(text);
	free(text);
}

/* ---- connections: what:1, then pieces connection:1 length:1 bytes, each of which arrives by
 * itself; a length of 0 hangs up */

#define COMM 7
enum { KEYED = 1, ENCRYPTED = 2, RAILS = 4 };
/* A stranger's end of a connection. A piece must not wait for the one before to be acknowledged;
 * and no port is kept after the close, or they would run out. */
static void prepare_stranger(int fd)
{
	const struct linger at_once = { 1, 0 };
	const int on = 1;

	FUZZ_PROMISE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	FUZZ_PROMISE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
}

/* What a link brings is a stream of bytes, of any number. */
static void read_link(struct tt_link *link)
{
	const void *there;
	const ssize_t n = link->ops->peek(link, 16, 64, &there);

	FUZZ_PROMISE(n <= 64);
	if (n > 0)
		link->ops->release(link, (size_t)n);
}

static struct tt_endpoint *open_endpoint(int rank, int size, uint8_t what)
{
	static struct tt_key given;
	const bool keyed = what & KEYED;

	given = (struct tt_key){ .set = keyed,
				 .encrypt = keyed && (what & ENCRYPTED),
				 .bytes = { 1, 2, 3 } };
	const struct tt_endpoint_config config = { .comm_id = COMM,
						   .rank = rank,
						   .size = size,
						   .timeout_s = 10,
						   .silence_s = 5,
						   .key = &given };
	struct tt_endpoint *base;

	FUZZ_PROMISE(tt_transport_tcp.open(&config, &base) == TUTTI_OK);
	return base;
}

/* Who has not the key brings no note. */
static void check_endpoint(struct tt_endpoint *base, bool keyed)
{
	uint8_t note[TT_NOTE_BYTES];

	FUZZ_PROMISE(base->fault.result <= 0 && base->fault.result >= TUTTI_ERR_UNSUPPORTED);
	FUZZ_PROMISE(memchr(base->fault.text, '\0', sizeof(base->fault.text)));
	FUZZ_PROMISE(base->fault.rank >= -1 && base->fault.rank < tcp_endpoint_of(base)->size);
	for (int i = 0; base->ops->control->receive(base, note); i++)
		FUZZ_PROMISE(!keyed && i < TT_NOTES_KEPT);
}

/* ---- a rank that dials whoever listens at another's address, which answers anything: its
 * connection for data and its control connection, as often as it tries; and, where there is no
 * key, the rank that such a listener can pass for */

enum { OPEN_MAX = 4 };

static struct {
	int fd;
	uint16_t port;
	int open[OPEN_MAX], count;
} listener;

static void begin_listening(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);

	if (listener.port)
		return;
	/* a dial tries all addresses: there, and where nobody listens */
	setenv("TUTTI_INTERFACE", "lo", 1);
	listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	FUZZ_PROMISE(listener.fd >= 0 && bind(listener.fd, (struct sockaddr *)&at, length) == 0);
	FUZZ_PROMISE(listen(listener.fd, 64) == 0);
	FUZZ_PROMISE(getsockname(listener.fd, (struct sockaddr *)&at, &length) == 0);
	listener.port = ntohs(at.sin_port);
}

static void accept_all(void)
{
	int fd;

	while (listener.count < OPEN_MAX &&
	       (fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		prepare_stranger(fd);
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

static void check_dials(struct tt_endpoint *base, struct tcp_link *link, bool keyed)
{
	const struct tcp_endpoint *e = tcp_endpoint_of(base);
	int dials = 0;

	for (const struct tcp_dial *dial = e->dials; dial; dial = dial->next, dials++)
		FUZZ_PROMISE(dial->begun <= dial->count && dial->alive == open_attempts(dial));
	FUZZ_PROMISE(dials == e->dial_count && dials <= 2);
	FUZZ_PROMISE(!e->trouble.result); /* none is this rank's own */
	/* who has not the key is at most a rank that cannot be reached */
	FUZZ_PROMISE(!keyed || (link->state != TCP_LINK_UP && !e->peers[1].control));
	FUZZ_PROMISE(!keyed || !base->fault.result ||
		     (base->fault.result == TUTTI_ERR_PEER_LOST && base->fault.rank == 1));
	check_endpoint(base, keyed);
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

static void answer(struct tt_endpoint *base, struct tt_link *link, bool keyed, struct fuzz_in in)
{
	struct fuzz_piece piece;

	while (listener.count > 0 && fuzz_next(&in, &piece)) { /* or they have given up */
		const int i = piece.who % listener.count;

		if (piece.said == 0 && piece.who & 0x80)
			forget(i);
		else if (piece.said == 0)
			shutdown(listener.open[i], SHUT_WR);
		else
			send(listener.open[i], piece.bytes, piece.length, MSG_NOSIGNAL);
		move_on(base);
		hear_all();
		read_link(link);
		check_dials(base, (struct tcp_link *)link, keyed);
	}
}

FUZZ(tcp_listener)
{
	const struct tt_hello control = { .purpose = TCP_FOR_CONTROL, .comm_id = COMM, .to = 1 };
	struct tt_peer peers[2] = { { .rank = 0 } };
	struct tt_link *link;

	if (size == 0)
		return;
	begin_listening();
	const int before = fuzz_descriptors();
	struct tt_endpoint *base = open_endpoint(0, 2, data[0]);
	peers[1] = listening_peer(tcp_endpoint_of(base));
	tcp_endpoint_of(base)->known = peers;
	FUZZ_PROMISE(tt_tcp_dial(tcp_endpoint_of(base), &control) == TUTTI_OK);
	FUZZ_PROMISE(base->ops->connect(base, 1, TT_CHANNEL_COLLECTIVE, &link) == TUTTI_OK);
	move_on(base);
	answer(base, link, data[0] & KEYED, (struct fuzz_in){ data + 1, size - 1 });
	base->ops->close(link);
	base->ops->destroy(base);
	do {
		while (listener.count > 0)
			forget(0);
		accept_all();
	} while (listener.count > 0);
	FUZZ_PROMISE(fuzz_descriptors() == before);
}

/* ---- whoever reaches the port of a rank: three pending connections that say anything, and, where
 * there is no key, the ranks that they become */

enum { CLIENTS = 3, RANK = 2, RANKS = 4 };

static int connect_to(const struct tcp_endpoint *e)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(e->card.port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	FUZZ_PROMISE(fd >= 0);
	prepare_stranger(fd);
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
				read_link(&e->peers[peer].link[channel]->base);
		}
	}
}

static void check_pending(struct tt_endpoint *base, bool keyed)
{
	const struct tcp_endpoint *e = tcp_endpoint_of(base);

	FUZZ_PROMISE(e->pending_count >= 0 && e->pending_count <= TCP_PENDING_MAX);
	for (int peer = 0; keyed && peer < RANKS; peer++) {
		FUZZ_PROMISE(!e->peers[peer].control);
		for (int channel = 0; channel < TT_CHANNELS; channel++)
			FUZZ_PROMISE(!e->peers[peer].link[channel]);
	}
	FUZZ_PROMISE(!keyed || !e->kept);
	FUZZ_PROMISE(!keyed || !base->fault.result);
	check_endpoint(base, keyed);
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

FUZZ(tcp_pending)
{
	const int before = fuzz_descriptors();
	struct fuzz_piece piece;
	int clients[CLIENTS];

	if (size == 0)
		return;
	const bool keyed = data[0] & KEYED;
	struct fuzz_in in = { data + 1, size - 1 };
	struct tt_endpoint *base = open_endpoint(RANK, RANKS, data[0]);
	know_peers(base, data[0] & RAILS);
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = connect_to(tcp_endpoint_of(base));
	while (fuzz_next(&in, &piece)) {
		const int client = clients[piece.who % CLIENTS];
		uint8_t heard[256];

		if (piece.said == 0)
			shutdown(client, SHUT_WR);
		else if (send(client, piece.bytes, piece.length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		base->ops->progress(base, true);
		while (recv(client, heard, sizeof(heard), MSG_DONTWAIT) > 0)
			continue;
		if (!keyed)
			read_links(base);
		check_pending(base, keyed);
	}
	tt_tcp_pending_expire(tcp_endpoint_of(base), UINT64_MAX);
	FUZZ_PROMISE(tcp_endpoint_of(base)->pending_count == 0);
	close_links(base);
	base->ops->destroy(base);
	for (int i = 0; i < CLIENTS; i++)
		close(clients[i]);
	FUZZ_PROMISE(fuzz_descriptors() == before);
}
