/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that dies in tutti_comm_shrink() when it has said that it has joined, and others cannot
 * join without it: its word and theirs are in one decision, after which the survivors begin
 * again by themselves. And one that dies while others join what was split off.
 *
 * Over TCP, where what ranks send and receive can be held up. 4 keeps 5 waiting, so that neither
 * joins; 1 has joined, says so, and dies as soon as 0 has read it, which decides when it has
 * read the others as well, and looks for the dead before. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

enum { RANKS = 6, LEADER = 0, VICTIM = 1, DIALS = 4, WAITS = 5 };

/* Where things are in the messages of agree.h and handshake.h. */
enum { AT_MAGIC = 0, AT_KIND = 4, AT_INSTANCE = 8, HEAD_BYTES = 32 };
enum { AT_PURPOSE = 10, AT_TO = 28, HELLO_BYTES = 64 };
enum { MAGIC = 0x61677265, HERE = 1, LAST_AGREEMENT = 3, FOR_CONTROL = 1 };

struct stage {
	atomic_int joined; /* the first communicator */
	atomic_int read;   /* the leader has what the victim said … */
	atomic_int dies;
	atomic_int said;     /* … and these ranks, but for those two, what they say */
	atomic_int together; /* the leader goes on with both */
	atomic_int held;     /* a call, … */
	atomic_int told;     /* … until the rank that waits for it gives up */
};

/* Of the thread that shrinks alone: there is one more that passes on news. */
static _Thread_local struct {
	struct stage *stage; /* NULL: not yet */
	int rank;
	struct stage *pause; /* the leader's, at its first call, until all others have said whether
			      * they have joined */
	struct stage *hold;  /* the calls of this rank */
	int said;	     /* of the words of the last agreement */
	int heard_from;	     /* descriptor; 0: nothing yet */
} self;

static uint32_t number_at(const void *bytes, size_t at)
{
	uint32_t number;

	memcpy(&number, (const char *)bytes + at, sizeof(number));
	return number;
}

/* "Here I am, and have joined", or have not. */
static bool is_last_word(const void *bytes, size_t length)
{
	return length >= HEAD_BYTES && number_at(bytes, AT_MAGIC) == MAGIC &&
	       number_at(bytes, AT_KIND) == HERE && number_at(bytes, AT_INSTANCE) == LAST_AGREEMENT;
}

static bool is_call(const void *bytes, size_t length)
{
	return length == HELLO_BYTES && memcmp(bytes, "tuttitcp", 8) == 0 &&
	       ((const uint8_t *)bytes)[AT_PURPOSE] == FOR_CONTROL;
}

static void last_word_is_said(struct stage *stage)
{
	self.said++;
	if (self.rank == VICTIM && self.said == RANKS - 1) {
		await_count(&stage->read, 1);
		atomic_store(&stage->dies, 1);
		raise(SIGKILL);
	}
	/* to the leader, the lowest */
	if (self.rank != LEADER && self.rank != VICTIM && self.said == 1)
		atomic_fetch_add(&stage->said, 1);
}

/* A program's own definitions come before those of the C library. */
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	struct stage *stage = self.stage;
	const bool last_word = stage && is_last_word(bytes, n);

	if (self.pause && is_last_word(bytes, n) && self.said++ == 0)
		atomic_fetch_add(&self.pause->said, 1);
	if (self.pause && self.rank == LEADER && is_call(bytes, n))
		await_count(&self.pause->said, RANKS - 1);
	if (stage && self.rank == DIALS && is_call(bytes, n) && number_at(bytes, AT_TO) == WAITS &&
	    !atomic_load(&stage->dies))
		return (ssize_t)n; /* it never arrives */
	if (self.hold && is_call(bytes, n)) {
		atomic_store(&self.hold->held, 1);
		await_count(&self.hold->told, 1);
	}
	if (last_word && self.rank != VICTIM && self.rank != LEADER)
		await_count(&stage->read, 1);
	const ssize_t sent = sendto(fd, bytes, n, flags, NULL, 0);
	if (last_word && sent > 0)
		last_word_is_said(stage);
	return sent;
}

/* The leader reads one rank after the other: the victim, for whom it has looked before, and then
 * those behind. */
