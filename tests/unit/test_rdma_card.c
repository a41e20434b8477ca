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

/* "GID/PREFIX …", "ib:" before those of InfiniBand. */
static struct side side_of(const char *text)
{
	struct side side = { .n = 0 };
	char gid[64];

	for (int prefix, used; *text; text += used) {
		struct rdma_port *port = &side.at[side.n++];
		const bool infiniband = strncmp(text, "ib:", 3) == 0;

		used = 0;
		sscanf(text + (infiniband ? 3 : 0), "%63[^/]/%d %n", gid, &prefix, &used);
		assert_true(used > 0);
		used += infiniband ? 3 : 0;
		*port = (struct rdma_port){ .device = "mlx5_0",
					    .number = 1,
					    .infiniband = infiniband,
					    .gid_index = 3,
					    .node = 1,
					    .prefix = (uint8_t)prefix,
					    .mbits = 100000 };
		assert_int_equal(inet_pton(AF_INET6, gid, port->gid), 1);
	}
	return side;
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

static void expect_pairs(const char *from, const char *to, const char *expected)
{
	const struct side a = side_of(from), b = side_of(to);

	assert_string_equal(pairs_of(&a, &b), expected);
}

TEST(ports_of_one_ip_network_are_paired)
{
	expect_pairs("::ffff:10.0.3.1/118", "::ffff:10.0.4.2/118", "");
	expect_pairs("::ffff:10.0.3.1/118", "::ffff:10.0.4.2/118 ::ffff:10.0.1.2/118", "0-1");
}

TEST(each_must_be_in_the_others_network)
{
	expect_pairs("::ffff:10.0.3.1/104", "::ffff:10.0.4.2/120", "");
	expect_pairs("::ffff:10.0.3.1/104", "::ffff:10.0.4.2/120 ::ffff:10.0.3.2/120", "0-1");
}

TEST(on_infiniband_the_subnet_prefix_decides)
{
	expect_pairs("ib:fe80::1/64", "ib:fec0::2/64", "");
	expect_pairs("ib:fe80::1/64", "ib:fec0::2/64 ib:fe80::2/64", "0-1");
}

TEST_OF(infiniband_and_roce_do_not_meet, expect_pairs("ib:fe80::1/64", "fe80::2/64", ""))
TEST_OF(ipv4_and_ipv6_do_not_meet, expect_pairs("::ffff:10.0.0.1/120", "fd00::1/64", ""))

TEST(each_port_is_in_one_pair)
{
	const struct side a = side_of("::ffff:10.0.0.10/120 ::ffff:10.0.0.11/120 "
				      "::ffff:10.0.0.12/120 ::ffff:10.0.0.13/120");
	struct side b = side_of("::ffff:10.0.0.9/120 ::ffff:10.0.0.8/120 "
				"::ffff:10.0.0.7/120 ::ffff:10.0.0.6/120");

	assert_string_equal(pairs_of(&a, &b), "0-0 1-1 2-2 3-3");
	b.n = 2;
	assert_string_equal(pairs_of(&a, &b), "0-0 1-1");
	b.n = 0;
	assert_string_equal(pairs_of(&a, &b), "");
}

/* Of equal places InfiniBand comes first, then the lower GID. */
TEST(rails_find_each_other_whatever_their_order)
{
	expect_pairs("::ffff:10.0.0.1/120 ::ffff:10.0.1.1/120 ib:fe80::1/64",
		     "ib:fe80::2/64 ::ffff:10.0.1.2/120 ::ffff:10.0.0.2/120", "2-0 0-2 1-1");
	/* of a network within another one, each end has the lower GID in another pair */
	expect_pairs("::ffff:10.0.1.1/112 ::ffff:10.0.5.1/120",
		     "::ffff:10.0.5.2/120 ::ffff:10.0.9.1/112", "0-1 1-0");
}

TEST_OF(ranks_of_one_machine_pair_each_port_with_itself,
	expect_pairs("::ffff:10.0.0.2/120 ::ffff:10.0.0.1/120",
		     "::ffff:10.0.0.2/120 ::ffff:10.0.0.1/120", "0-0 1-1"))

/* ---------------------------------------------------------------- on the wire */

TEST(a_full_card_survives_the_wire)
{
	struct side a = side_of("ib:fe80::1/64 ::ffff:10.0.0.1/128 fd00::1/0 fd00::2/64");
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t bytes[RDMA_CARD_MAX];
	size_t length;
	int n;

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
	struct side a = side_of("ib:fe80::1/64 ::1/120");
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
	const struct side a = side_of("fd00::1/64 fd00::2/64 fd00::3/64 fd00::4/64");
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t bytes[RDMA_CARD_MAX + RDMA_CARD_ENTRY];
	int n;

	tt_rdma_card_write(a.at, a.n, bytes);
	memcpy(bytes + RDMA_CARD_MAX, bytes + 2, RDMA_CARD_ENTRY);
	bytes[1]++;
	bytes[sizeof(bytes) - 1] = 5; /* yet another GID */
	assert_false(tt_rdma_card_read(bytes, sizeof(bytes), back, &n));
}

TEST(two_ports_of_one_gid_are_refused)
{
	struct side a = side_of("fd00::1/64 fd00::1/48");
	struct rdma_port back[RDMA_PORTS_MAX];
	uint8_t bytes[RDMA_CARD_MAX];
	int n;

	assert_false(tt_rdma_card_read(bytes, tt_rdma_card_write(a.at, a.n, bytes), back, &n));
	a.at[1].gid[15] = 2;
	assert_true(tt_rdma_card_read(bytes, tt_rdma_card_write(a.at, a.n, bytes), back, &n));
}
