/* SPDX-License-Identifier: BSD-3-Clause */
/* That ranks mean the same rendezvous, whatever was in the store before. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "log.h"
#include "rendezvous.h"
#include "store.h"
#include "transport.h"

#define PATIENCE_S 20.0
#define RENDEZVOUS 3

static uint64_t patience(void)
{
	return tt_now() + (uint64_t)(PATIENCE_S * 1e9);
}

/* A deadline that passes. */
static uint64_t soon(void)
{
	return tt_now() + 20000000u;
}

struct rank {
	struct tt_launch launch;
	tutti_store_t store; /* shared; NULL: the launch's */
	pthread_t thread;
	tutti_result_t result;
	struct tt_rendezvous rendezvous[RENDEZVOUS];
};

static void *meet_in_store(void *argument)
{
	struct rank *r = argument;

	for (int i = 0; i < RENDEZVOUS && r->result == TUTTI_OK; i++) {
		r->result = tt_rendezvous(r->store, "group", r->launch.rank, 2, patience(),
					  &r->rendezvous[i]);
		if (r->result == TUTTI_OK)
			r->result = tt_rendezvous_met(r->store, &r->rendezvous[i]);
	}
	return NULL;
}

static void *meet_as_launched(void *argument)
{
	struct rank *r = argument;
	struct tt_key none = { 0 };

	r->result =
		tt_rendezvous_launched(&r->launch, &none, patience(), &r->store, &r->rendezvous[0]);
	return NULL;
}

static void begin(struct rank *r, void *(*meet)(void *))
{
	assert_int_equal(pthread_create(&r->thread, NULL, meet, r), 0);
}

/* Rank 0 meets rank 1, which has begun: both mean the same. */
static void meet_both(struct rank ranks[2], void *(*meet)(void *), int rendezvous)
{
	meet(&ranks[0]);
	pthread_join(ranks[1].thread, NULL);
	assert_int_equal(ranks[0].result, TUTTI_OK);
	assert_int_equal(ranks[1].result, TUTTI_OK);
	for (int i = 0; i < rendezvous; i++) {
		const struct tt_rendezvous *a = &ranks[0].rendezvous[i],
					   *b = &ranks[1].rendezvous[i];

		assert_true(a->id == b->id);
		assert_string_equal(a->prefix, b->prefix);
	}
}

static const char *address(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "unix:tutti-test-meeting-%ld", (long)getpid());
	return text;
}

static tutti_store_t open_store(bool serve)
{
	tutti_store_t store;

	assert_int_equal(tutti_store_open(address(), serve, PATIENCE_S, &store), TUTTI_OK);
	return store;
}

static struct rank launched(int rank)
{
	struct rank r = { .launch = { .rank = rank, .size = 2, .serve = rank == 0, .job = "j" } };

	snprintf(r.launch.store, sizeof(r.launch.store), "%s", address());
	return r;
}

TEST(rendezvous_in_one_store_are_told_apart)
{
	struct rank ranks[2] = { { .launch.rank = 0, .store = open_store(true) },
				 { .launch.rank = 1 } };

	/* a program before this one left its rendezvous behind, through a handle of its own */
	for (int time = 0; time < 2; time++) {
		ranks[1].store = open_store(false);
		begin(&ranks[1], meet_in_store);
		meet_both(ranks, meet_in_store, RENDEZVOUS);
		for (int i = 0; i < RENDEZVOUS; i++) {
			char prefix[32];

			snprintf(prefix, sizeof(prefix), "group/%d", time * RENDEZVOUS + i + 1);
			assert_string_equal(ranks[0].rendezvous[i].prefix, prefix);
		}
		tutti_store_close(ranks[1].store);
	}
	tutti_store_close(ranks[0].store);
}

/* Rank 1 comes to the next rendezvous while the host of the one before is still there. */
TEST(a_rank_leaves_the_host_of_the_rendezvous_before)
{
	struct rank ranks[2] = { launched(0), launched(1) };
	tutti_store_t before = open_store(true);
	uint32_t number;
	size_t length = sizeof(number);

	begin(&ranks[1], meet_as_launched);
	assert_int_equal(tutti_store_get(before, "job-j/begun/1", &number, &length, PATIENCE_S),
			 TUTTI_OK);
	tutti_store_close(before);
	meet_both(ranks, meet_as_launched, 1);
	tutti_store_close(ranks[1].store);
	tutti_store_close(ranks[0].store);
}

