/* SPDX-License-Identifier: BSD-3-Clause */
/* That ranks mean the same rendezvous, whatever was in the store before. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
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

struct rank {
	struct tt_launch launch;
	tutti_store_t store; /* shared; NULL: the launch's */
	tutti_result_t result;
	struct tt_rendezvous rendezvous[RENDEZVOUS];
};

static void *meet_in_store(void *argument)
{
	struct rank *r = argument;

	for (int i = 0; i < RENDEZVOUS && r->result == TUTTI_OK; i++)
		r->result = tt_rendezvous(r->store, "group", r->launch.rank, 2, patience(),
					  &r->rendezvous[i]);
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

static void check_same(const struct tt_rendezvous *a, const struct tt_rendezvous *b)
{
	assert_true(a->id == b->id);
	assert_string_equal(a->prefix, b->prefix);
}

static void name_store(char *address, size_t size)
{
	snprintf(address, size, "unix:tutti-test-meeting-%ld", (long)getpid());
}

TEST(rendezvous_in_one_store_are_told_apart)
{
	struct rank ranks[2] = { { .launch.rank = 0 }, { .launch.rank = 1 } };
	char address[64];
	pthread_t thread;

	(void)state;
	name_store(address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &ranks[0].store), TUTTI_OK);
	/* a program before this one left its rendezvous behind, through a handle of its own */
	assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &ranks[1].store), TUTTI_OK);
	for (int time = 0; time < 2; time++) {
		assert_int_equal(pthread_create(&thread, NULL, meet_in_store, &ranks[1]), 0);
		meet_in_store(&ranks[0]);
		pthread_join(thread, NULL);
		for (int i = 0; i < RENDEZVOUS; i++) {
			char prefix[32];

			assert_int_equal(ranks[0].result, TUTTI_OK);
			assert_int_equal(ranks[1].result, TUTTI_OK);
			check_same(&ranks[0].rendezvous[i], &ranks[1].rendezvous[i]);
			snprintf(prefix, sizeof(prefix), "group/%d", time * RENDEZVOUS + i + 1);
			assert_string_equal(ranks[0].rendezvous[i].prefix, prefix);
		}
		tutti_store_close(ranks[1].store);
		assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &ranks[1].store),
				 TUTTI_OK);
	}
	tutti_store_close(ranks[1].store);
	tutti_store_close(ranks[0].store);
}

/* Rank 1 comes to the next rendezvous while the host of the one before is still there. */
TEST(a_rank_leaves_the_host_of_the_rendezvous_before)
{
	struct rank ranks[2] = { { .launch = { .rank = 0, .size = 2, .serve = true, .job = "j" } },
				 { .launch = { .rank = 1, .size = 2, .job = "j" } } };
	tutti_store_t before;
	uint32_t number;
	size_t length = sizeof(number);
	pthread_t thread;

	(void)state;
	name_store(ranks[0].launch.store, sizeof(ranks[0].launch.store));
	name_store(ranks[1].launch.store, sizeof(ranks[1].launch.store));
	assert_int_equal(tutti_store_open(ranks[0].launch.store, 1, PATIENCE_S, &before), TUTTI_OK);
	assert_int_equal(pthread_create(&thread, NULL, meet_as_launched, &ranks[1]), 0);
	assert_int_equal(tutti_store_get(before, "job-j/begun/1", &number, &length, PATIENCE_S),
			 TUTTI_OK);
	tutti_store_close(before);
	meet_as_launched(&ranks[0]);
	pthread_join(thread, NULL);
	assert_int_equal(ranks[0].result, TUTTI_OK);
	assert_int_equal(ranks[1].result, TUTTI_OK);
	check_same(&ranks[0].rendezvous[0], &ranks[1].rendezvous[0]);
	tutti_store_close(ranks[1].store);
	tutti_store_close(ranks[0].store);
}

