/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host of a store bears from those who connect: garbage, silence, half a message, leaving
 * at any point. */
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tutti_asserts.h"
#include "test_store_scene.h"
#include "test_shortage.h"

/* ---------------------------------------------------------------- bad clients */

TEST_WITH(drops_who_greets_wrongly, open_host, close_host)
{
	static const struct {
		char bytes[20]; /* of a hello; zeros follow */
		size_t length;	/* that is sent */
	} hellos[] = { { "GET /", 5 },
		       { "tutti-st\x05", 10 }, /* the version before */
		       { "tutti-st\x07", 10 },
		       { "tutti-st\x06\0\0\0\x01", TT_HELLO_BYTES }, /* has a key */
		       { "tutti-st\x06\0\0\0\x02", TT_HELLO_BYTES },
		       { "tutti-st\x06\0\x01", TT_HELLO_BYTES },
		       { "tutti-st\x06\0\0\0\0\0\0\0\x01", TT_HELLO_BYTES } };
	uint8_t hello[TT_HELLO_BYTES];

	for (size_t i = 0; i < sizeof(hellos) / sizeof(hellos[0]); i++) {
		const int fd = raw_connect(port_of(*state));

		memset(hello, 0, sizeof(hello));
		memcpy(hello, hellos[i].bytes, sizeof(hellos[i].bytes));
		raw_send(fd, hello, hellos[i].length);
		expect_closed(fd);
	}
}

TEST_WITH(drops_who_sends_no_request, open_host, close_host)
{
	static const uint8_t bad[][TT_WIRE_HEADER] = {
		{ 0 },
		{ 9, 1 },
		{ TT_WIRE_SET, 0 },		       /* no key */
		{ TT_WIRE_SET, 1, 1 },		       /* a status */
		{ TT_WIRE_SET, 1, 0, 1 },	       /* not zero */
		{ TT_WIRE_SET, 1, 0, 0, 1, 0, 16, 0 }, /* 1 MiB and a byte */
		{ TT_WIRE_SET, 1, 0, 0, 255, 255, 255, 255 },
		{ TT_WIRE_SET, 1, 0, 0, 0, 0, 0, 0, 1 }, /* a timeout */
		{ TT_WIRE_GET, 1, 0, 0, 1 },		 /* a value */
		{ TT_WIRE_GET, 0 },
		{ TT_WIRE_END, 1, 0, 0, 3 },	      /* no result */
		{ TT_WIRE_END, 1, 0, 0, 1, 2, 0, 0 }, /* too long an error message */
		{ TT_WIRE_ATTEND, 0, 0, 0, 5 },
		{ TT_WIRE_ATTEND, 1 }, /* no word */
		{ TT_WIRE_LEAVE, 1 },  /* a key */
		{ TT_WIRE_LEAVE, 0, 0, 0, 1 },
		{ TT_WIRE_ANSWER },
		{ TT_WIRE_NEWS, 0, TT_WIRE_CLOSED },
	};
	uint8_t zero_in_key[TT_WIRE_HEADER + 3] = { TT_WIRE_GET, 3 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const int fd = raw_client(*state);

		raw_send(fd, bad[i], TT_WIRE_HEADER);
		expect_closed(fd);
	}
	const int fd = raw_client(*state);

	memcpy(zero_in_key + TT_WIRE_HEADER, "a\0b", 3);
	raw_send(fd, zero_in_key, sizeof(zero_in_key));
	expect_closed(fd);
}

TEST_WITH(drops_who_sends_while_it_waits, open_host, close_host)
{
	const int fd = raw_client(*state);

	raw_get(fd, "never", PATIENCE_MS);
	raw_get(fd, "never", PATIENCE_MS);
	expect_closed(fd);
}

/* Connections that stop anywhere: before, in and after each part of a set. */
TEST_WITH(half_open_connections_disturb_nobody, open_host, close_host)
{
	enum { GREETING = TT_HELLO_BYTES + TT_CONFIRM_BYTES };
	uint8_t message[GREETING + TT_WIRE_HEADER + 8] = { 0 };
	int fds[sizeof(message)];

	raw_put_hello(false, message);
	put_message(message + GREETING, TT_WIRE_SET, "key", "value", 5);
	for (size_t i = 0; i < sizeof(message); i++) {
		fds[i] = raw_connect(port_of(*state));
		raw_send(fds[i], message, i);
	}
	check_serves(*state);
	for (size_t i = 0; i < sizeof(message); i++)
		close(fds[i]);
}

TEST_WITH(who_leaves_while_waiting_is_forgotten, open_host, close_host)
{
	int fds[4];

	for (int i = 0; i < 4; i++) {
		fds[i] = raw_client(*state);
		raw_get(fds[i], "late", PATIENCE_MS);
	}
	close(fds[1]);
	close(fds[3]);
	check_serves(*state);
	assert_ok(tutti_store_set(*state, "late", "", 0));
	expect_answer(fds[0], TT_WIRE_DONE);
	expect_answer(fds[2], TT_WIRE_DONE);
	close(fds[0]);
	close(fds[2]);
}