/* One that dies says no such thing, and nobody else will serve the store. */
TEST(a_host_that_died_is_not_looked_for_again)
{
	struct rank rank = launched(1);
	uint32_t number;
	size_t length = sizeof(number);
	tutti_store_t store;
	const pid_t host = fork();

	assert_true(host >= 0);
	if (host == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (tutti_store_open(rank.launch.store, 1, PATIENCE_S, &store) == TUTTI_OK)
			pause();
		_exit(1);
	}
	store = open_store(false);
	begin(&rank, meet_as_launched);
	assert_int_equal(tutti_store_get(store, "job-j/begun/1", &number, &length, PATIENCE_S),
			 TUTTI_OK);
	kill(host, SIGKILL);
	waitpid(host, NULL, 0);
	pthread_join(rank.thread, NULL);
	assert_int_equal(rank.result, TUTTI_ERR_PEER_LOST);
	tutti_store_close(store);
}

TEST(keys_of_something_else_are_named)
{
	struct tt_rendezvous rendezvous;
	tutti_store_t store = open_store(true);

	assert_int_equal(tutti_store_set(store, "g/begun/1", "x", 1), TUTTI_OK);
	assert_int_equal(tt_rendezvous(store, "g", 1, 2, patience(), &rendezvous),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "key g/begun/1 of the store has 1 bytes"));
	assert_int_equal(tutti_store_set(store, "g/begun/1", "12345", 5), TUTTI_OK);
	assert_int_equal(tt_rendezvous(store, "g", 1, 2, patience(), &rendezvous),
			 TUTTI_ERR_INVALID);
	assert_int_equal(tutti_store_set(store, "h/1/id", "x", 1), TUTTI_OK);
	assert_int_equal(tt_rendezvous(store, "h", 1, 2, patience(), &rendezvous),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(tt_thread_error(), "key h/1/id of the store has 1 bytes"));
	tutti_store_close(store);
}

TEST(a_rank_waits_no_longer_than_its_deadline)
{
	struct rank rank = launched(1);
	struct tt_rendezvous rendezvous;
	struct tt_key none = { 0 };
	tutti_store_t store;

	assert_int_equal(tt_rendezvous_launched(&rank.launch, &none, soon(), &store, &rendezvous),
			 TUTTI_ERR_TIMEOUT);
	assert_null(store);
	store = open_store(true);
	assert_int_equal(
		tt_rendezvous_launched(&rank.launch, &none, soon(), &rank.store, &rendezvous),
		TUTTI_ERR_TIMEOUT);
	assert_null(rank.store);
	tutti_store_close(store);
}

/* Whoever comes late to a rendezvous is told so without waiting; the next one is another matter. */
TEST(a_rendezvous_given_up_is_over_for_all)
{
	static const char absent[] =
		"ranks 0, 2 have not come to the rendezvous of 3 ranks by rank 1's deadline";
	tutti_store_t store = open_store(true);
	struct rank ranks[2] = { { .launch.rank = 0, .store = store },
				 { .launch.rank = 1, .store = store } };
	struct tt_rendezvous rendezvous;

	assert_int_equal(tt_rendezvous(store, "group", 1, 3, soon(), &rendezvous),
			 TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), absent));
	assert_int_equal(tt_rendezvous_give_up(store, &rendezvous, TUTTI_ERR_TIMEOUT),
			 TUTTI_ERR_TIMEOUT);
	assert_int_equal(tt_rendezvous(store, "group", 0, 3, patience(), &rendezvous),
			 TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), absent));
	begin(&ranks[1], meet_in_store);
	meet_both(ranks, meet_in_store, 1);
	assert_string_equal(ranks[0].rendezvous[0].prefix, "group/2");
	tutti_store_close(store);
}

static sem_t asked; /* whether rank 1 has come */

