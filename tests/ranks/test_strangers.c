/* SPDX-License-Identifier: BSD-3-Clause */
/* A thousand connections of strangers hang on to every listening port of a job, those of its
 * store and those of its ranks: scans, garbage, half a hello, whole ones without a proof, a byte
 * now and then. The job goes on with right results, makes new connections and communicators
 * meanwhile, and keeps nothing of them. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS	 4
#define CROWD	 1000 /* strangers at once */
#define ATTACKS	 4000 /* connections in all, at least */
#define PORTS	 8    /* of a rank */
#define FDS_MAX	 4096
#define LARGE	 (1 << 18)
#define GROWTH	 (8 << 10)     /* KiB of memory, beyond what the job itself takes */
#define PATIENCE bound_s(60.0) /* seconds */

struct scene {
	const char *key;
	char store[128]; /* where rank 0 hosts it; the last byte is set last */
	atomic_int hosted;
	atomic_int ports[RANKS][PORTS]; /* where each listens; 0: nowhere */
	atomic_int ready;		/* ranks that have a communicator */
	atomic_int held, attacks;	/* strangers that hang on, and connections made so far */
	atomic_int leave, left;		/* strangers are to go, and have gone */
	int turns; /* of the strangers, each when the job has come a little further: a descriptor
		    * that all have */
};

/* ---------------------------------------------------------------- strangers */

static int knock(int port)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
	    errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

/* What it says first: of a rank's hello or a store's the beginning or all, or neither. */
static void introduce(int fd, unsigned how)
{
	char bytes[256] = { 0 };
	size_t length = 0;

	switch (how % 8) {
	case 0: return;		     /* nothing */
	case 1: length = 200; break; /* zeros */
	case 2: length = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.0\r\n\r\n"); break;
	case 3: memcpy(bytes, "tuttitcp", length = 8); break;
	case 4: memcpy(bytes, "tutti-st", length = 8); break;
	case 5: /* a rank's, of a key and a communicator that may be; what follows is no proof */
		memcpy(bytes, "tuttitcp\2\0\0\0\1\0\0\0", 16);
		length = sizeof(bytes);
		break;
	case 6: /* a store's client's, of no rank and with a key, and then requests */
		memcpy(bytes, "tutti-st\6\0\0\0\1\0\0\0", 16);
		memset(bytes + 24, 0xff, 4);
		memset(bytes + 64, 2, sizeof(bytes) - 64);
		length = sizeof(bytes);
		break;
	case 7: /* the same without the proof */
		memcpy(bytes, "tutti-st\6\0\0\0\1\0\0\0", 16);
		memset(bytes + 24, 0xff, 4);
		length = 64;
		break;
	}
	send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int some_port(const struct scene *scene, unsigned number)
{
	const int store = atoi(strrchr(scene->store, ':') + 1);
	int known[RANKS * PORTS + 1] = { store }, n = 1;

	for (int rank = 0; rank < RANKS; rank++)
		for (int i = 0; i < PORTS; i++)
			if (atomic_load(&scene->ports[rank][i]))
				known[n++] = atomic_load(&scene->ports[rank][i]);
	return known[number % (unsigned)n];
}

/* One of them, a turn: it comes, says a little more, or comes again where it was sent away. */
static void bother(struct scene *scene, int *fd, unsigned *seed)
{
	char scratch[512];
	ssize_t n;

	if (*fd >= 0) {
		n = recv(*fd, scratch, sizeof(scratch), 0);
		if (n < 0 && errno == EAGAIN) {
			if (rand_r(seed) % 16 == 0)
				send(*fd, "t", 1, MSG_NOSIGNAL);
			return;
		}
		if (n > 0)
			return;
		close(*fd);
		*fd = -1;
		atomic_fetch_sub(&scene->held, 1);
	}
	*fd = knock(some_port(scene, (unsigned)rand_r(seed)));
	if (*fd < 0)
		return;
	atomic_fetch_add(&scene->held, 1);
	atomic_fetch_add(&scene->attacks, 1);
	introduce(*fd, (unsigned)rand_r(seed));
}

static void await_turn(const struct scene *scene)
{
	eventfd_t turns;

	while (eventfd_read(scene->turns, &turns) < 0 && errno == EINTR)
		continue;
}

static void give_turn(const struct scene *scene)
{
	eventfd_write(scene->turns, 1);
}

static int be_strangers(struct scene *scene)
{
	static int fds[CROWD];
	tutti_comm_t comm = NULL;
	struct rlimit limit;
	unsigned seed = 1;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	CLAIM(limit.rlim_cur > CROWD + 16, "a thousand descriptors are needed, and %llu can be had",
	      (unsigned long long)limit.rlim_cur);
	for (int i = 0; i < CROWD; i++)
		fds[i] = -1;
	while (!atomic_load(&scene->leave)) {
		await_turn(scene);
		for (int i = 0; i < CROWD && atomic_load(&scene->ready) == RANKS &&
				!atomic_load(&scene->leave);
		     i++)
			bother(scene, &fds[i], &seed);
	}
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	atomic_store(&scene->left, 1);
	return 0;
}

/* ---------------------------------------------------------------- the job */

static int port_of(const struct sockaddr_storage *at, bool *loopback)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;

	if (at->ss_family == AF_INET6) {
		*loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
		return ntohs(v6->sin6_port);
	}
	*loopback = v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
	return ntohs(v4->sin_port);
}

