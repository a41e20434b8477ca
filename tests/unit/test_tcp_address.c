/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of a peer's addresses are tried, in which order, from made-up cards. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "address.h"
#include "endpoint.h"

/* With loopback, and "ADDRESS/PREFIX@SPEED%INTERFACE …". */
static struct tcp_card card_of(uint64_t machine, uint64_t network, const char *text)
{
	struct tcp_card card = { .machine = machine, .network = network, .port = 4000 };
	char all[1024], name[64];
	int used;

	snprintf(all, sizeof(all), "127.0.0.1/8@0%%1 ::1/128@0%%1 %s", text);
	for (const char *at = all; *at; at += used) {
		struct tcp_address *address = &card.at[card.count++];
		int prefix;

		used = 0;
		sscanf(at, " %63[^/]/%d@%" SCNu32 "%%%" SCNu32 " %n", name, &prefix,
		       &address->speed, &address->scope, &used);
		assert_true(used > 0);
		address->prefix = (uint8_t)prefix;
		address->family = strchr(name, ':') ? 6 : 4;
		assert_int_equal(
			inet_pton(address->family == 4 ? AF_INET : AF_INET6, name, address->bytes),
			1);
	}
	return card;
}

/* "127.0.0.1:4000 [::1]:4000 ": the candidates in order. */
static const char *order(const struct tcp_card *from, const struct tcp_card *to)
{
	static char out[TCP_CANDIDATES_MAX * TCP_ADDRESS_TEXT];
	struct tcp_candidate candidates[TCP_CANDIDATES_MAX];
	char text[TCP_ADDRESS_TEXT];
	const int n = tt_tcp_candidates(from, to, candidates, true);

	out[0] = 0;
	for (int i = 0; i < n; i++) {
		strcat(out, tt_tcp_text(&candidates[i].to, text));
		strcat(out, " ");
	}
	assert_int_equal(tt_tcp_connectable(from, to), n > 0);
	return out;
}

static void expect_order(const char *from, const char *to, const char *expected)
{
	const struct tcp_card a = card_of(1, 2, from), b = card_of(3, 4, to);

	assert_string_equal(order(&a, &b), expected);
}

TEST(loopback_comes_first_within_one_network)
{
	const struct tcp_card a = card_of(1, 2, "10.0.0.1/24@1000%2");

	assert_string_equal(order(&a, &a), "127.0.0.1:4000 [::1]:4000 10.0.0.1:4000 ");
}

TEST(loopback_of_another_network_is_passed_over)
{
	const struct tcp_card a = card_of(1, 2, ""), b = card_of(1, 3, ""), c = card_of(4, 2, "");

	assert_string_equal(order(&a, &b), "");
	assert_string_equal(order(&a, &c), "");
}

TEST_OF(a_common_subnet_comes_before_a_route,
	expect_order("10.0.3.1/22@0%2", "10.0.4.2/22@100000%2 10.0.1.2/22@0%3",
		     "10.0.1.2:4000 10.0.4.2:4000 "))
TEST_OF(the_faster_interface_comes_first_then_ipv4,
	expect_order("10.0.0.1/24@0%2 2001:db8::1/64@0%2",
		     "2001:db8::2/64@1000%2 10.0.0.2/24@1000%2 10.0.0.3/24@25000%3",
		     "10.0.0.3:4000 10.0.0.2:4000 [2001:db8::2]:4000 "))

TEST(an_address_this_machine_has_too_is_passed_over)
{
	expect_order("172.17.0.1/16@0%3", "172.17.0.1/16@0%3", "");
	expect_order("172.17.0.1/16@0%3 10.0.0.1/24@0%2", "172.17.0.1/16@0%3 10.0.0.2/24@0%2",
		     "10.0.0.2:4000 ");
}

TEST_OF(a_family_this_rank_lacks_is_passed_over,
	expect_order("10.0.0.1/24@0%2", "2001:db8::2/64@0%2", ""))

TEST(link_local_comes_last_through_each_interface)
{
	expect_order("fe80::1/64@0%5 fe80::2/64@0%7", "fe80::9/64@40000%3",
		     "[fe80::9%5]:4000 [fe80::9%7]:4000 ");
	expect_order("fe80::1/64@0%5 fe80::2/64@0%7 2001:db8::1/64@0%5",
		     "fe80::9/64@40000%3 2001:db8:1::2/64@0%3",
		     "[2001:db8:1::2]:4000 [fe80::9%5]:4000 [fe80::9%7]:4000 ");
}

