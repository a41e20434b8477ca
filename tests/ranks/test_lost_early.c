/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that dies at one step after another of the rendezvous in a socket store: the others are
 * told within seconds, far from their deadline, and all the same.
 *
 *   test_lost_early shm|tcp|mixed */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS  4
#define SOON_S bound_s(8.0) /* of a deadline of 40 */

enum call { SENDMSG, SOCKET, SEND };

/* Requests to the store, of rank 0, which gathers all records, and of the others: see steps. */
static const int requests[2] = { 8, 6 };

/* The victim's end comes before its n-th call of the kind, rank 0's and the others'; 0: it makes
 * none. Calls that are no requests are counted from the last request on. */
struct step {
	const char *name;
	enum call call;
	int n[2];
};

static const struct step steps[] = {
	{ "it has come", SENDMSG, { 3, 3 } },
	{ "it knows the meeting", SENDMSG, { 4, 4 } },
	{ "its record is stored", SENDMSG, { 0, 5 } },
	{ "it has some of the records", SENDMSG, { 5, 0 } },
	{ "it has all records", SENDMSG, { 7, 6 } },
	{ "it has told all of them", SENDMSG, { 8, 0 } },
	{ "it begins to join", SOCKET, { 1, 1 } },
	{ "it says the first word to another", SEND, { 1, 1 } },
	{ "it says the second word to another", SEND, { 2, 2 } },
	{ "it has joined, or is about to", SENDMSG, { 9, 7 } },
};
#define STEPS		   (sizeof(steps) / sizeof(steps[0]))
#define STEPS_WITHOUT_LAST 3 /* those that any rank takes while the last one is not there */
#define LAST		   (RANKS - 1)

struct outcome {
	bool joined;
	tutti_result_t result;
	int culprit;
	double at;
	char error_text[512];
};

struct play {
	const struct step *step;
	int victim;
	bool served; /* one process more hosts the store, as tutti-run does; otherwise rank 0 */
	bool late;   /* the last rank begins when all is over for rank 0 */
	atomic_int over;
	_Atomic double died_at;
	atomic_int done;
	atomic_int come; /* ranks that have asked the store something */
	struct outcome outcome[RANKS];
};

/* ---- the victim's end */

/* Of the thread that meets alone: the host of the store has another. */
static _Thread_local struct {
	struct play *play; /* NULL: not yet */
	bool is_victim, is_first;
	int requests, calls;
} self;

/* Who does not know the host of the store before it ends cannot know that there was one. */
static void die(struct play *play)
{
	if (!play->served)
		await_count(&play->come, RANKS - play->late);
	atomic_store(&play->died_at, seconds_now());
	raise(SIGKILL);
}

static void call_is_made(enum call call)
{
	if (!self.play)
		return;
	const struct step *step = self.play->step;

	self.calls += call == step->call &&
		      (call == SENDMSG || self.requests >= requests[!self.is_first]);
	self.requests += call == SENDMSG;
	if (call == SENDMSG && self.requests == 3) /* the hello, and a question that was answered */
		atomic_fetch_add(&self.play->come, 1);
	if (self.is_victim && self.calls >= step->n[!self.is_first])
		die(self.play);
}

/* The first that rank 0 wants to know of the last one when the rendezvous has failed is whether
 * that has come. */
static void look_whether_over(const struct msghdr *message)
{
	char key[16];

	snprintf(key, sizeof(key), "/begun/%d", LAST);
	for (size_t i = 0; self.play && self.is_first && i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];

		if (part->iov_base && memmem(part->iov_base, part->iov_len, key, strlen(key)))
			atomic_store(&self.play->over, 1);
	}
}

/* A program's own definitions come before those of the C library. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);

	if (!real)
		real = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
	call_is_made(SENDMSG);
	look_whether_over(message);
	return real(fd, message, flags);
}

int socket(int domain, int type, int protocol)
{
	static int (*real)(int, int, int);

	if (!real)
		real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	call_is_made(SOCKET);
	return real(domain, type, protocol);
}

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	call_is_made(SEND);
	return sendto(fd, bytes, n, flags, NULL, 0);
}

/* ---- ranks */

static int host_store(struct play *play)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;

	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), 1, 0, &store));
	await_count(&play->done, RANKS - 1);
	tutti_store_close(store);
	return 0;
}

static int meet(int rank, struct play *play)
{
	struct outcome *out = &play->outcome[rank];
	tutti_comm_t comm = NULL;

	if (play->late && rank == LAST)
		await_count(&play->over, 1);
	out->result = tutti_init(NULL, &comm);
	if (rank == 0)
		atomic_store(&play->over, 1);
	out->joined = out->result == TUTTI_OK;
	if (out->joined)
		out->result = tutti_barrier(comm, NULL);
	out->at = seconds_now();
	out->culprit = -1;
	snprintf(out->error_text, sizeof(out->error_text), "%s", tutti_last_error(comm));
	if (comm)
		tutti_comm_error(comm, &out->culprit);
	tutti_comm_destroy(comm);
	if (rank != play->victim)
		atomic_fetch_add(&play->done, 1);
	return 0;
}