TEST(keys_of_something_else_are_named)
{
	struct tt_rendezvous rendezvous;
	char address[64];
	tutti_store_t store;

	(void)state;
	name_store(address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &store), TUTTI_OK);
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
	struct rank rank = { .launch = { .rank = 1, .size = 2 } };
	struct tt_rendezvous rendezvous;
	struct tt_key none = { 0 };
	tutti_store_t store;

	(void)state;
	name_store(rank.launch.store, sizeof(rank.launch.store));
	assert_int_equal(tt_rendezvous_launched(&rank.launch, &none, tt_now() + 20000000u, &store,
						&rendezvous),
			 TUTTI_ERR_TIMEOUT);
	assert_null(store);
	assert_int_equal(tutti_store_open(rank.launch.store, 1, PATIENCE_S, &store), TUTTI_OK);
	assert_int_equal(tt_rendezvous_launched(&rank.launch, &none, tt_now() + 20000000u,
						&rank.store, &rendezvous),
			 TUTTI_ERR_TIMEOUT);
	assert_null(rank.store);
	tutti_store_close(store);
}

/* Whoever comes late to a rendezvous is told so without waiting; the next one is another matter. */
TEST(a_rendezvous_given_up_is_over_for_all)
{
	struct rank ranks[2] = { { .launch.rank = 0 }, { .launch.rank = 1 } };
	struct tt_rendezvous rendezvous;
	char address[64];
	size_t none = 0;
	pthread_t thread;

	(void)state;
	name_store(address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &ranks[0].store), TUTTI_OK);
	ranks[1].store = ranks[0].store;
	assert_int_equal(
		tt_rendezvous(ranks[0].store, "group", 1, 3, tt_now() + 20000000u, &rendezvous),
		TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(
		tt_thread_error(),
		"ranks 0, 2 have not come to the rendezvous of 3 ranks by rank 1's deadline"));
	assert_int_equal(tt_rendezvous_give_up(ranks[0].store, &rendezvous, TUTTI_ERR_TIMEOUT),
			 TUTTI_ERR_TIMEOUT);
	assert_int_equal(tt_rendezvous(ranks[0].store, "group", 0, 3, patience(), &rendezvous),
			 TUTTI_OK);
	assert_int_equal(tt_rendezvous_get(ranks[0].store, &rendezvous, 1, "group/1/more", NULL,
					   &none, patience()),
			 TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(
		tt_thread_error(),
		"ranks 0, 2 have not come to the rendezvous of 3 ranks by rank 1's deadline"));
	assert_int_equal(pthread_create(&thread, NULL, meet_in_store, &ranks[1]), 0);
	meet_in_store(&ranks[0]);
	pthread_join(thread, NULL);
	assert_int_equal(ranks[0].result, TUTTI_OK);
	assert_int_equal(ranks[1].result, TUTTI_OK);
	check_same(&ranks[0].rendezvous[0], &ranks[1].rendezvous[0]);
	assert_string_equal(ranks[0].rendezvous[0].prefix, "group/2");
	tutti_store_close(ranks[0].store);
}

/* All have come, and rank 1, which nobody would wait for first, goes no further. */
TEST(who_came_but_went_no_further_is_named)
{
	struct tt_rendezvous rendezvous[4];
	char address[64], key[TT_RANK_KEY_MAX];
	size_t none = 0;
	tutti_store_t store;

	(void)state;
	name_store(address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &store), TUTTI_OK);
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
	assert_int_equal(
		tt_rendezvous_get(store, &rendezvous[2], 0, key, NULL, &none, tt_now() + 20000000u),
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
	tutti_store_t host, store;
	char address[64];

	(void)state;
	name_store(address, sizeof(address));
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &host), TUTTI_OK);
	assert_int_equal(tutti_store_open(address, 0, PATIENCE_S, &store), TUTTI_OK);
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
	struct rank host = { .launch = { .rank = 0, .size = 2, .serve = true, .job = "j" } };
	tutti_store_t silent;
	pthread_t thread;

	(void)state;
	name_store(host.launch.store, sizeof(host.launch.store));
	assert_int_equal(pthread_create(&thread, NULL, meet_as_launched, &host), 0);
	assert_int_equal(tutti_store_open(host.launch.store, 0, PATIENCE_S, &silent), TUTTI_OK);
	pthread_join(thread, NULL);
	assert_int_equal(host.result, TUTTI_OK);
	host.store->close_by = tt_now();
	const uint64_t start = tt_now();
	tutti_store_close(host.store);
	assert_in_range(tt_now() - start, 0, 5000000000u); /* of 10 s */
	tutti_store_close(silent);
}
