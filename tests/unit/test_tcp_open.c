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

static const struct tt_endpoint_config config = {
	.comm_id = 1, .size = 2, .timeout_s = 20, .silence_s = 5, .key = &fabric_key
};

static struct tcp_card opened_card(void)
{
	struct tt_endpoint *e = NULL;
	struct tcp_card card;
	uint8_t bytes[TT_ADDRESS_MAX];

	assert_ok(tcp->open(&config, &e));
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
	assert_says(tt_thread_error(), value);
	assert_says(tt_thread_error(), error_text);
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
	assert_ok(tcp->open(&config, &first));
	const int port = card.port;
	assert_true(tt_tcp_card_read(bytes, tcp->address(first, bytes), &card));
	assert_int_equal(card.port, port);
	assert_int_equal(tcp->open(&config, &second), TUTTI_ERR_SYSTEM);
	assert_null(second);
	snprintf(words, sizeof(words), "no port of TUTTI_PORT_RANGE %s can be listened on", range);
	assert_says(tt_thread_error(), words);
	tcp->destroy(first);
	unsetenv("TUTTI_PORT_RANGE");
}

TEST(what_makes_no_sense_is_refused)
{
	static const struct {
		const char *name, *expected, *values[13];
	} all[] = {
		{ "TUTTI_PORT_RANGE",
		  "expected FIRST-LAST",
		  { "4000", "0-10", "5000-4000", "1-65536", "4000-4010x", "ports", "-5-10",
		    " 4000-4010", "+40-50", "4000-", "-", "4294967297-4294967298" } },
		{ "TUTTI_TCP_BUFFER",
		  "expected bytes",
		  { "many", "4095", "-1", "-8K", "+8K", "1G", "9999999999M", "1025M", "4M4",
		    "K" } },
		{ "TUTTI_TCP_RAILS",
		  "expected the connections between two ranks",
		  { "0", "9", "-1", "two", "2x", " 2" } },
		{ "TUTTI_INTERFACE", "this machine has lo", { "nosuch0" } },
		{ "TUTTI_INTERFACE", "leaves no interface", { "lo,^lo" } },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const char *const *value = all[i].values; *value; value++)
			refused(all[i].name, *value, all[i].expected);
}

TEST(buffers_and_rails_are_taken)
{
	setenv("TUTTI_TCP_BUFFER", "256K", 1);
	setenv("TUTTI_TCP_RAILS", "8", 1);
	assert_int_equal(opened_card().rails, 8);
	unsetenv("TUTTI_TCP_BUFFER");
	unsetenv("TUTTI_TCP_RAILS");
}

static int loopbacks(const struct tcp_card *card)
{
	static const uint8_t six[16] = { [15] = 1 };
	int n = 0;

	for (int i = 0; i < card->count; i++)
		n += card->at[i].family == 4 ? card->at[i].bytes[0] == 127
					     : memcmp(card->at[i].bytes, six, 16) == 0;
	return n;
}

TEST(interfaces_are_chosen_and_left_out_by_name)
{
	const struct tcp_card all = opened_card();

	setenv("TUTTI_INTERFACE", "lo", 1);
	const struct tcp_card lo = opened_card();
	assert_true(lo.count > 0);
	assert_int_equal(loopbacks(&lo), lo.count);
	setenv("TUTTI_INTERFACE", "^nothing,l", 1);
	assert_int_equal(opened_card().count, lo.count);
	if (all.count > lo.count) { /* this machine has another interface */
		setenv("TUTTI_INTERFACE", "^lo", 1);
		const struct tcp_card others = opened_card();
		assert_int_equal(others.count, all.count - lo.count);
		assert_int_equal(loopbacks(&others), 0);
	}
	unsetenv("TUTTI_INTERFACE");
}

TEST(ranks_that_use_no_tcp_do_not_listen)
{
	fabric_open(&fabric, 2, 0);
	fabric.peers[0][1].use = fabric.peers[1][0].use = false;
	fabric_join(&fabric, tt_now() + 20 * SECOND);
	assert_int_equal(fabric.joined[0], TUTTI_OK);
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(fabric_port(&fabric, 1)),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	tcp->progress(fabric.endpoint[0], true);
	close(fd);
	fabric_stop(&fabric);
}