static void leader_reads(struct stage *stage, int fd)
{
	if (!self.heard_from || fd == self.heard_from || atomic_load(&stage->together))
		return;
	atomic_store(&stage->read, 1);
	await_count(&stage->said, RANKS - 2);
	atomic_store(&stage->together, 1);
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
	struct stage *stage = self.rank == LEADER ? self.stage : NULL;

	if (stage)
		leader_reads(stage, fd);
	const ssize_t got = recvfrom(fd, bytes, n, flags, NULL, NULL);
	if (stage && !self.heard_from && got > 0 && is_last_word(bytes, (size_t)got))
		self.heard_from = fd;
	return got;
}

static int shrink(int rank, void *argument)
{
	struct stage *stage = argument;
	tutti_comm_t comm = NULL, rest = NULL;
	int sum = rank;

	SUCCEEDS(tutti_init(NULL, &comm));
	meet_at(&stage->joined, RANKS);
	self.rank = rank;
	self.stage = stage;
	SUCCEEDS(tutti_comm_shrink(comm, &rest));
	CLAIM(atomic_load(&stage->together), "rank %d decided without the words of all", LEADER);
	CLAIM(tutti_comm_size(rest) == RANKS - 1, "size %d", tutti_comm_size(rest));
	SUCCEEDS(tutti_all_reduce(rest, &sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, NULL));
	CLAIM(sum == RANKS * (RANKS - 1) / 2 - VICTIM, "the sum is %d", sum);
	tutti_comm_destroy(comm);
	tutti_comm_destroy(rest);
	return 0;
}

JOB(survivors_begin_again_by_themselves, .ranks = RANKS, .whole = shrink,
    .shares = sizeof(struct stage), .env = ENV("TUTTI_TRANSPORT=tcp", "TUTTI_TIMEOUT=40"),
    .expect_signal = SIGKILL, .victims = 1u << VICTIM)

/* Until the others have had their time to join, and before they go on without it. */
static int pause_in_the_middle(int rank, void *argument)
{
	tutti_comm_t comm = NULL, rest = NULL;

	SUCCEEDS(tutti_init(NULL, &comm));
	SUCCEEDS(tutti_barrier(comm, NULL));
	self.rank = rank;
	self.pause = argument;
	SUCCEEDS(tutti_comm_shrink(comm, &rest));
	CLAIM(tutti_comm_size(rest) == RANKS, "size %d", tutti_comm_size(rest));
	SUCCEEDS(tutti_barrier(rest, NULL));
	tutti_comm_destroy(comm);
	tutti_comm_destroy(rest);
	return 0;
}

JOB(who_pauses_while_all_join_is_waited_for, .ranks = RANKS, .whole = pause_in_the_middle,
    .shares = sizeof(struct stage), .env = ENV("TUTTI_TRANSPORT=tcp", "TUTTI_TIMEOUT=6"))

static void *die_in_the_middle(void *argument)
{
	struct stage *stage = argument;

	await_count(&stage->held, 1);
	raise(SIGKILL);
	return NULL;
}

/* 1 waits for 0, until it hears of a rank that is to have another part. */
static int split(int rank, void *argument)
{
	struct stage *stage = argument;
	tutti_comm_t comm = NULL, part = NULL;
	pthread_t thread;

	SUCCEEDS(tutti_init(NULL, &comm));
	SUCCEEDS(tutti_barrier(comm, NULL));
	self.hold = rank == 0 ? stage : NULL;
	CLAIM(rank < 2 || pthread_create(&thread, NULL, die_in_the_middle, stage) == 0,
	      "no thread");
	FAILS(tutti_comm_split(comm, rank / 2, 0, &part), TUTTI_ERR_PEER_LOST, "rank 2");
	atomic_store(&stage->told, 1);
	tutti_comm_destroy(comm);
	return 0;
}

JOB(who_splits_is_told_of_deaths_while_it_joins, .ranks = 3, .whole = split,
    .shares = sizeof(struct stage), .env = ENV("TUTTI_TRANSPORT=tcp", "TUTTI_TIMEOUT=1000"),
    .expect_signal = SIGKILL, .victims = 1u << 2)
