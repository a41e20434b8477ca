/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other about their RDMA ports, and which of them they pair. */
#include "tests.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "card.h"

struct side {
	struct rdma_port at[RDMA_PORTS_MAX];
	int n;
};

static void add(struct side *side, bool infiniband, const char *gid, int prefix)
{
	struct rdma_port *port = &side->at[side->n++];

	*port = (struct rdma_port){
		.device = "mlx5_0", .number = 1, .infiniband = infiniband, .gid_index = 3, .node = 1
	};
	port->prefix = (uint8_t)prefix;
	port->mbits = 100000;
	assert_int_equal(inet_pton(AF_INET6, gid, port->gid), 1);
}

/* "0-1 1-0": pairs of places in their order; the same from the other end. */
static const char *pairs_of(const struct side *a, const struct side *b)
{
	static char text[64];
	int pairs[RDMA_PORTS_MAX][2], other[RDMA_PORTS_MAX][2], count = -1, others = -1;

	tt_rdma_match(a->at, a->n, b->at, b->n, pairs, &count);
	tt_rdma_match(b->at, b->n, a->at, a->n, other, &others);
	assert_int_equal(count, others);
	text[0] = '\0';
	for (int i = 0; i < count; i++) {
		assert_int_equal(pairs[i][0], other[i][1]);
		assert_int_equal(pairs[i][1], other[i][0]);
		sprintf(text + strlen(text), "%s%d-%d", i ? " " : "", pairs[i][0], pairs[i][1]);
	}
	return text;
}

TEST(ports_of_one_ip_network_are_paired)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	add(&a, false, "::ffff:10.0.3.1", 96 + 22);
	add(&b, false, "::ffff:10.0.4.2", 96 + 22);
	assert_string_equal(pairs_of(&a, &b), "");
	add(&b, false, "::ffff:10.0.1.2", 96 + 22);
	assert_string_equal(pairs_of(&a, &b), "0-1");
}

TEST(each_must_be_in_the_others_network)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	add(&a, false, "::ffff:10.0.3.1", 96 + 8);
	add(&b, false, "::ffff:10.0.4.2", 96 + 24);
	assert_string_equal(pairs_of(&a, &b), "");
	add(&b, false, "::ffff:10.0.3.2", 96 + 24);
	assert_string_equal(pairs_of(&a, &b), "0-1");
}

TEST(on_infiniband_the_subnet_prefix_decides)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	add(&a, true, "fe80::1", 64);
	add(&b, true, "fec0::2", 64);
	assert_string_equal(pairs_of(&a, &b), "");
	add(&b, true, "fe80::2", 64);
	assert_string_equal(pairs_of(&a, &b), "0-1");
}

TEST(infiniband_and_roce_do_not_meet)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	add(&a, true, "fe80::1", 64);
	add(&b, false, "fe80::2", 64);
	assert_string_equal(pairs_of(&a, &b), "");
}

TEST(ipv4_and_ipv6_do_not_meet)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	add(&a, false, "::ffff:10.0.0.1", 96 + 24);
	add(&b, false, "fd00::1", 64);
	assert_string_equal(pairs_of(&a, &b), "");
}

TEST(each_port_is_in_one_pair)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	for (int i = 0; i < RDMA_PORTS_MAX; i++) {
		char gid[32];

		snprintf(gid, sizeof(gid), "::ffff:10.0.0.%d", 10 + i);
		add(&a, false, gid, 96 + 24);
		snprintf(gid, sizeof(gid), "::ffff:10.0.0.%d", 9 - i);
		add(&b, false, gid, 96 + 24);
	}
	assert_string_equal(pairs_of(&a, &b), "0-0 1-1 2-2 3-3");
	b.n = 2;
	assert_string_equal(pairs_of(&a, &b), "0-0 1-1");
	b.n = 0;
	assert_string_equal(pairs_of(&a, &b), "");
}

TEST(rails_find_each_other_whatever_their_order)
{
	struct side a = { .n = 0 }, b = { .n = 0 };

	add(&a, false, "::ffff:10.0.0.1", 96 + 24);
	add(&a, false, "::ffff:10.0.1.1", 96 + 24);
	add(&a, true, "fe80::1", 64);
	add(&b, true, "fe80::2", 64);
	add(&b, false, "::ffff:10.0.1.2", 96 + 24);
	add(&b, false, "::ffff:10.0.0.2", 96 + 24);
	/* of equal places InfiniBand comes first, then the lower GID */
	assert_string_equal(pairs_of(&a, &b), "2-0 0-2 1-1");
}

TEST(ranks_of_one_machine_pair_each_port_with_itself)
{
	struct side a = { .n = 0 };

	add(&a, false, "::ffff:10.0.0.2", 96 + 24);
	add(&a, false, "::ffff:10.0.0.1", 96 + 24);
	assert_string_equal(pairs_of(&a, &a), "0-0 1-1");
}