TEST_WITH(waits_of_many_clients_end_in_their_time, open_host, close_host)
{
	int fds[32];

	for (int i = 0; i < 32; i++) {
		fds[i] = raw_client(*state);
		raw_get(fds[i], "never", (uint32_t)(1 + (i * 7) % 32));
	}
	for (int i = 0; i < 32; i++) {
		expect_answer(fds[i], TT_WIRE_MISSING);
		close(fds[i]);
	}
}

/* A reader that does not read keeps its answer waiting, not the others. A unix socket holds much
 * less than the value. */
TEST(a_slow_reader_holds_up_nobody)
{
	static uint8_t value[1 << 20];
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char address[64];
	tutti_store_t host;

	const int n =
		snprintf(address, sizeof(address), "unix:tutti-test-slow-%ld", (long)getpid()) - 5;
	memcpy(at.sun_path + 1, address + 5, (size_t)n);
	assert_ok(tutti_store_open(address, 1, PATIENCE_S, &host));
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)),
			 0);
	raw_greet(fd);
	memset(value, 7, sizeof(value));
	assert_ok(tutti_store_set(host, "big", value, sizeof(value)));
	for (int i = 0; i < 4; i++) {
		raw_get(fd, "big", 0);
		check_serves(host);
		expect_answer(fd, TT_WIRE_DONE);
		memset(value, 0, sizeof(value));
		raw_receive(fd, value, sizeof(value));
		assert_int_equal(value[sizeof(value) - 1], 7);
	}
	raw_get(fd, "big", 0);
	check_serves(host);
	close(fd);
	check_serves(host);
	tutti_store_close(host);
}

/* The host answers two requests one after the other: when it answers the second, it has looked
 * for newcomers since it let this one in. */
static void check_in(int fd)
{
	for (int i = 0; i < 2; i++) {
		raw_get(fd, "missing", 0);
		expect_answer(fd, TT_WIRE_MISSING);
	}
}

/* It was answered, but says no more itself. */
static int silent_client(tutti_store_t host)
{
	const int fd = raw_connect(port_of(host));

	raw_hello(fd);
	return fd;
}

/* First a stranger's place, then the one that the host keeps back, then none until one is free. */
TEST_WITH(room_is_made_for_who_waits_as_long_as_there_is_some, open_host, close_host)
{
	const int silent = silent_client(*state);
	struct shortage shortage;
	int fds[3];

	for (int i = 0; i < 3; i++)
		fds[i] = raw_socket();
	shortage_begin(&shortage);
	raw_call(fds[0], port_of(*state));
	expect_end(silent);
	for (int i = 0; i < 2; i++) {
		raw_greet(fds[i]);
		check_in(fds[i]);
		raw_call(fds[i + 1], port_of(*state));
	}
	check_in(fds[0]);
	check_in(fds[1]);
	shortage_end(&shortage);
	check_serves(*state);
	raw_greet(fds[2]);
	check_in(fds[2]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(silent);
}

/* They have a quarter of the descriptors that are left: the first make room for the last. A socket
 * that the test closes meanwhile would leave the host a low one, where there is no shortage. */
TEST_WITH(strangers_leave_the_host_descriptors, open_host, close_host)
{
	struct shortage shortage;
	int fds[SHORTAGE_FEW / 2];
	const int count = SHORTAGE_FEW / 2;

	for (int i = 0; i < count; i++)
		fds[i] = raw_socket();
	shortage_begin_with_few(&shortage);
	for (int i = 0; i < count; i++)
		raw_call(fds[i], port_of(*state));
	for (int i = 0; i < count - SHORTAGE_FEW / 4; i++)
		expect_end(fds[i]);
	shortage_end(&shortage);
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

/* How often threads but this one have gone to sleep. */
static long sleeps_of_others(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return all.ru_nvcsw - own.ru_nvcsw;
}

/* A child that did not pass through the handlers of fork() holds the host's end of a connection
 * that the host has dropped: the host neither looks at what it freed nor is kept busy. */
TEST_WITH(a_child_that_holds_a_dropped_connection_disturbs_nobody, open_host, close_host)
{
	const int fd = raw_client(*state);
	char garbage[64];
	int ends[2];

	check_serves(*state);
	assert_int_equal(pipe(ends), 0);
	const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], garbage, 1) < 0);
	}
	close(ends[0]);
	memset(garbage, 'x', sizeof(garbage));
	raw_send(fd, garbage, sizeof(garbage));
	expect_closed(fd);
	check_serves(*state);
	const long before = sleeps_of_others();
	const uint64_t until = tt_now() + PATIENCE_S * 1000000000ull;
	check_serves(*state);
	/* one that is kept busy never does, another does when nothing comes any more */
	while (sleeps_of_others() == before && tt_now() < until)
		sched_yield();
	assert_int_not_equal(sleeps_of_others(), before);
	close(ends[1]);
	await_exit((pid_t)child, 0);
}

TEST_WITH(silent_connections_do_not_hold_up_closing, open_host, NULL)
{
	/* never says hello: close_host() asserts that this takes no 10 s */
	const int fd = raw_connect(port_of(*state));

	close_host(state);
	close(fd);
}