/* In a child; ends as that does. */
static int meet_in_child(int rank, struct play *play, int (*meets)(int, struct play *))
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(meets(rank, play));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool children_are_apart;

#if defined(__SANITIZE_ADDRESS__)
/* The sanitizer asks before it looks for leaks, by a thread that a process with a namespace for
 * its children cannot start. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return children_are_apart;
}
#endif

/* The first process of a namespace cannot kill itself. */
static int meet_as_second(int rank, struct play *play)
{
	return meet_in_child(rank, play, meet);
}

/* Where nobody sees another's process, as on another host; as far as this may be done here. */
static int meet_unseen(int rank, struct play *play)
{
	if (unshare(CLONE_NEWPID) < 0)
		return meet(rank, play);
	children_are_apart = true;
	const int status = meet_in_child(rank, play, meet_as_second);

	return rank == play->victim && status == 128 + SIGKILL ? raise(SIGKILL) : status;
}

static int be(int rank, void *argument)
{
	struct play *play = argument;

	setenv("TUTTI_SIZE", "4", 1);
	setenv("TUTTI_LOCAL_SIZE", "4", 1);
	if (rank == RANKS)
		return host_store(play);
	if (play->served)
		setenv("TUTTI_STORE_SERVED", "1", 1);
	self.play = play;
	self.is_victim = rank == play->victim;
	self.is_first = rank == 0;
	return strcmp(transport_chosen, "tcp") == 0 ? meet_unseen(rank, play) : meet(rank, play);
}

/* ---- what the others were told */

static double judge(const struct play *play)
{
	const struct outcome *first = NULL;
	double most = 0;
	char words[32];

	snprintf(words, sizeof(words), "rank %d", play->victim);
	for (int rank = 0; rank < RANKS; rank++) {
		const struct outcome *o = &play->outcome[rank];
		const double took = o->at - play->died_at;

		if (rank == play->victim)
			continue;
		most = took > most ? took : most;
		if (o->result != TUTTI_ERR_PEER_LOST || took > SOON_S ||
		    !strstr(o->error_text, words) || (o->joined && o->culprit != play->victim))
			fail_msg("%s dies when %s: rank %d is told %d after %.2f s: %s", words,
				 play->step->name, rank, o->result, took, o->error_text);
		if (o->joined)
			continue;
		first = first ? first : o;
		if (strcmp(o->error_text, first->error_text) != 0)
			fail_msg("%s dies when %s: told are \"%s\" and \"%s\"", words,
				 play->step->name, o->error_text, first->error_text);
	}
	return most;
}

static void dies(struct play *play, const struct step *step, int rank, bool served, bool late)
{
	memset(play, 0, sizeof(*play));
	play->step = step;
	play->victim = rank;
	play->served = served;
	play->late = late;
	HOLDS(.ranks = RANKS + served, .whole = be, .argument = play, .expect_signal = SIGKILL,
	      .victims = 1u << rank);
	assert_true(play->died_at > 0);
	print_message("rank %d dies when %s: told after %.3f s at most: %s\n", rank, step->name,
		      judge(play), play->outcome[rank == 1 ? 2 : 1].error_text);
}

/* Nothing is sent in shared memory, and over TCP the last rank calls nobody. */
static bool happens(const struct step *step, int rank)
{
	if (!step->n[rank > 0])
		return false;
	if (strcmp(transport_chosen, "shm") == 0)
		return step->call != SEND;
	return step->call != SOCKET || rank < RANKS - 1;
}

TEST(all_are_told_the_same_of_a_rank_that_dies_while_they_meet)
{
	struct play *play = shared_memory(sizeof(*play));

	for (size_t i = 0; i < STEPS; i++)
		for (int rank = 0; rank < RANKS; rank++)
			if (happens(&steps[i], rank))
				dies(play, &steps[i], rank, true, false);
}

TEST(all_are_told_the_same_of_the_stores_host)
{
	struct play *play = shared_memory(sizeof(*play));

	for (size_t i = 1; i < STEPS; i++)
		if (happens(&steps[i], 0))
			dies(play, &steps[i], 0, false, false);
}

/* Rank 0 hosts the store, and has failed before the last one begins. */
TEST(who_comes_late_is_told_as_well)
{
	struct play *play = shared_memory(sizeof(*play));

	for (size_t i = 0; i < STEPS_WITHOUT_LAST; i++)
		for (int rank = 1; rank < LAST; rank++)
			dies(play, &steps[i], rank, false, true);
}
