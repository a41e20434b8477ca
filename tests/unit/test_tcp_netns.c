/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks in network namespaces of their own that a veth pair, or two, joins as cables join two
 * hosts. The namespaces and interfaces have no names outside and vanish with the process. They need
 * root and ip(8); skips without. */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"
#include "log.h"

#define SILENCE_S    2.0
#define SLEEP_MS     100 /* as in progress.c */
#define STREAM_BYTES ((size_t)4 << 20)

static int home, hosts[2]; /* the namespaces */

static int shell(const char *command)
{
	const int status = system(command);

	return status < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* This thread's sockets, and programs, are of that host. */
static void enter(int host)
{
	if (setns(hosts[host], CLONE_NEWNET) < 0)
		abort();
}

static int make_namespace(void)
{
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Both ends are up: the kernel says so a moment later. */
static void wait_for_carrier(const char *cable)
{
	struct ifreq request = { 0 };
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", cable);
	while (!(request.ifr_flags & IFF_RUNNING)) {
		assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
		sched_yield();
	}
	close(fd);
}

/* From host 0 to the other. */
static void lay(const char *cable)
{
	char command[128];

	enter(0);
	snprintf(command, sizeof(command),
		 "ip link add %s type veth peer name %s netns /proc/%d/fd/%d", cable, cable,
		 (int)getpid(), hosts[1]);
	assert_int_equal(shell(command), 0);
}

/* `setup` runs on each host, with $me and $you the ranks + 1; then the endpoints are opened. */
static void begin(const char *setup, bool two)
{
	char command[640];

	need_namespaces();
	home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 2; i++)
		hosts[i] = make_namespace();
	lay("cable");
	if (two)
		lay("cable2");
	for (int i = 0; i < 2; i++) {
		enter(i);
		snprintf(command, sizeof(command), "me=%d; you=%d; ip link set lo up && %s", i + 1,
			 2 - i, setup);
		assert_int_equal(shell(command), 0);
	}
	for (int i = 0; i < 2; i++) {
		enter(i);
		wait_for_carrier("cable");
		if (two)
			wait_for_carrier("cable2");
	}
	fabric_enter = enter;
	fabric_open(&fabric, 2, 0);
	for (int i = 0; i < 2; i++) {
		fabric.peers[0][i].host = fabric.peers[1][i].host = i;
		tcp_endpoint_of(fabric.endpoint[i])->silence_s = SILENCE_S;
	}
	assert_true(tcp->reach(&fabric.peers[0][0], &fabric.peers[0][1]));
	enter(0); /* which dials */
}

static int end(void **state)
{
	no_ranks(state);
	if (home) {
		assert_int_equal(setns(home, CLONE_NEWNET), 0);
		close(home);
		close(hosts[0]);
		close(hosts[1]);
	}
	home = 0;
	return 0;
}

/* In both directions. */
static void exchange(void)
{
	static uint8_t out[STREAM_BYTES], in[2][STREAM_BYTES];
	const uint64_t deadline = tt_now() + 20 * SECOND;
	size_t sent[2] = { 0, 0 }, got[2] = { 0, 0 };

	for (size_t i = 0; i < STREAM_BYTES; i++)
		out[i] = (uint8_t)(i * 31 + i / 257);
	while (got[0] < STREAM_BYTES || got[1] < STREAM_BYTES) {
		assert_true(tt_now() < deadline);
		for (int i = 0; i < 2; i++) {
			const ssize_t n =
				fabric_put(&fabric, i, out + sent[i], STREAM_BYTES - sent[i]);
			const ssize_t m =
				fabric_get(&fabric, i, in[i] + got[i], STREAM_BYTES - got[i]);

			assert_true(n >= 0 && m >= 0);
			sent[i] += (size_t)n;
			got[i] += (size_t)m;
			tcp->progress(fabric.endpoint[i], true);
		}
	}
	assert_memory_equal(in[0], out, STREAM_BYTES);
	assert_memory_equal(in[1], out, STREAM_BYTES);
}

static void meet(void)
{
	fabric_meet(&fabric);
	fabric_connect(&fabric);
	exchange();
}

/* Bytes that this host has sent over an interface. */
static unsigned long long sent_over(const char *interface)
{
	FILE *file = fopen("/proc/thread-self/net/dev", "re");
	char line[512], name[32];
	unsigned long long bytes = 0, sent;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " %31[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu", name, &sent) ==
			    2 &&
		    strcmp(name, interface) == 0)
			bytes = sent;
	if (file)
		fclose(file);
	return bytes;
}

/* Half of the stream over each cable. The kernel may still be sending. */
static void check_cables(void)
{
	const uint64_t deadline = tt_now() + 20 * SECOND;
	unsigned long long first, second;

	do {
		first = sent_over("cable");
		second = sent_over("cable2");
		assert_true(tt_now() < deadline);
	} while (first + second < STREAM_BYTES);
	if (first < STREAM_BYTES / 3 || second < STREAM_BYTES / 3)
		fail_msg("%llu and %llu bytes", first, second);
}