/* Where this process listens; `*open` counts the ports that are not at a loopback address. */
static int publish(struct scene *scene, int rank, int *open)
{
	atomic_int *ports = scene->ports[rank];
	int n = 0;

	*open = 0;
	for (int fd = 0; fd < FDS_MAX; fd++) {
		struct sockaddr_storage at;
		socklen_t length = sizeof(at), size = sizeof(int);
		int listens = 0;
		bool loopback;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens ||
		    getsockname(fd, (struct sockaddr *)&at, &length) < 0 || at.ss_family == AF_UNIX)
			continue;
		const int port = port_of(&at, &loopback);
		*open += !loopback;
		if (n < PORTS)
			atomic_store(&ports[n++], port);
	}
	for (int i = n; i < PORTS; i++)
		atomic_store(&ports[i], 0);
	return n;
}

static int sums_right(tutti_comm_t comm, float *data, size_t count, int round)
{
	const int rank = tutti_comm_rank(comm);

	for (size_t i = 0; i < count; i++)
		data[i] = (float)(rank + round % 7) + (float)(i % 5);
	SUCCEEDS(tutti_all_reduce(comm, data, data, count, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	for (size_t i = 0; i < count; i++)
		CLAIM(data[i] == (float)(RANKS * (RANKS - 1) / 2 + RANKS * (round % 7)) +
					 (float)(RANKS * (i % 5)),
		      "round %d: element %zu of %zu is %g", round, i, count, data[i]);
	return 0;
}

/* Each to the next: the first call makes connections. */
static int passes_on(tutti_comm_t comm, int round)
{
	const int rank = tutti_comm_rank(comm), out = rank * 1000 + round;
	int in = -1;

	SUCCEEDS(tutti_group_begin(comm));
	SUCCEEDS(tutti_send(comm, &out, 1, TUTTI_INT32, (rank + 1) % RANKS, NULL));
	SUCCEEDS(tutti_recv(comm, &in, 1, TUTTI_INT32, (rank + RANKS - 1) % RANKS, NULL));
	SUCCEEDS(tutti_group_end(comm, NULL));
	CLAIM(in == (rank + RANKS - 1) % RANKS * 1000 + round, "received %d in round %d", in,
	      round);
	return 0;
}

/* Rank 0's answer, for all. */
static int agree(tutti_comm_t comm, int *answer)
{
	SUCCEEDS(tutti_broadcast(comm, answer, answer, 1, TUTTI_INT32, 0, NULL));
	return 0;
}

enum { GO_ON = 1, CROWDED = 2 }; /* what rank 0 finds */

static int work(tutti_comm_t comm, struct scene *scene, tutti_store_t store, float *data, int round,
		int found)
{
	const int rank = tutti_comm_rank(comm);
	tutti_comm_t another = NULL;
	int open;

	if (sums_right(comm, data, 1, round) || sums_right(comm, data, LARGE, round))
		return 1;
	/* not before they are there: new connections, and new communicators with ports of their
	 * own */
	if (found & CROWDED && passes_on(comm, round))
		return 1;
	if (round % 8 != 7)
		return 0;
	SUCCEEDS(tutti_comm_create(store, rank, RANKS, NULL, &another));
	publish(scene, rank, &open);
	const int failed = sums_right(another, data, 1, round) || passes_on(another, round);
	tutti_comm_destroy(another);
	return failed;
}

static int endure(tutti_comm_t comm, struct scene *scene, tutti_store_t store, float *data)
{
	int found = GO_ON, crowded = 0;

	for (int round = 0; found & GO_ON; round++) {
		if (work(comm, scene, store, data, round, found))
			return 1;
		if (tutti_comm_rank(comm) == 0)
			give_turn(scene);
		crowded |= atomic_load(&scene->held) >= CROWD / 2 ? CROWDED : 0;
		found = round < 16 || !crowded || atomic_load(&scene->attacks) < ATTACKS
				? GO_ON | crowded
				: 0;
		if (agree(comm, &found))
			return 1;
	}
	return 0;
}

static void leave(struct scene *scene)
{
	atomic_store(&scene->leave, 1);
	give_turn(scene);
}

/* What strangers left is gone soon after them. */
static int nothing_is_left(tutti_comm_t comm, struct scene *scene, int descriptors)
{
	const double deadline = seconds_now() + PATIENCE;
	int go_on = 1, last = 0;

	leave(scene);
	while (go_on) {
		int mine;

		last = open_descriptors();
		mine = last > descriptors || !atomic_load(&scene->left);
		CLAIM(!mine || seconds_now() < deadline, "%d descriptors before, %d after",
		      descriptors, last);
		SUCCEEDS(tutti_all_reduce(comm, &mine, &go_on, 1, TUTTI_INT32, TUTTI_MAX, NULL));
	}
	return 0;
}

static int warm_up(tutti_comm_t comm, struct scene *scene, tutti_store_t store, float *data)
{
	for (int round = 0; round < 3; round++)
		if (sums_right(comm, data, LARGE, round) || sums_right(comm, data, 1, round))
			return 1;
	return work(comm, scene, store, data, 7, 0);
}

/* At a store that rank 0 hosts. */
static int meet(int rank, struct scene *scene, tutti_store_t *store, tutti_comm_t *out)
{
	const tutti_comm_t comm = NULL;

	if (rank == 0) {
		SUCCEEDS(tutti_store_open("tcp://127.0.0.1:0", 1, 0, store));
		snprintf(scene->store, sizeof(scene->store), "%s", tutti_store_address(*store));
		atomic_store(&scene->hosted, 1);
	} else {
		await_count(&scene->hosted, 1);
		SUCCEEDS(tutti_store_open(scene->store, 0, 0, store));
	}
	SUCCEEDS(tutti_comm_create(*store, rank, RANKS, NULL, out));
	return 0;
}

static int be_rank(int rank, struct scene *scene)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;
	float *data = malloc(LARGE * sizeof(*data));
	int open, ports;

	CLAIM(data != NULL, "no memory");
	if (meet(rank, scene, &store, &comm) || warm_up(comm, scene, store, data))
		return 1;
	ports = publish(scene, rank, &open);
	CLAIM(rank == 0 || strcmp(transport_chosen, "shm") == 0 || ports > 0,
	      "this rank listens nowhere");
	CLAIM(scene->key || open == 0, "%d of %d ports are not at the loopback interface", open,
	      ports);
	const int descriptors = open_descriptors();
	const long memory = memory_in_use();
	atomic_fetch_add(&scene->ready, 1);
	if (endure(comm, scene, store, data) ||
	    nothing_is_left(comm, scene, descriptors + 2 * (RANKS - 1)))
		return 1;
	CLAIM(memory_in_use() - memory < GROWTH, "%ld KiB of memory before, %ld after", memory,
	      memory_in_use());
	SUCCEEDS(tutti_barrier(comm, NULL));
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	free(data);
	return 0;
}

static int play(int rank, void *argument)
{
	struct scene *scene = argument;

	if (scene->key)
		setenv("TUTTI_KEY", scene->key, 1);
	if (rank == RANKS)
		return be_strangers(scene);
	const int failed = be_rank(rank, scene);
	if (failed)
		leave(scene);
	return failed;
}

static void endures(const char *key)
{
	struct scene *scene = shared_memory(sizeof(*scene));

	scene->key = key;
	scene->turns = eventfd(0, EFD_CLOEXEC);
	assert_true(scene->turns >= 0);
	HOLDS(.ranks = RANKS + 1, .whole = play, .argument = scene, .limit_s = 2 * PATIENCE);
	print_message("%d connections of strangers\n", atomic_load(&scene->attacks));
	close(scene->turns);
	munmap(scene, sizeof(*scene));
}

/* ---------------------------------------------------------------- few descriptors */

#define SILENT 64 /* strangers at every port, of whom none says a word */
#define SPARE  20 /* descriptors of a rank beside those that it has */

static int port_at(const struct scene *scene, int i)
{
	return i == 0 ? atoi(strrchr(scene->store, ':') + 1)
		      : atomic_load(&scene->ports[(i - 1) / PORTS][(i - 1) % PORTS]);
}

/* They come again where they are sent away. */
static int be_silent_strangers(struct scene *scene)
{
	static int fds[RANKS * PORTS + 1][SILENT];
	char byte;

	await_count(&scene->ready, RANKS);
	memset(fds, -1, sizeof(fds));
	while (!atomic_load(&scene->leave)) {
		for (int i = 0; i <= RANKS * PORTS; i++) {
			for (int k = 0; port_at(scene, i) && k < SILENT; k++) {
				if (fds[i][k] >= 0 &&
				    (recv(fds[i][k], &byte, 1, 0) >= 0 || errno != EAGAIN)) {
					close(fds[i][k]);
					fds[i][k] = -1;
				}
				if (fds[i][k] < 0)
					fds[i][k] = knock(port_at(scene, i));
			}
		}
		atomic_store(&scene->held, 1);
		look_again();
	}
	return 0;
}

/* It dials its peers when they are there. */
static int goes_on_beside_them(int rank, struct scene *scene)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;
	float data[1];
	int open;

	if (meet(rank, scene, &store, &comm) || sums_right(comm, data, 1, 0))
		return 1;
	publish(scene, rank, &open);
	allow_descriptors(SPARE);
	atomic_fetch_add(&scene->ready, 1);
	await_count(&scene->held, 1);
	for (int round = 0; round < 50; round++)
		if (sums_right(comm, data, 1, round))
			return 1;
	if (passes_on(comm, 1))
		return 1;
	leave(scene);
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	return 0;
}

static int play_silence(int rank, void *argument)
{
	struct scene *scene = argument;

	if (rank == RANKS)
		return be_silent_strangers(scene);
	const int failed = goes_on_beside_them(rank, scene);
	leave(scene);
	return failed;
}

TEST(strangers_leave_ranks_the_descriptors_that_they_need)
{
	struct scene *scene = shared_memory(sizeof(*scene));

	scene->turns = eventfd(0, EFD_CLOEXEC);
	HOLDS(.ranks = RANKS + 1, .whole = play_silence, .argument = scene);
	close(scene->turns);
	munmap(scene, sizeof(*scene));
}

TEST(a_job_with_a_key_endures_a_thousand_strangers)
{
	endures("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
}

TEST(a_job_without_a_key_endures_a_thousand_strangers)
{
	endures(NULL);
}
