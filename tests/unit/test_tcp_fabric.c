/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns endpoints that tests drive: see the header. */
#include "test_tcp_fabric.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "endpoint.h"
#include "log.h"

static size_t keep_family(uint8_t address[TT_ADDRESS_MAX], size_t length, int family)
{
	struct tcp_card card;
	int kept = 0;

	assert_true(tt_tcp_card_read(address, length, &card));
	for (int i = 0; i < card.count; i++)
		if (card.at[i].family == family)
			card.at[kept++] = card.at[i];
	card.count = kept;
	return tt_tcp_card_write(&card, address);
}

const struct tt_key fabric_key = { true, { 'f', 'a', 'b', 'r', 'i', 'c' } };

void fabric_open(struct fabric *f, int size, int family)
{
	const struct tt_key *keys[RANKS_MAX];

	for (int i = 0; i < RANKS_MAX; i++)
		keys[i] = &fabric_key;
	fabric_open_with(f, size, family, keys);
}

void (*fabric_enter)(int rank);

void fabric_open_rank(struct fabric *f, int rank, const struct tt_key *key)
{
	const struct tt_endpoint_config config = { .comm_id = f->comm_id,
						   .rank = rank,
						   .size = f->size,
						   .timeout_s = 20,
						   .silence_s = 5,
						   .key = key };

	if (fabric_enter)
		fabric_enter(rank);
	assert_ok(tcp->open(&config, &f->endpoint[rank]));
}

void fabric_open_with(struct fabric *f, int size, int family, const struct tt_key *const keys[])
{
	uint8_t addresses[RANKS_MAX][TT_ADDRESS_MAX] = { 0 };
	size_t lengths[RANKS_MAX];

	memset(f, 0, sizeof(*f));
	f->size = size;
	f->comm_id = 0x1234567890abcdef;
	for (int i = 0; i < size; i++) {
		fabric_open_rank(f, i, keys[i]);
		lengths[i] = tcp->address(f->endpoint[i], addresses[i]);
		if (family)
			lengths[i] = keep_family(addresses[i], lengths[i], family);
	}
	for (int i = 0; i < size; i++) {
		memcpy(f->addresses[i], addresses, sizeof(addresses));
		for (int k = 0; k < size; k++)
			f->peers[i][k] = (struct tt_peer){ .rank = k,
							   .use = k != i,
							   .address_length = (uint16_t)lengths[k],
							   .address = f->addresses[i][k] };
	}
}

struct joiner {
	struct fabric *fabric;
	int rank;
	uint64_t deadline;
	pthread_t thread;
};

static void *join_rank(void *arg)
{
	const struct joiner *j = arg;
	struct fabric *f = j->fabric;

	if (fabric_enter)
		fabric_enter(j->rank);
	f->joined[j->rank] =
		tcp->join(f->endpoint[j->rank], f->peers[j->rank], f->size, j->deadline);
	if (f->joined[j->rank] < 0)
		print_message("rank %d: %s\n", j->rank, tt_thread_error());
	return NULL;
}

void fabric_join(struct fabric *f, uint64_t deadline)
{
	struct joiner joiners[RANKS_MAX];

	for (int i = 0; i < f->size; i++) {
		joiners[i] = (struct joiner){ f, i, deadline, 0 };
		assert_int_equal(pthread_create(&joiners[i].thread, NULL, join_rank, &joiners[i]),
				 0);
	}
	for (int i = 0; i < f->size; i++)
		pthread_join(joiners[i].thread, NULL);
}

void fabric_meet(struct fabric *f)
{
	fabric_join(f, tt_now() + 20 * SECOND);
	for (int i = 0; i < f->size; i++)
		assert_int_equal(f->joined[i], TUTTI_OK);
}

void fabric_start(struct fabric *f, int size, int family)
{
	fabric_open(f, size, family);
	fabric_meet(f);
}

void fabric_die(struct fabric *f, int rank)
{
	f->dead = f->endpoint[rank];
	for (struct tcp_control *c = tcp_endpoint_of(f->dead)->controls; c; c = c->next)
		shutdown(c->source.connection.fd, SHUT_RDWR);
	f->endpoint[rank] = NULL;
}

