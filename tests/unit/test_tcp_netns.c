/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes on one host, and in network namespaces of their own that a veth pair joins as a
 * cable joins two hosts. The namespaces and interfaces have no names outside and vanish with the
 * processes. They need root and ip(8); skips without. */
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "log.h"

#define SILENCE_S    2.0
#define STREAM_BYTES ((size_t)4 << 20)
static const struct tt_transport *const tcp = &tt_transport_tcp;

/* `setup` runs in each namespace, with $me and $you the ranks + 1; NULL: both ranks stay where they
 * are. */
struct scenario {
	const char *setup;
	const char *address; /* of rank 1, as rank 0 must name it */
	bool cut;	     /* rank 1 lives on, but nothing of its host gets through any more */
	bool silent;	     /* nothing of rank 0 reaches rank 1, which nobody says */
	bool two;	     /* there is a second cable, which is the one that is cut */
};

static int shell(const char *command)
{
	const int status = system(command);

	return status < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* Both ends are up: the kernel says so a moment later. */
static void wait_for_carrier(const char *cable)
{
	struct ifreq request = { 0 };
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", cable);
	while (!(request.ifr_flags & IFF_RUNNING)) {
		if (ioctl(fd, SIOCGIFFLAGS, &request) < 0)
			break;
		sched_yield();
	}
	close(fd);
}

/* In a child the test library's assertions have no place. */
static void must(bool held, const char *what)
{
	if (held)
		return;
	fprintf(stderr, "in a namespace: %s: %s\n", what, tt_thread_error());
	_exit(1);
}

/* Rank 0 is told in time who does not reach whom; rank 1 waits to be killed. */
static void find_silence(struct tt_endpoint *e, int rank, const struct tt_peer *peers, int channel)
{
	const uint64_t start = tt_now();

	while (rank == 1)
		pause();
	must(tcp->join(e, peers, 2, start + 60 * SECOND) == TUTTI_ERR_PEER_LOST, "join in vain");
	must(tt_now() - start < 20 * SECOND, "be told within seconds");
	must(strstr(tt_thread_error(), "rank 1 cannot be reached from rank 0: 10.77.0.2:") &&
		     strstr(tt_thread_error(), "no reaction to the connection attempt"),
	     "say who does not reach whom");
	tcp->destroy(e);
	must(write(channel, "e", 1) == 1, "say that it has ended");
	_exit(0);
}

static struct tt_endpoint *meet(int rank, int channel, struct tt_peer *peers,
				const struct scenario *s)
{
	const struct tt_endpoint_config config = { .comm_id = 77,
						   .rank = rank,
						   .size = 2,
						   .timeout_s = 20,
						   .silence_s = SILENCE_S,
						   .key = &fabric_key };
	static uint8_t addresses[2][TT_ADDRESS_MAX];
	struct tt_peer *own = &peers[rank], *other = &peers[!rank];
	struct tt_endpoint *e = NULL;

	must(tcp->open(&config, &e) == TUTTI_OK, "open");
	own->rank = rank;
	own->address_length = (uint16_t)tcp->address(e, addresses[rank]);
	must(write(channel, own, sizeof(*own)) == (ssize_t)sizeof(*own) &&
		     write(channel, addresses[rank], TT_ADDRESS_MAX) == TT_ADDRESS_MAX,
	     "tell the address");
	must(recv(channel, other, sizeof(*other), MSG_WAITALL) == (ssize_t)sizeof(*other) &&
		     recv(channel, addresses[!rank], TT_ADDRESS_MAX, MSG_WAITALL) == TT_ADDRESS_MAX,
	     "hear the address");
	own->address = addresses[rank];
	other->address = addresses[!rank];
	other->use = true;
	own->use = false;
	must(tcp->reach(own, other) && tcp->reach(other, own), "reach");
	if (s->silent)
		find_silence(e, rank, peers, channel);
	must(tcp->join(e, peers, 2, tt_now() + 20 * SECOND) == TUTTI_OK, "join");
	return e;
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
static void check_cables(const struct scenario *s)
{
	const uint64_t deadline = tt_now() + 20 * SECOND;
	unsigned long long first, second;

	do {
		first = sent_over("cable");
		second = sent_over("cable2");
		must(tt_now() < deadline, "the bytes go over the cables");
	} while (s->two && first + second < STREAM_BYTES);
	if (s->two && (first < STREAM_BYTES / 3 || second < STREAM_BYTES / 3))
		tt_fail(TUTTI_ERR_SYSTEM, TCP, "%llu and %llu bytes", first, second);
	must(!s->two || (first > STREAM_BYTES / 3 && second > STREAM_BYTES / 3),
	     "both cables are used");
}

/* Sleeps until something happens; the pass between is that of the caller's loop. */
static void wait_for_more(struct tt_endpoint *e, bool *armed)
{
	if (*armed) {
		tcp->doorbell->sleep(e, 1000);
		tcp->doorbell->disarm(e);
	} else {
		tcp->doorbell->arm(e);
	}
	*armed = !*armed;
}

static void stream(struct tt_endpoint *e, struct tt_link *link, int rank)
{
	uint8_t *out = malloc(STREAM_BYTES), *in = malloc(STREAM_BYTES);
	const uint64_t deadline = tt_now() + 20 * SECOND;
	size_t sent = 0, got = 0;
	bool armed = false;

	must(out && in, "allocate");
	for (size_t i = 0; i < STREAM_BYTES; i++)
		out[i] = (uint8_t)(i * 31 + i / 257 + (size_t)rank);
	while (sent < STREAM_BYTES || got < STREAM_BYTES) {
		const struct iovec to = { out + sent, STREAM_BYTES - sent };
		const struct iovec from = { in + got, STREAM_BYTES - got };
		const ssize_t n = sent < STREAM_BYTES ? tcp->write(link, &to, 1) : 0;
		const ssize_t m = tcp->read(link, &from, 1);

		must(n >= 0 && m >= 0, "exchange");
		sent += (size_t)n;
		got += (size_t)m;
		tcp->progress(e, true);
		must(tt_now() < deadline, "exchange in 20 s");
		if (n == 0 && m == 0)
			wait_for_more(e, &armed);
	}
	if (armed)
		tcp->doorbell->disarm(e);
	for (size_t i = 0; i < STREAM_BYTES; i++)
		must(in[i] == (uint8_t)(i * 31 + i / 257 + (size_t)!rank), "the same bytes");
	free(out);
	free(in);
}

/* Both cables have something to carry. */
static void send_more(struct tt_link *link)
{
	static uint8_t bytes[256 << 10];
	const struct iovec more = { bytes, sizeof(bytes) };

	tcp->write(link, &more, 1);
}

static void see_the_fault(struct tt_endpoint *e, struct tt_link *link, const struct scenario *s)
{
	/* the kernel's probes come by the second, and the machine may be busy */
	const uint64_t deadline = tt_now() + (s->cut ? ((uint64_t)SILENCE_S + 5) * SECOND : SECOND);
	char words[64];
	bool armed = false;

	while (!e->fault.result) {
		if (s->two)
			send_more(link);
		tcp->progress(e, true);
		must(tt_now() < deadline, "know of the loss in time");
		wait_for_more(e, &armed);
	}
	if (armed)
		tcp->doorbell->disarm(e);
	snprintf(words, sizeof(words), "%srank 1 at %s:", s->two ? "the way from rank 0 to " : "",
		 s->address);
	must(e->fault.result == TUTTI_ERR_PEER_LOST && e->fault.rank == 1, "blame rank 1");
	must(strncmp(e->fault.text, words, strlen(words)) == 0, e->fault.text);
	must(!s->two || strstr(e->fault.text, "is cut: nothing came back for "), e->fault.text);
	must(!s->cut || s->two || strstr(e->fault.text, "has answered rank 0 nothing for 2 s"),
	     e->fault.text);
}

/* One host: its namespace, then the rank. */
static void live(int rank, int channel, const struct scenario *s)
{
	struct tt_peer peers[2] = { 0 };
	struct tt_endpoint *e;
	struct tt_link *link;
	char byte = 0, command[512];

	must(!s->setup || unshare(CLONE_NEWNET) == 0, "make a network namespace");
	must(write(channel, "n", 1) == 1, "say that the namespace is there");
	must(read(channel, &byte, 1) == 1 && byte == 'c', "hear that the cable is there");
	snprintf(command, sizeof(command), "me=%d; you=%d; ip link set lo up && %s", rank + 1,
		 2 - rank, s->setup ? s->setup : "");
	must(!s->setup || shell(command) == 0, "set up the interfaces");
	must(write(channel, "u", 1) == 1, "say that the interfaces are up");
	must(read(channel, &byte, 1) == 1 && byte == 'g', "hear that both are up");
	if (s->setup)
		wait_for_carrier("cable");
	if (s->two)
		wait_for_carrier("cable2");
	e = meet(rank, channel, peers, s);
	must(tcp->connect(e, !rank, TT_CHANNEL_COLLECTIVE, &link) == TUTTI_OK, "connect");
	stream(e, link, rank);
	check_cables(s);
	if (s->two) { /* silence for want of bytes is none */
		usleep((useconds_t)(SILENCE_S * 1.25e6));
		stream(e, link, rank);
	}
	if (rank == 1) {
		must(write(channel, "d", 1) == 1, "say that all is done");
		must(!s->cut || read(channel, &byte, 1) == 1, "hear that the cable is to be cut");
		must(!s->cut || shell(s->two ? "ip link set cable2 down"
					     : "ip link set cable down") == 0,
		     "cut the cable");
		must(!s->cut || write(channel, "s", 1) == 1, "say that it is cut");
		for (;;)
			pause(); /* until killed */
	}
	must(read(channel, &byte, 1) == 1 && byte == 'k', "hear of the kill");
	see_the_fault(e, link, s);
	tcp->close(link);
	tcp->destroy(e);
	_exit(0);
}

struct host {
	pid_t pid;
	int channel;
};

static struct host start(int rank, const struct scenario *s)
{
	struct host h;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	h.pid = fork();
	assert_true(h.pid >= 0);
	if (h.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives the test */
		close(ends[0]);
		live(rank, ends[1], s);
	}
	close(ends[1]);
	h.channel = ends[0];
	return h;
}

static bool hear(const struct host *h, char what)
{
	char byte = 0;

	return read(h->channel, &byte, 1) == 1 && byte == what;
}

static bool say(const struct host *h, char what)
{
	return send(h->channel, &what, 1, MSG_NOSIGNAL) == 1;
}

static bool pass_address(const struct host *from, const struct host *to)
{
	uint8_t bytes[sizeof(struct tt_peer) + TT_ADDRESS_MAX];

	return recv(from->channel, bytes, sizeof(bytes), MSG_WAITALL) == (ssize_t)sizeof(bytes) &&
	       send(to->channel, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes);
}

static bool lay(const struct host *h, const char *cable)
{
	char command[128];

	snprintf(command, sizeof(command),
		 "ip link add %s netns %d type veth peer name %s netns %d", cable, (int)h[0].pid,
		 cable, (int)h[1].pid);
	return shell(command) == 0;
}

/* The whole story; false as soon as a host does not keep to it. */
static bool told(const struct host *h, const struct scenario *s)
{
	if (!hear(&h[0], 'n') || !hear(&h[1], 'n') || (s->setup && !lay(h, "cable")) ||
	    (s->two && !lay(h, "cable2")))
		return false;
	if (!say(&h[0], 'c') || !say(&h[1], 'c') || !hear(&h[0], 'u') || !hear(&h[1], 'u'))
		return false;
	if (!say(&h[0], 'g') || !say(&h[1], 'g'))
		return false;
	if (!pass_address(&h[0], &h[1]) || !pass_address(&h[1], &h[0]))
		return false;
	if (s->silent)
		return hear(&h[0], 'e');
	if (!hear(&h[1], 'd'))
		return false;
	if (s->cut ? !say(&h[1], 'x') || !hear(&h[1], 's') : kill(h[1].pid, SIGKILL) != 0)
		return false;
	return say(&h[0], 'k');
}

/* Can this process have network namespaces? Says why not. */
static bool namespaces(void)
{
	const char *why = NULL;

	if (geteuid() != 0)
		why = "this is not run by root";
	else if (shell("ip -V >/dev/null 2>&1") != 0)
		why = "there is no ip(8)";
	else if (shell("unshare -n true 2>/dev/null") != 0)
		why = "the kernel gives none";
	if (why)
		print_message("skipped: no network namespaces: %s\n", why);
	return !why;
}

static void play(const struct scenario *s)
{
	struct host h[2];
	int status[2];

	if (s->setup && !namespaces())
		skip();
	h[0] = start(0, s);
	h[1] = start(1, s);
	const bool all = told(h, s);
	if (!all)
		kill(h[0].pid, SIGKILL);
	else if (s->cut) /* rank 1 is not to end before rank 0 has seen what it is to see */
		hear(&h[0], 'e');
	kill(h[1].pid, SIGKILL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(h[i].pid, &status[i], 0), h[i].pid);
		close(h[i].channel);
	}
	assert_true(all);
	assert_true(WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == 0);
	assert_true(WIFSIGNALED(status[1]));
}

TEST(a_kill_on_the_same_host_is_seen)
{
	static const struct scenario s = { NULL, "127.0.0.1" };

	play(&s);
}

TEST(ranks_of_two_hosts_exchange_and_a_kill_is_seen)
{
	static const struct scenario s = {
		"ip addr add 10.77.0.$me/24 dev cable && ip link set cable up",
		"10.77.0.2",
	};

	play(&s);
}

TEST(ipv6_alone_suffices)
{
	static const struct scenario s = {
		"ip addr add fd77::$me/64 dev cable nodad && ip link set cable up",
		"[fd77::2]",
	};

	play(&s);
}

/* Both hosts have a subnet of the same numbers that leads nowhere, and the cable's addresses share
 * none. */
TEST(a_subnet_that_leads_nowhere_is_passed_over)
{
	static const struct scenario s = {
		"ip link add nowhere type veth peer name end && ip link set end up && "
		"ip addr add 10.78.0.$me/24 dev nowhere && "
		"ip link set nowhere up && ip addr add 10.77.0.$me peer 10.77.0.$you dev cable && "
		"ip link set cable up",
		"10.77.0.2",
	};

	play(&s);
}

/* As with the bridge of a container engine. */
TEST(an_address_that_both_hosts_have_is_passed_over)
{
	static const struct scenario s = {
		"ip link add bridge0 type veth peer name end && ip link set end up && "
		"ip addr add 172.17.0.1/16 dev bridge0 && "
		"ip link set bridge0 up && ip addr add 10.77.0.$me/24 dev cable && ip link set "
		"cable up",
		"10.77.0.2",
	};

	play(&s);
}

TEST(a_cut_cable_is_noticed_by_silence)
{
	static const struct scenario s = {
		"ip addr add 10.77.0.$me/24 dev cable && ip link set cable up",
		"10.77.0.2",
		.cut = true,
	};

	play(&s);
}

#define TWO_CABLES                                                                                 \
	"ip addr add 10.77.0.$me/24 dev cable && ip link set cable up && "                         \
	"ip addr add 10.79.0.$me/24 dev cable2 && ip link set cable2 up"

TEST(two_cables_share_the_stream)
{
	static const struct scenario s = { TWO_CABLES, "10.79.0.2", .cut = true, .two = true };

	play(&s);
}

TEST(one_of_two_subnets_may_lead_nowhere)
{
	static const struct scenario s = {
		"ip link add nowhere type veth peer name end && ip link set end up && "
		"ip addr add 10.78.0.$me/24 dev nowhere && ip link set nowhere up && "
		"ip addr add 10.77.0.$me/24 dev cable && ip link set cable up",
		"10.77.0.2",
	};

	play(&s);
}

/* As by a firewall that drops what comes, where another address refuses at once. */
TEST(a_host_that_drops_packets_is_named)
{
	static const struct scenario s = {
		"ip link set cable addrgenmode none && "
		"ip link add nowhere type veth peer name end && "
		"ip link set nowhere addrgenmode none && ip link set end addrgenmode none up && "
		"ip addr add 10.78.0.$me/24 dev nowhere && ip link set nowhere up && "
		"ip route add local 10.78.0.$you/32 dev lo table local && "
		"ip addr add 10.77.0.$me/24 dev cable && ip link set cable up && "
		"{ [ $me = 1 ] || ip route add blackhole 10.77.0.$you/32; }",
		"10.77.0.2",
		.silent = true,
	};

	play(&s);
}