TEST(the_same_pairs_are_found_at_either_end)
{
	uint32_t seed = 1;

	for (int k = 0; k < 20000; k++) {
		struct side sides[2] = { 0 };

		for (int s = 0; s < 2; s++) {
			const int n = (int)(seed >> 28) % (RDMA_PORTS_MAX + 1);

			for (int i = 0; i < n; i++) {
				char gid[32];

				seed = seed * 1664525u + 1013904223u;
				/* different ones within a side */
				snprintf(gid, sizeof(gid), "::ffff:10.0.%u.%u", seed >> 16 & 3,
					 4 * (seed >> 24 & 3) + (unsigned)i);
				add(&sides[s], seed >> 30 & 1, gid,
				    seed >> 30 & 1   ? 64
				    : seed >> 20 & 1 ? 120
						     : 112);
			}
			seed = seed * 1664525u + 1013904223u;
		}
		pairs_of(&sides[0], &sides[1]);
	}
}

/* ---------------------------------------------------------------- on the wire */

TEST(a_full_card_survives_the_wire)
{
	struct side a = { .n = 0 };
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t bytes[RDMA_CARD_MAX];
	size_t length;
	int n;

	add(&a, true, "fe80::1", 64);
	add(&a, false, "::ffff:10.0.0.1", 128);
	add(&a, false, "fd00::1", 0);
	add(&a, false, "fd00::2", 64);
	a.at[0].lid = 0xfedc;
	a.at[0].number = 255;
	a.at[3].mbits = 0xfedcba98;
	length = tt_rdma_card_write(a.at, a.n, bytes);
	assert_int_equal(length, RDMA_CARD_MAX);
	assert_true(tt_rdma_card_read(bytes, length, back, &n));
	assert_int_equal(n, RDMA_PORTS_MAX);
	for (int i = 0; i < n; i++) {
		assert_int_equal(back[i].infiniband, a.at[i].infiniband);
		assert_int_equal(back[i].number, a.at[i].number);
		assert_int_equal(back[i].prefix, a.at[i].prefix);
		assert_int_equal(back[i].lid, a.at[i].lid);
		assert_int_equal(back[i].mbits, a.at[i].mbits);
		assert_memory_equal(back[i].gid, a.at[i].gid, 16);
		assert_int_equal(back[i].gid_index, -1);
		assert_int_equal(back[i].node, -1);
		assert_string_equal(back[i].device, "");
	}
	length = tt_rdma_card_write(NULL, 0, bytes);
	assert_true(tt_rdma_card_read(bytes, length, back, &n));
	assert_int_equal(n, 0);
}

TEST(damaged_cards_are_refused)
{
	struct side a = { .n = 0 };
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t good[RDMA_CARD_MAX + 1], bad[RDMA_CARD_MAX];
	static const struct {
		size_t at;
		uint8_t value;
	} damage[] = {
		{ 0, 2 },	 /* version */
		{ 1, 1 },	 /* count too small for the length */
		{ 1, 3 },	 /* too large */
		{ 1, 255 },	 /* larger than any card */
		{ 27, 2 },	 /* neither InfiniBand nor RoCE */
		{ 2, 0 },	 /* RoCE with a LID */
		{ 3, 0 },	 /* no port */
		{ 4, 65 },	 /* not the prefix of InfiniBand */
		{ 11, 0xff },	 /* a multicast GID */
		{ 27 + 2, 129 }, /* prefix longer than the GID */
		{ 27 + 24, 0 },	 /* no GID */
	};
	size_t length;
	int n;

	add(&a, true, "fe80::1", 64);
	add(&a, false, "::1", 96 + 24);
	a.at[0].lid = 5;
	length = tt_rdma_card_write(a.at, a.n, good);
	for (size_t k = 0; k < length; k++)
		assert_false(tt_rdma_card_read(good, k, back, &n));
	assert_false(tt_rdma_card_read(good, length + 1, back, &n));
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		memcpy(bad, good, length);
		bad[damage[i].at] = damage[i].value;
		if (tt_rdma_card_read(bad, length, back, &n))
			fail_msg("byte %zu of value %u is taken", damage[i].at, damage[i].value);
	}
	assert_true(tt_rdma_card_read(good, length, back, &n));
}

TEST(a_card_of_too_many_ports_is_refused)
{
	struct side a = { .n = 0 };
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t bytes[RDMA_CARD_MAX + RDMA_CARD_ENTRY];
	int n;

	for (int i = 0; i < RDMA_PORTS_MAX; i++) {
		add(&a, false, "fd00::1", 64);
		a.at[i].gid[15] = (uint8_t)i;
	}
	tt_rdma_card_write(a.at, a.n, bytes);
	memcpy(bytes + RDMA_CARD_MAX, bytes + 2, RDMA_CARD_ENTRY);
	bytes[1]++;
	bytes[sizeof(bytes) - 1] = RDMA_PORTS_MAX; /* yet another GID */
	assert_false(tt_rdma_card_read(bytes, sizeof(bytes), back, &n));
}

TEST(two_ports_of_one_gid_are_refused)
{
	struct side a = { .n = 0 };
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t bytes[RDMA_CARD_MAX];
	int n;

	add(&a, false, "fd00::1", 64);
	add(&a, false, "fd00::1", 48);
	assert_false(tt_rdma_card_read(bytes, tt_rdma_card_write(a.at, a.n, bytes), back, &n));
	a.at[1].gid[15] = 2;
	assert_true(tt_rdma_card_read(bytes, tt_rdma_card_write(a.at, a.n, bytes), back, &n));
}
