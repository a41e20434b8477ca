/* SPDX-License-Identifier: BSD-3-Clause */
/* What somebody on the path sees of a job over TCP: with TUTTI_ENCRYPT nothing of what ranks
 * send, nor of what they keep in the store. All packets of a network namespace's loopback
 * interface are captured, which takes root; skips without. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define SECRET "what the ranks say to each other"
#define KEPT   "what a rank keeps in the store"
#define LENGTH (64 * 1024)
#define FRAME  70000

/* ---- the job */

static int say_it(tutti_comm_t comm, void *argument)
{
	static char send[LENGTH], recv[LENGTH];
	const char *address = argument;
	tutti_store_t store;
	size_t length = sizeof(KEPT);
	char kept[sizeof(KEPT)];

	for (size_t at = 0; at + sizeof(SECRET) <= LENGTH; at += sizeof(SECRET))
		memcpy(send + at, SECRET, sizeof(SECRET));
	SUCCEEDS(tutti_broadcast(comm, send, recv, LENGTH, TUTTI_UINT8, 0, NULL));
	CLAIM(memcmp(send, recv, LENGTH) == 0, "other bytes came");
	SUCCEEDS(tutti_store_open(address, tutti_comm_rank(comm) == 0, 20, &store));
	if (tutti_comm_rank(comm) == 0)
		SUCCEEDS(tutti_store_set(store, "key", KEPT, sizeof(KEPT)));
	SUCCEEDS(tutti_store_get(store, "key", kept, &length, 20));
	CLAIM(strcmp(kept, KEPT) == 0, "another value came");
	SUCCEEDS(tutti_barrier(comm, NULL)); /* the host stays until all have come */
	tutti_store_close(store);
	return 0;
}

/* ---- the namespace, and the capture */

static bool loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;

	close(fd);
	return up;
}

static int open_capture(void)
{
	const struct sockaddr_ll lo = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_ALL),
					.sll_ifindex = (int)if_nametoindex("lo") };
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)),
		  capacity = 64 << 20;

	if (fd < 0 || bind(fd, (const struct sockaddr *)&lo, sizeof(lo)) < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &capacity, sizeof(capacity));
	return fd;
}

struct sight {
	long frames;
	bool secret, kept;
};

/* All that was captured: the socket's buffer holds more than the job sends. */
static struct sight look_through(int capture)
{
	static char frame[FRAME];
	struct sight sight = { 0 };
	ssize_t n;

	while ((n = recv(capture, frame, sizeof(frame), MSG_DONTWAIT)) > 0) {
		sight.frames++;
		sight.secret |= memmem(frame, (size_t)n, SECRET, strlen(SECRET)) != NULL;
		sight.kept |= memmem(frame, (size_t)n, KEPT, strlen(KEPT)) != NULL;
	}
	return sight;
}

static struct sight capture_job(const char *encrypt)
{
	static char address[] = "tcp://127.0.0.1:29871";
	const char *const env[] = {
		"TUTTI_TRANSPORT=tcp", encrypt,
		"TUTTI_KEY=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", NULL
	};
	const int capture = open_capture();

	assert_true(capture >= 0);
	HOLDS(.ranks = 3, .env = env, .body = say_it, .argument = address);
	const struct sight sight = look_through(capture);
	close(capture);
	assert_true(sight.frames > 20);
	return sight;
}

TEST(a_plain_job_is_seen)
{
	const struct sight sight = capture_job("TUTTI_ENCRYPT=0");

	(void)state;
	assert_true(sight.secret); /* or the capture would show nothing */
	assert_true(sight.kept);
}

TEST(of_an_encrypted_job_nothing_is_seen)
{
	const struct sight sight = capture_job("TUTTI_ENCRYPT=1");

	(void)state;
	assert_false(sight.secret);
	assert_false(sight.kept);
}

int main(void)
{
	if (unshare(CLONE_NEWNET) < 0 || !loopback_up()) {
		printf("no network namespace of one's own: %s\n", strerror(errno));
		return 77;
	}
	return run_claims(NULL, NULL);
}