/* A program's own definitions come before those of the C library. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static const char key[] = "job-late/begun/1";

	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];

		if (part->iov_base && memmem(part->iov_base, part->iov_len, key, strlen(key)))
			sem_post(&asked);
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static void *meet_late(void *argument)
{
	struct rank *r = argument;
	size_t none = 0;

	sem_wait(&asked);
	meet_as_launched(r);
	if (r->result)
		return NULL;
	r->result = tt_rendezvous_get(r->store, &r->rendezvous[0], 0, "job-late/1/more", NULL,
				      &none, patience());
	tutti_store_close(r->store);
	return NULL;
}

/* Rank 0 hosts the store, and has failed before rank 1 begins. */
TEST(a_host_that_gave_up_tells_who_comes_late)
{
	struct rank ranks[2] = { launched(0), launched(1) };
	struct tt_rendezvous *rendezvous = &ranks[0].rendezvous[0];

	sem_init(&asked, 0, 0);
	for (int rank = 0; rank < 2; rank++)
		snprintf(ranks[rank].launch.job, sizeof(ranks[rank].launch.job), "late");
	begin(&ranks[1], meet_late);
	meet_as_launched(&ranks[0]);
	assert_int_equal(ranks[0].result, TUTTI_OK);
	tt_rendezvous_give_up(ranks[0].store, rendezvous, TUTTI_ERR_PEER_LOST);
	tt_rendezvous_leave(ranks[0].store);
	tt_rendezvous_close(ranks[0].store, rendezvous, TUTTI_ERR_PEER_LOST);
	sem_post(&asked);
	pthread_join(ranks[1].thread, NULL);
	assert_int_equal(ranks[1].result, TUTTI_ERR_PEER_LOST);
	sem_destroy(&asked);
}

/* All have come, and rank 1, which nobody would wait for first, goes no further. */
TEST(who_came_but_went_no_further_is_named)
{
	struct tt_rendezvous rendezvous[4];
	char key[TT_RANK_KEY_MAX];
	size_t none = 0;
	tutti_store_t store = open_store(true);

	for (int rank = 0; rank < 4; rank++)
		assert_int_equal(
			tt_rendezvous(store, "group", rank, 4, patience(), &rendezvous[rank]),
			TUTTI_OK);
	/* rank 0 needs what rank 1 tells for its own */
	for (int rank = 2; rank < 4; rank++) {
		tt_rendezvous_rank_key(&rendezvous[rank], rank, key);
		assert_int_equal(tutti_store_set(store, key, "records", 7), TUTTI_OK);
	}
	tt_rendezvous_rank_key(&rendezvous[2], 0, key);
	assert_int_equal(tt_rendezvous_get(store, &rendezvous[2], 0, key, NULL, &none, soon()),
			 TUTTI_ERR_TIMEOUT);
	assert_string_equal(
		tt_thread_error(),
		"rank 1 came to the rendezvous of 4 ranks, but has not gone on with it by "
		"rank 2's deadline: died or stopped?");
	tutti_store_close(store);
}

/* Rank 0 has met all, and closes at the deadline at which the others, which have not, give up. */
TEST(what_a_rank_saw_counts_more_than_that_the_host_is_gone)
{
	struct tt_rendezvous rendezvous;
	tutti_store_t host = open_store(true), store = open_store(false);

	assert_int_equal(tutti_store_set(store, "group/1/id", (uint64_t[]){ 12345678, 3 }, 16),
			 TUTTI_OK);
	assert_int_equal(tt_rendezvous(store, "group", 1, 3, patience(), &rendezvous), TUTTI_OK);
	host->close_by = tt_now();
	tutti_store_close(host);
	tt_thread_error_set("rank 2 does not answer");
	assert_int_equal(tt_rendezvous_give_up(store, &rendezvous, TUTTI_ERR_TIMEOUT),
			 TUTTI_ERR_TIMEOUT);
	assert_string_equal(tt_thread_error(), "rank 2 does not answer");
	tutti_store_close(store);
}

/* A client that is stopped keeps its connection. */
TEST(a_host_closes_soon_after_its_deadline)
{
	struct rank host = launched(0);
	tutti_store_t silent;

	begin(&host, meet_as_launched);
	silent = open_store(false);
	pthread_join(host.thread, NULL);
	assert_int_equal(host.result, TUTTI_OK);
	host.store->close_by = tt_now();
	const uint64_t start = tt_now();
	tutti_store_close(host.store);
	assert_in_range(tt_now() - start, 0, 5000000000u); /* of 10 s */
	tutti_store_close(silent);
}
