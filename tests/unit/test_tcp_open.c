/* SPDX-License-Identifier: BSD-3-Clause */
/* What the environment says about ports, interfaces and buffers, and what is said when it makes no
 * sense. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "address.h"
#include "log.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;
static const struct tt_endpoint_config config = {
	.comm_id = 1, .size = 2, .timeout_s = 20, .silence_s = 5, .key = &fabric_key
};

static struct tcp_card opened_card(void)
{
	struct tt_endpoint *e = NULL;
	struct tcp_card card;
	uint8_t bytes[TT_ADDRESS_MAX];

	assert_int_equal(tcp->open(&config, &e), TUTTI_OK);
	assert_true(tt_tcp_card_read(bytes, tcp->address(e, bytes), &card));
	tcp->destroy(e);
	return card;
}

static void refused(const char *name, const char *value, const char *error_text)
{
	struct tt_endpoint *e = NULL;

	setenv(name, value, 1);
	assert_int_equal(tcp->open(&config, &e), TUTTI_ERR_INVALID);
	assert_null(e);
	assert_non_null(strstr(tt_thread_error(), value));
	assert_non_null(strstr(tt_thread_error(), error_text));
	unsetenv(name);
}

TEST(a_port_of_the_range_is_used_and_its_end_is_an_error)
{
	struct tt_endpoint *first = NULL, *second = NULL;
	struct tcp_card card = opened_card();
	char range[32], words[128];
	uint8_t bytes[TT_ADDRESS_MAX];

	/* the port was free a moment ago */
	snprintf(range, sizeof(range), "%d-%d", card.port, card.port);
	setenv("TUTTI_PORT_RANGE", range, 1);
	assert_int_equal(tcp->open(&config, &first), TUTTI_OK);
	const int port = card.port;
	assert_true(tt_tcp_card_read(bytes, tcp->address(first, bytes), &card));
	assert_int_equal(card.port, port);
	assert_int_equal(tcp->open(&config, &second), TUTTI_ERR_SYSTEM);
	assert_null(second);
	snprintf(words, sizeof(words), "no port of TUTTI_PORT_RANGE %s can be listened on", range);
	assert_non_null(strstr(tt_thread_error(), words));
	tcp->destroy(first);
	unsetenv("TUTTI_PORT_RANGE");
}

TEST(ranges_that_are_none_are_refused)
{
	static const char *const values[] = { "4000",	 "0-10",       "5000-4000",
					      "1-65536", "4000-4010x", "ports",
					      "-5-10",	 " 4000-4010", "+40-50",
					      "4000-",	 "-",	       "4294967297-4294967298" };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		refused("TUTTI_PORT_RANGE", values[i], "expected FIRST-LAST");
}

static bool is_loopback(const struct tcp_address *a)
{
	static const uint8_t six[16] = { [15] = 1 };

	return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, six, 16) == 0;
}

TEST(interfaces_are_chosen_and_left_out_by_name)
{
	struct tcp_card all = opened_card(), card;

	setenv("TUTTI_INTERFACE", "lo", 1);
	card = opened_card();
	assert_true(card.count > 0);
	for (int i = 0; i < card.count; i++)
		assert_true(is_loopback(&card.at[i]));
	setenv("TUTTI_INTERFACE", "^nothing,l", 1);
	assert_int_equal(opened_card().count, card.count);
	unsetenv("TUTTI_INTERFACE");
	if (all.count == card.count)
		return; /* this machine has no other interface */
	setenv("TUTTI_INTERFACE", "^lo", 1);
	card = opened_card();
	assert_true(card.count > 0 && card.count < all.count);
	for (int i = 0; i < card.count; i++)
		assert_false(is_loopback(&card.at[i]));
	unsetenv("TUTTI_INTERFACE");
}

TEST(an_interface_that_is_not_there_is_refused)
{
	refused("TUTTI_INTERFACE", "nosuch0", "this machine has lo");
	refused("TUTTI_INTERFACE", "lo,^lo", "leaves no interface");
}

TEST(buffer_sizes_that_are_none_are_refused)
{
	static const char *const values[] = { "many", "4095",	     "-1",    "-8K", "+8K",
					      "1G",   "9999999999M", "1025M", "4M4", "K" };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		refused("TUTTI_TCP_BUFFER", values[i], "expected bytes");
	setenv("TUTTI_TCP_BUFFER", "256K", 1);
	opened_card();
	unsetenv("TUTTI_TCP_BUFFER");
}

TEST(numbers_of_rails_that_are_none_are_refused)
{
	static const char *const values[] = { "0", "9", "-1", "two", "2x", " 2" };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		refused("TUTTI_TCP_RAILS", values[i], "expected the connections between two ranks");
	setenv("TUTTI_TCP_RAILS", "8", 1);
	assert_int_equal(opened_card().rails, 8);
	unsetenv("TUTTI_TCP_RAILS");
}

TEST(ranks_that_use_no_tcp_do_not_listen)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fabric f;
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fabric_open(&f, 2, 0);
	f.peers[0][1].use = f.peers[1][0].use = false;
	fabric_join(&f, tt_now() + 20 * SECOND);
	assert_int_equal(f.joined[0], TUTTI_OK);
	to.sin_port = htons(fabric_port(&f, 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	tcp->progress(f.endpoint[0], true);
	close(fd);
	fabric_stop(&f);
}