void fabric_leave(struct fabric *f, int rank)
{
	tcp->destroy(f->endpoint[rank]);
	f->endpoint[rank] = NULL;
}

void fabric_close(struct fabric *f, int end)
{
	tcp->close(f->ends[end]);
	f->ends[end] = NULL;
}

void fabric_stop(struct fabric *f)
{
	for (int end = 0; end < 2; end++)
		fabric_close(f, end);
	for (int i = 0; i < f->size; i++)
		fabric_leave(f, i);
	tcp->destroy(f->dead);
	f->dead = NULL;
}

struct fabric fabric;

int two_ranks(void **state)
{
	fabric_start(&fabric, 2, 0);
	return 0;
}

int two_ends(void **state)
{
	fabric_start(&fabric, 2, 0);
	fabric_connect(&fabric);
	return 0;
}

int no_ranks(void **state)
{
	fabric_stop(&fabric);
	return 0;
}

void fabric_until(struct fabric *f, bool (*done)(void *arg), void *arg)
{
	const uint64_t deadline = tt_now() + 20 * SECOND;

	while (!done(arg)) {
		assert_true(tt_now() < deadline);
		for (int i = 0; i < f->size; i++)
			if (f->endpoint[i])
				tcp->progress(f->endpoint[i], true);
		sched_yield();
	}
}

uint16_t fabric_port(const struct fabric *f, int rank)
{
	struct tcp_card card;

	assert_true(tt_tcp_card_read(f->peers[0][rank].address, f->peers[0][rank].address_length,
				     &card));
	return card.port;
}

void fabric_lead(struct fabric *f, int who, int of, int port)
{
	struct tt_peer *peer = &f->peers[who][of];
	struct tcp_card card;

	assert_true(tt_tcp_card_read(peer->address, peer->address_length, &card));
	card.port = (uint16_t)port;
	peer->address_length = (uint16_t)tt_tcp_card_write(&card, f->addresses[who][of]);
}

bool caller_heard(void *caller)
{
	struct caller *c = caller;
	const size_t room = (c->enough ? c->enough : sizeof(c->heard)) - c->length;
	const ssize_t n = recv(c->fd, c->heard + c->length, room, MSG_DONTWAIT);

	c->length += n > 0 ? (size_t)n : 0;
	return n == 0 || (n < 0 && errno != EAGAIN) || (c->enough && c->length == c->enough);
}

void caller_is_dropped(struct fabric *f, int fd)
{
	struct caller c = { .fd = fd };

	fabric_until(f, caller_heard, &c);
	assert_int_equal(c.length, 0);
	close(fd);
}

void fabric_hello(const struct tt_hello *hello, uint8_t out[TT_HELLO_BYTES])
{
	static const uint8_t nonce[TT_NONCE_BYTES] = { 1, 2, 3 };

	tt_hello_write(&tt_tcp_protocol, hello, nonce, out);
}

static bool both_up(void *arg)
{
	struct tt_link **ends = arg;

	return tcp->ready(ends[0]) && tcp->ready(ends[1]);
}

void fabric_ask(struct fabric *f, int rank)
{
	assert_ok(tcp->connect(f->endpoint[rank], 1 - rank, TT_CHANNEL_COLLECTIVE, &f->ends[rank]));
}

void fabric_connect(struct fabric *f)
{
	fabric_ask(f, 0);
	fabric_ask(f, 1);
	fabric_until(f, both_up, f->ends);
}

ssize_t fabric_put(struct fabric *f, int rank, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)bytes, length };

	return tcp->write(f->ends[rank], &iov, 1);
}

ssize_t fabric_get(struct fabric *f, int rank, void *bytes, size_t length)
{
	const struct iovec iov = { bytes, length };

	return tcp->read(f->ends[rank], &iov, 1);
}

void fabric_goes_on(struct fabric *f)
{
	char byte = 0;

	fabric_connect(f);
	assert_int_equal(fabric_put(f, 0, "x", 1), 1);
	while (fabric_get(f, 1, &byte, 1) == 0)
		;
	assert_int_equal(byte, 'x');
	for (int end = 0; end < 2; end++)
		fabric_close(f, end);
}