TEST(a_full_card_survives_the_wire)
{
	struct tcp_card card = card_of(0x0102030405060708, UINT64_MAX,
				       "2001:db8::42/31@4294967294%2147483649"),
			back;
	uint8_t bytes[TT_ADDRESS_MAX];
	size_t length;

	while (card.count < TCP_ADDRESSES_MAX)
		card.at[card.count++] = card.at[2];
	length = tt_tcp_card_write(&card, bytes);
	assert_true(length <= sizeof(bytes));
	assert_true(tt_tcp_card_read(bytes, length, &back));
	assert_int_equal(back.count, TCP_ADDRESSES_MAX);
	assert_true(back.machine == card.machine && back.network == card.network);
	assert_int_equal(back.port, 4000);
	assert_int_equal(back.at[31].prefix, 31);
	assert_int_equal(back.at[31].speed, 0xfffffffe);
	assert_int_equal(back.at[31].scope, 0x80000001);
	assert_memory_equal(back.at[31].bytes, card.at[31].bytes, 16);
}

TEST(damaged_cards_are_refused)
{
	struct tcp_card card = card_of(1, 2, ""), back;
	uint8_t good[TT_ADDRESS_MAX], bad[TT_ADDRESS_MAX];
	const size_t length = tt_tcp_card_write(&card, good);
	static const struct {
		size_t at;
		uint8_t value;
	} damage[] = {
		{ 0, 1 },   /* version */
		{ 1, 1 },   /* count too small for the length */
		{ 1, 3 },   /* too large */
		{ 1, 255 }, /* larger than any card */
		{ 2, TCP_RAILS_MAX + 1 },
		{ 21, 5 },   /* family */
		{ 22, 33 },  /* prefix longer than the address */
		{ 48, 129 }, /* likewise, of the IPv6 one behind it */
	};

	for (size_t n = 0; n < length; n++)
		assert_false(tt_tcp_card_read(good, n, &back));
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		memcpy(bad, good, length);
		bad[damage[i].at] = damage[i].value;
		assert_false(tt_tcp_card_read(bad, length, &back));
	}
	assert_true(tt_tcp_card_read(good, length, &back));
}

TEST(reach_is_the_same_whichever_way_round)
{
	const struct tcp_card a = card_of(1, 2, "10.0.0.1/24@0%2"), none = card_of(3, 4, ""),
			      b = card_of(3, 4, "10.1.0.1/24@0%2");
	uint8_t addresses[2][TT_ADDRESS_MAX];
	struct tt_peer first = { .rank = 0, .address = addresses[0] },
		       second = { .rank = 1, .address = addresses[1] };

	first.address_length = (uint16_t)tt_tcp_card_write(&a, addresses[0]);
	second.address_length = (uint16_t)tt_tcp_card_write(&none, addresses[1]);
	assert_false(tt_transport_tcp.reach(&first, &second));
	assert_false(tt_transport_tcp.reach(&second, &first));
	second.address_length = (uint16_t)tt_tcp_card_write(&b, addresses[1]);
	assert_true(tt_transport_tcp.reach(&first, &second));
	assert_true(tt_transport_tcp.reach(&second, &first));
	second.address_length = 3;
	assert_false(tt_transport_tcp.reach(&first, &second));
}

/* Those between them are "10.0.0.1:0-10.0.0.2:4000/SPEED …"; the other end finds as many. */
static void expect_ways(const struct tcp_card *from, const struct tcp_card *to,
			const char *expected)
{
	char out[TCP_RAILS_MAX * 2 * TCP_ADDRESS_TEXT] = "";
	struct tcp_candidate found[TCP_RAILS_MAX];
	char here[TCP_ADDRESS_TEXT], there[TCP_ADDRESS_TEXT];
	const int n = tt_tcp_ways(from, to, found);

	for (int i = 0; i < n; i++) {
		assert_true(found[i].from_length > 0);
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s-%s/%u ",
			 tt_tcp_text(&found[i].from, here), tt_tcp_text(&found[i].to, there),
			 (unsigned)found[i].speed);
	}
	assert_string_equal(out, expected);
	assert_int_equal(tt_tcp_rail_count(from, to), n > 1 ? n : 1);
}

/* The fd00:: ones are of the same interfaces, 172.17.0.1 of private bridges of two machines. */
TEST(each_pair_of_interfaces_is_a_way)
{
	const struct tcp_card a = card_of(1, 2,
					  "10.0.0.1/24@10000%2 10.1.0.1/24@25000%3 "
					  "fd00::1/64@25000%3 172.17.0.1/16@0%4");
	struct tcp_card b = card_of(3, 4,
				    "10.0.0.2/24@1000%7 10.1.0.2/24@25000%8 "
				    "fd00::2/64@25000%8 172.17.0.1/16@0%9");

	expect_ways(&a, &b, "10.0.0.1:0-10.0.0.2:4000/1000 10.1.0.1:0-10.1.0.2:4000/25000 ");
	b.machine = 1;
	b.network = 2;
	expect_ways(&a, &b, "");
}