/* Rank 0 goes on sending: all cables have something to carry. */
static void expect_loss(double seconds, const char *begins)
{
	static const uint8_t more[256 << 10];
	const uint64_t deadline = tt_now() + (uint64_t)(seconds * 1e9);
	const struct tt_fault *fault = &fabric.endpoint[0]->fault;

	while (!fault->result) {
		fabric_put(&fabric, 0, more, sizeof(more));
		tcp->progress(fabric.endpoint[0], true);
		assert_true(tt_now() < deadline);
	}
	assert_int_equal(fault->result, TUTTI_ERR_PEER_LOST);
	assert_int_equal(fault->rank, 1);
	if (strncmp(fault->text, begins, strlen(begins)) != 0)
		fail_msg("\"%s\", expected \"%s …\"", fault->text, begins);
}

/* Both hosts have a subnet of the same numbers that leads nowhere. */
#define NOWHERE                                                                                    \
	"ip link add nowhere type veth peer name end && ip link set end up && "                    \
	"ip addr add 10.78.0.$me/24 dev nowhere && ip link set nowhere up && "

/* The cable's addresses share none. There is an address that both hosts have, too, as with the
 * bridge of a container engine. */
TEST_WITH(subnets_that_lead_nowhere_are_passed_over, NULL, end)
{
	begin(NOWHERE "ip link add bridge0 type veth peer name end0 && ip link set end0 up && "
		      "ip addr add 172.17.0.1/16 dev bridge0 && ip link set bridge0 up && "
		      "ip addr add 10.77.0.$me peer 10.77.0.$you dev cable && ip link set cable up",
	      false);
	meet();
	fabric_die(&fabric, 1);
	expect_loss(1, "rank 1 at 10.77.0.2:");
}

/* The way there is not waited for until the kernel gives it up, by ranks that sleep either. */
TEST_WITH(one_of_two_subnets_may_lead_nowhere, NULL, end)
{
	begin(NOWHERE "ip neigh add 10.78.0.$you lladdr 02:00:00:00:00:01 dev nowhere && "
		      "ip addr add 10.77.0.$me/24 dev cable && ip link set cable up",
	      false);
	fabric_meet(&fabric);
	fabric_ask(&fabric, 0);
	fabric_ask(&fabric, 1);
	while (!tcp->ready(fabric.ends[0])) {
		tcp->progress(fabric.endpoint[0], true);
		tcp->progress(fabric.endpoint[1], true);
		tcp->doorbell->sleep(fabric.endpoint[0], SLEEP_MS);
	}
	assert_int_not_equal(tcp_endpoint_of(fabric.endpoint[0])->peers[1].dead_ways, 0);
	exchange();
	fabric_die(&fabric, 1);
	expect_loss(1, "rank 1 at 10.77.0.2:");
}

TEST_WITH(two_cables_share_the_stream_and_the_cut_one_is_named, NULL, end)
{
	begin("ip addr add 10.77.0.$me/24 dev cable && ip link set cable up && "
	      "ip addr add 10.79.0.$me/24 dev cable2 && ip link set cable2 up",
	      true);
	meet();
	check_cables();
	usleep((useconds_t)(SILENCE_S * 1.25e6)); /* silence for want of bytes is none */
	exchange();
	enter(1);
	assert_int_equal(shell("ip link set cable2 down"), 0);
	enter(0);
	/* the kernel's probes come by the second, and the machine may be busy */
	expect_loss(SILENCE_S + 5, "the way from rank 0 to rank 1 at 10.79.0.2:");
	assert_says(fabric.endpoint[0]->fault.text, "is cut: nothing came back for ");
}

/* As by a firewall that drops what comes, where another address refuses at once. Rank 0 is told in
 * time who does not reach whom. */
TEST_WITH(a_host_that_drops_packets_is_named, NULL, end)
{
	begin("ip link set cable addrgenmode none && "
	      "ip link add nowhere type veth peer name end && "
	      "ip link set nowhere addrgenmode none && ip link set end addrgenmode none up && "
	      "ip addr add 10.78.0.$me/24 dev nowhere && ip link set nowhere up && "
	      "ip route add local 10.78.0.$you/32 dev lo table local && "
	      "ip addr add 10.77.0.$me/24 dev cable && ip link set cable up && "
	      "{ [ $me = 1 ] || ip route add blackhole 10.77.0.$you/32; }",
	      false);
	const uint64_t start = tt_now();

	assert_int_equal(tcp->join(fabric.endpoint[0], fabric.peers[0], 2, start + 60 * SECOND),
			 TUTTI_ERR_PEER_LOST);
	assert_true(tt_now() - start < 20 * SECOND);
	assert_says(tt_thread_error(), "rank 1 cannot be reached from rank 0: 10.77.0.2:");
	assert_says(tt_thread_error(), "no reaction to the connection attempt");
}
