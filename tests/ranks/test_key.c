/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and their keys: ranks that have the same meet, one that has another or none is told so
 * and disturbs nobody. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS 4
#define KEY   "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SOON  bound_s(10.0) /* seconds, of a deadline of 40 */

struct play {
	char store[64];
	atomic_int turned_away;
};

static int sum_is_right(tutti_comm_t comm)
{
	const int size = tutti_comm_size(comm);
	int sum = tutti_comm_rank(comm);

	SUCCEEDS(tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, NULL));
	CLAIM(sum == size * (size - 1) / 2, "the sum is %d", sum);
	return 0;
}

static void play_job(rank_whole *whole, int ranks, const char *store)
{
	struct play *play = shared_memory(sizeof(*play));

	if (store)
		snprintf(play->store, sizeof(play->store), "%s", store);
	HOLDS(.ranks = ranks, .whole = whole, .argument = play);
	munmap(play, sizeof(*play));
}

/* The same in a directory, which proves nothing by itself. */
static void play_in_directory(rank_whole *whole, int ranks)
{
	char directory[] = "/tmp/tutti-test-keys-XXXXXX", text[64];

	assert_non_null(mkdtemp(directory));
	snprintf(text, sizeof(text), "file:%s", directory);
	play_job(whole, ranks, text);
	snprintf(text, sizeof(text), "rm -r '%s'", directory);
	assert_int_equal(system(text), 0);
}

/* ---------------------------------------------------------------- the same key */

/* Half of the ranks have it from the program, the others from the environment. */
static int meet_by_any_source(int rank, void *argument)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL, half = NULL;

	if (rank % 2)
		config.key = KEY;
	else
		setenv("TUTTI_KEY", KEY, 1);
	SUCCEEDS(tutti_init(&config, &comm));
	SUCCEEDS(tutti_comm_split(comm, rank / 2, rank, &half)); /* with the key of the whole */
	const int failed = sum_is_right(comm) || sum_is_right(half);
	tutti_comm_destroy(half);
	tutti_comm_destroy(comm);
	return failed;
}

TEST(ranks_with_the_same_key_meet)
{
	play_job(meet_by_any_source, RANKS, NULL);
}

/* ---------------------------------------------------------------- another */

/* One process more, with another key: it is not let into the store where the others meet
 * meanwhile. */
static int meet_beside_a_stranger(int rank, void *argument)
{
	struct play *play = argument;
	tutti_comm_t comm = NULL;
	tutti_store_t store = NULL;

	setenv("TUTTI_KEY", rank == RANKS ? OTHER : KEY, 1);
	if (rank == RANKS) {
		const tutti_result_t result = tutti_store_open(getenv("TUTTI_STORE"), 0, 0, &store);
		atomic_store(&play->turned_away, 1);
		CLAIM(result == TUTTI_ERR_INVALID && !store, "%s", tutti_strerror(result));
		CLAIM(strstr(tutti_last_error(NULL), "has another key"), "\"%s\"",
		      tutti_last_error(NULL));
		return 0;
	}
	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), rank == 0, 0, &store));
	if (rank == 0)
		await_count(&play->turned_away, 1);
	SUCCEEDS(tutti_comm_create(store, rank, RANKS, NULL, &comm));
	const int failed = sum_is_right(comm);
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	return failed;
}

TEST(who_has_another_key_is_turned_away_and_disturbs_nobody)
{
	play_job(meet_beside_a_stranger, RANKS + 1, NULL);
}

/* Rank 2 has another key, or none; where the store lets everybody in, all find out before they
 * connect. */
static int expect_difference(int rank, const char *store, const char *key, const char *says)
{
	tutti_comm_t comm = NULL;

	setenv("TUTTI_STORE", store, 1);
	if (rank != 2)
		setenv("TUTTI_KEY", KEY, 1);
	else if (key)
		setenv("TUTTI_KEY", key, 1);
	const double start = seconds_now();
	const tutti_result_t result = tutti_init(NULL, &comm);
	const char *error = tutti_last_error(NULL);
	CLAIM(!comm && (result == TUTTI_ERR_INVALID || result == TUTTI_ERR_PEER_LOST), "%s (%s)",
	      tutti_strerror(result), error);
	CLAIM(strstr(error, says) && strchr(error, '2'), "\"%s\" does not say \"%s\"", error, says);
	CLAIM(seconds_now() - start < SOON, "told after %.1f s", seconds_now() - start);
	return 0;
}

static int differ(int rank, void *argument)
{
	return expect_difference(rank, ((struct play *)argument)->store, OTHER,
				 "have different keys");
}

static int lack(int rank, void *argument)
{
	return expect_difference(rank, ((struct play *)argument)->store, NULL,
				 "rank 2 has no key, and rank");
}

TEST(different_keys_are_found_out_in_any_store)
{
	play_in_directory(differ, RANKS);
}

TEST(a_missing_key_is_found_out_in_any_store)
{
	play_in_directory(lack, RANKS);
}

/* ---------------------------------------------------------------- none */

/* Two hosts, as far as anybody can tell: rank 1 goes to a network of its own. */
static int be_apart(int rank, void *argument)
{
	const struct play *play = argument;
	tutti_comm_t comm = NULL;

	setenv("TUTTI_STORE", play->store, 1);
	unsetenv("TUTTI_HOST_ID");
	if (rank == 1)
		CLAIM(unshare(CLONE_NEWNET) == 0, "no network namespace");
	const tutti_result_t result = tutti_init(NULL, &comm);
	CLAIM(!comm && result == TUTTI_ERR_UNSUPPORTED, "%s (%s)", tutti_strerror(result),
	      tutti_last_error(NULL));
	CLAIM(strcmp(transport_chosen, "shm") == 0 ||
		      strstr(tutti_last_error(NULL),
			     "without a key ranks are reached on their own machine only; give all the same TUTTI_KEY"),
	      "\"%s\"", tutti_last_error(NULL));
	return 0;
}

TEST(hosts_without_a_key_are_told_what_to_do)
{
	if (geteuid() != 0 || system("unshare -n true 2>/dev/null") != 0) {
		print_message("skipped: no network namespaces\n");
		skip();
	}
	play_in_directory(be_apart, 2);
}

int main(int argc, char **argv)
{
	if (choose_transport(argc, argv))
		return 2;
	unsetenv("TUTTI_KEY");
	return run_claims(NULL, NULL);
}