TEST(interfaces_of_one_subnet_are_ways_of_their_own)
{
	struct tcp_card a = card_of(1, 2, "10.0.0.10/24@0%2 10.0.0.11/24@0%3 10.0.0.12/24@0%4"),
			b = card_of(3, 4, "10.0.0.20/24@0%7 10.0.0.21/24@0%8");

	expect_ways(&a, &b, ""); /* tunnels, perhaps */
	a.rails = b.rails = 2;
	expect_ways(&a, &b, "10.0.0.10:0-10.0.0.20:4000/0 10.0.0.11:0-10.0.0.21:4000/0 ");
	expect_ways(&b, &a, "10.0.0.20:0-10.0.0.10:4000/0 10.0.0.21:0-10.0.0.11:4000/0 ");
}

TEST(both_ends_say_how_many_rails_there_are)
{
	struct tcp_card a = card_of(1, 2, ""), b = card_of(3, 4, "");

	assert_int_equal(tt_tcp_rail_count(&a, &b), 1);
	a.rails = 3;
	assert_int_equal(tt_tcp_rail_count(&a, &b), 3);
	assert_int_equal(tt_tcp_rail_count(&b, &a), 3);
	b.rails = 2;
	assert_int_equal(tt_tcp_rail_count(&a, &b), 2);
	assert_int_equal(tt_tcp_rail_count(&b, &a), 2);
}

/* ---- how connections share a stream */

/* Connected to itself. */
static int socket_at(const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t length = sizeof(in);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, address, &in.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &length), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, length), 0);
	return fd;
}

/* Of 100 stripes to `to` the first of two connections has so many; it is to 127.0.0.2. */
static void expect_first(const char *from, const char *to, uint8_t rails, int expected)
{
	const struct tcp_card there = card_of(3, 4, to);
	uint8_t address[TT_ADDRESS_MAX];
	struct tt_peer known[2] = { { .address = NULL }, { .address = address } };
	struct tcp_link *link = calloc(1, sizeof(*link) + 2 * sizeof(link->rail[0]));
	struct tcp_peer peers[2] = { { .link = { NULL } }, { .link = { link } } };
	struct tcp_endpoint e = { .size = 2,
				  .card = card_of(1, 2, from),
				  .known = known,
				  .peers = peers,
				  .negotiating = 1,
				  .rails_dialled = TCP_RAILS_MAX /* as many as at once */ };
	int first = 0;
	size_t bytes;

	e.card.rails = rails;
	known[1].address_length = (uint16_t)tt_tcp_card_write(&there, address);
	link->base.endpoint = &e.base;
	link->base.peer = 1;
	link->state = TCP_LINK_NEGOTIATING;
	link->count = 2;
	link->rail[0].connection.fd = socket_at("127.0.0.2");
	link->rail[1] = (struct tcp_rail){ .connection.fd = -1, .counted = true };
	assert_true(tt_tcp_negotiation_begin(link));
	tt_tcp_negotiate_all(&e);
	assert_int_equal(link->state, TCP_LINK_UP);
	for (uint64_t position = 0; position < 100 * (64 << 10); position += 64 << 10)
		first += tt_tcp_rail_at(link, position, &bytes) == &link->rail[0];
	close(link->rail[0].connection.fd);
	free(link->spread);
	free(link);
	if (first != expected)
		fail_msg("%s to %s: %d, expected %d", from, to, first, expected);
}

TEST(shares_of_a_stream_follow_the_speeds_of_interfaces)
{
	const struct {
		int first, second; /* Mbit/s */
		uint8_t rails;
		int stripes; /* of the first */
	} cases[] = {
		{ 10000, 10000, 0, 50 }, { 10000, 40000, 0, 20 }, { 25000, 10000, 0, 75 },
		{ 10000, 1000, 0, 100 }, { 1000, 10000, 0, 0 },	  { 0, 10000, 2, 50 },
		{ 10000, 0, 2, 100 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char to[128];

		snprintf(to, sizeof(to), "127.0.0.2/8@0%%7 10.0.0.2/24@%d%%7 10.1.0.2/24@%d%%8",
			 cases[i].first, cases[i].second);
		expect_first("10.0.0.1/24@100000%2 10.1.0.1/24@100000%3", to, cases[i].rails,
			     cases[i].stripes);
	}
}
