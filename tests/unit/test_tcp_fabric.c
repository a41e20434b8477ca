/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns endpoints that tests drive: see the header. */
#include "test_tcp_fabric.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>

#include "address.h"
#include "log.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;

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

void fabric_open_with(struct fabric *f, int size, int family, const struct tt_key *const keys[])
{
	uint8_t addresses[RANKS_MAX][TT_ADDRESS_MAX] = { 0 };
	size_t lengths[RANKS_MAX];

	memset(f, 0, sizeof(*f));
	f->size = size;
	f->family = family;
	f->comm_id = 0x1234567890abcdef;
	for (int i = 0; i < size; i++) {
		const struct tt_endpoint_config config = { .comm_id = f->comm_id,
							   .rank = i,
							   .size = size,
							   .timeout_s = 20,
							   .silence_s = 5,
							   .key = keys[i] };

		assert_int_equal(tcp->open(&config, &f->endpoint[i]), TUTTI_OK);
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

void fabric_start(struct fabric *f, int size, int family)
{
	fabric_open(f, size, family);
	fabric_join(f, tt_now() + 20 * SECOND);
	for (int i = 0; i < size; i++)
		assert_int_equal(f->joined[i], TUTTI_OK);
}

void fabric_stop(struct fabric *f)
{
	for (int i = 0; i < f->size; i++) {
		tcp->destroy(f->endpoint[i]);
		f->endpoint[i] = NULL;
	}
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

bool caller_hung_up(void *caller)
{
	struct caller *c = caller;
	const ssize_t n =
		recv(c->fd, c->heard + c->length, sizeof(c->heard) - c->length, MSG_DONTWAIT);

	c->length += n > 0 ? (size_t)n : 0;
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static bool both_up(void *arg)
{
	struct tt_link **links = arg;

	return tcp->ready(links[0]) && tcp->ready(links[1]);
}

void fabric_connect(struct fabric *f, int a, int b, struct tt_link **at_a, struct tt_link **at_b)
{
	struct tt_link *links[2];

	assert_int_equal(tcp->connect(f->endpoint[a], b, TT_CHANNEL_COLLECTIVE, &links[0]),
			 TUTTI_OK);
	assert_int_equal(tcp->connect(f->endpoint[b], a, TT_CHANNEL_COLLECTIVE, &links[1]),
			 TUTTI_OK);
	fabric_until(f, both_up, links);
	*at_a = links[0];
	*at_b = links[1];
}

void fabric_goes_on(struct fabric *f)
{
	struct tt_link *a, *b;
	char byte = 'x';
	const struct iovec iov = { &byte, 1 };

	fabric_connect(f, 0, 1, &a, &b);
	assert_int_equal(tcp->write(a, &iov, 1), 1);
	byte = 0;
	while (tcp->read(b, &iov, 1) == 0)
		;
	assert_int_equal(byte, 'x');
	tcp->close(a);
	tcp->close(b);
}
