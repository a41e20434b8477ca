/* SPDX-License-Identifier: BSD-3-Clause */
/* That ranks mean the same rendezvous, whatever was in the store before. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "gather.h"
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

/* Exchange records, of which each process has its own. */
static tutti_result_t exchange(tutti_store_t store, struct tt_rendezvous *rendezvous,
			       const char *mine)
{
	const struct tt_key none = { 0 };
	struct tt_records records = { 0 };
	const tutti_result_t result = tt_gather(store, rendezvous, &none, mine, strlen(mine),
						rendezvous->deadline, &records);

	tt_records_free(&records);
	return result;
}

/* One rendezvous, as who makes a communicator comes to it. */
static tutti_result_t come_and_meet(tutti_store_t store, int rank, int size, uint64_t deadline,
				    struct tt_rendezvous *rendezvous)
{
	tutti_result_t result;

	do {
		result = tt_rendezvous(store, "group", rank, size, deadline, rendezvous);
		if (!result)
			result = exchange(store, rendezvous, "a record");
		if (result)
			result = tt_rendezvous_give_up(store, rendezvous, result);
		store->ops->leave(store);
	} while (result && tt_rendezvous_goes_on(store, rendezvous, result));
	return result;
}

static void *meet_in_store(void *argument)
{
	struct rank *r = argument;

	for (int i = 0; i < RENDEZVOUS && r->result == TUTTI_OK; i++)
		r->result =
			come_and_meet(r->store, r->launch.rank, 2, patience(), &r->rendezvous[i]);
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

	if (!text[0]) /* children mean the same */
		snprintf(text, sizeof(text), "unix:tutti-test-meeting-%ld", (long)getpid());
	return text;
}

static tutti_store_t open_store(bool serve)
{
	tutti_store_t store;

	assert_ok(tutti_store_open(address(), serve, PATIENCE_S, &store));
	return store;
}

static struct rank launched(int rank)
{
	struct rank r = { .launch = { .rank = rank, .size = 2, .serve = rank == 0, .job = "j" } };

	snprintf(r.launch.store, sizeof(r.launch.store), "%s", address());
	return r;
}

static sem_t asked;		   /* for … */
static const char *asked_key = ""; /* … */

/* A program's own definitions come before those of the C library. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	for (size_t i = 0; i < message->msg_iovlen && *asked_key; i++) {
		const struct iovec *part = &message->msg_iov[i];

		if (part->iov_base &&
		    memmem(part->iov_base, part->iov_len, asked_key, strlen(asked_key)))
			sem_post(&asked);
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* From then on; before the threads that may ask. */
static void expect(const char *key)
{
	sem_init(&asked, 0, 0);
	asked_key = key;
}

/* Of a claim: a store that this process serves, and the rendezvous of each rank in it. */
static tutti_store_t served;
static struct tt_rendezvous met[4];

static int serve(void **state)
{
	memset(met, 0, sizeof(met));
	served = open_store(true);
	return 0;
}

static int end_serving(void **state)
{
	tutti_store_close(served);
	return 0;
}

static void comes(int rank, int size)
{
	assert_ok(tt_rendezvous(served, "group", rank, size, patience(), &met[rank]));
}

TEST(rendezvous_in_one_store_are_told_apart)
{
	uint64_t before = 0;
	struct rank ranks[2] = { { .launch.rank = 0, .store = open_store(true) },
				 { .launch.rank = 1 } };

	/* a program before this one left its rendezvous behind, through a handle of its own */
	for (int time = 0; time < 2; time++) {
		ranks[1].store = open_store(false);
		begin(&ranks[1], meet_in_store);
		meet_both(ranks, meet_in_store, RENDEZVOUS);
		for (int i = 0; i < RENDEZVOUS; i++) {
			assert_true(ranks[0].rendezvous[i].id != before);
			before = ranks[0].rendezvous[i].id;
		}
		tutti_store_close(ranks[1].store);
	}
	tutti_store_close(ranks[0].store);
}

#define FIRST "job-j/next/0000000000000000" /* which ranks wait for in a fresh store */

/* Rank 1 comes to the next rendezvous while the host of the one before is still there. */
TEST(a_rank_leaves_the_host_of_the_rendezvous_before)
{
	struct rank ranks[2] = { launched(0), launched(1) };
	tutti_store_t before = open_store(true);

	expect(FIRST);
	begin(&ranks[1], meet_as_launched);
	sem_wait(&asked);
	tutti_store_close(before);
	meet_both(ranks, meet_as_launched, 1);
	tutti_store_close(ranks[1].store);
	tutti_store_close(ranks[0].store);
}

static bool host_store(void *at)
{
	return tutti_store_open(at, 1, PATIENCE_S, &served) == TUTTI_OK;
}

/* One that dies says no such thing, and nobody else will serve the store. */
TEST(a_host_that_died_is_not_looked_for_again)
{
	struct rank rank = launched(1);
	const pid_t host = child_that(host_store, rank.launch.store);

	served = open_store(false);
	expect(FIRST);
	begin(&rank, meet_as_launched);
	sem_wait(&asked);
	end_child(host);
	pthread_join(rank.thread, NULL);
	assert_int_equal(rank.result, TUTTI_ERR_PEER_LOST);
	tutti_store_close(served);
}

/* Its host turns rank 0 away, which says nothing of this job's keys. */
TEST(an_address_that_another_job_has_is_to_be_another)
{
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;
	struct rank rank = launched(0);
	struct tt_key none = { 0 };

	config.serve = 1;
	config.key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
	assert_ok(tutti_store_open_with(address(), &config, &served));
	assert_fails(tt_rendezvous_launched(&rank.launch, &none, patience(), &rank.store, &met[0]),
		     TUTTI_ERR_SYSTEM, "has this address; choose another port or name");
	tutti_store_close(served);
}

TEST(keys_of_something_else_are_named)
{
	static const struct {
		int rank;
		const char *key;
	} rows[] = { { 0, "group/current" }, { 1, "group/current" }, { 1, "group/come/1" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char words[64];

		serve(NULL);
		if (strcmp(rows[i].key, "group/current") != 0)
			comes(0, 2);
		assert_ok(tutti_store_set(served, rows[i].key, "x", 1));
		snprintf(words, sizeof(words), "key %s of the store has 1 bytes", rows[i].key);
		assert_fails(tt_rendezvous(served, "group", rows[i].rank, 2, patience(), &met[1]),
			     TUTTI_ERR_INVALID, words);
		tutti_store_close(served);
	}
}

/* Numbers 1 to 3, of which the last says that 1 comes next. */
TEST_WITH(a_store_in_which_rendezvous_go_round_is_refused, serve, end_serving)
{
	char key[64];

	for (uint64_t id = 1; id <= 3; id++) {
		snprintf(key, sizeof(key), "group/next/%016llx", (unsigned long long)id);
		assert_ok(tutti_store_set(served, key, (uint64_t[]){ id % 3 + 1, id, 2 }, 24));
	}
	assert_ok(tutti_store_set(served, "group/current", (uint64_t[]){ 1, 0, 2 }, 24));
	assert_fails(tt_rendezvous(served, "group", 0, 2, patience(), &met[0]), TUTTI_ERR_INVALID,
		     "leads back to itself");
}

TEST(a_rank_waits_no_longer_than_its_deadline)
{
	struct rank rank = launched(1);
	struct tt_key none = { 0 };

	for (int hosts = 0; hosts < 2; hosts++) {
		served = hosts ? open_store(true) : NULL;
		assert_int_equal(
			tt_rendezvous_launched(&rank.launch, &none, soon(), &rank.store, &met[1]),
			TUTTI_ERR_TIMEOUT);
		assert_null(rank.store);
		tutti_store_close(served);
	}
}

/* Where no earlier start can have left it, who comes late is told at once; elsewhere another one is
 * waited for. It comes in both, if all call again. */
TEST(a_rendezvous_given_up_is_over_for_all)
{
	static const char absent[] =
		"ranks 1, 2 have not come to the rendezvous of 3 ranks by rank 0's deadline";

	for (int own = 0; own < 2; own++) {
		serve(NULL);
		struct rank ranks[2] = { { .launch.rank = 0, .store = served },
					 { .launch.rank = 1, .store = served } };

		served->own = own;
		assert_fails(come_and_meet(served, 0, 3, soon(), &ranks[0].rendezvous[0]),
			     TUTTI_ERR_TIMEOUT, absent);
		assert_fails(come_and_meet(served, 1, 3, own ? patience() : soon(), &met[1]),
			     TUTTI_ERR_TIMEOUT, absent);
		begin(&ranks[1], meet_in_store);
		meet_both(ranks, meet_in_store, RENDEZVOUS);
		tutti_store_close(served);
	}
}

/* Whose connections it drops is seen by nobody there. */
TEST(a_port_that_a_firewall_may_guard_is_named)
{
	struct tt_rendezvous rendezvous = { 0 };
	tutti_store_t store;
	char expected[100];

	assert_ok(tutti_store_open("tcp://127.0.0.1:0", 1, PATIENCE_S, &store));
	snprintf(expected, sizeof(expected),
		 "with the same store, and does a firewall let it through to port %s?",
		 strrchr(tutti_store_address(store), ':') + 1);
	assert_fails(come_and_meet(store, 0, 2, soon(), &rendezvous), TUTTI_ERR_TIMEOUT, expected);
	tutti_store_close(store);
}

TEST_WITH(before_rank_0_comes_nobody_else_is_missed, serve, end_serving)
{
	assert_fails(
		tt_rendezvous(served, "group", 1, 3, soon(), &met[1]), TUTTI_ERR_TIMEOUT,
		"rank 0 (at least) has not come to the rendezvous of 3 ranks by rank 1's deadline");
}

static void *meet_late(void *argument)
{
	sem_wait(&asked);
	return meet_as_launched(argument);
}

/* Rank 0 hosts the store, and has failed before rank 1 begins. */
TEST(a_host_that_gave_up_tells_who_comes_late)
{
	struct rank ranks[2] = { launched(0), launched(1) };
	struct tt_rendezvous *rendezvous = &ranks[0].rendezvous[0];

	expect("job-late/come/1"); /* which rank 0 waits for in the end */
	for (int rank = 0; rank < 2; rank++)
		snprintf(ranks[rank].launch.job, sizeof(ranks[rank].launch.job), "late");
	begin(&ranks[1], meet_late);
	meet_as_launched(&ranks[0]);
	assert_int_equal(ranks[0].result, TUTTI_OK);
	tt_rendezvous_give_up(ranks[0].store, rendezvous, TUTTI_ERR_PEER_LOST);
	ranks[0].store->ops->leave(ranks[0].store);
	tt_rendezvous_close(ranks[0].store, rendezvous, TUTTI_ERR_PEER_LOST);
	pthread_join(ranks[1].thread, NULL);
	assert_int_equal(ranks[1].result, TUTTI_ERR_PEER_LOST);
}

/* Rank 1, which waits for rank 0 and gets no further. */
static bool wait_for_rank_0(void *unused)
{
	if (tutti_store_open(address(), 0, PATIENCE_S, &served))
		return false;
	served->own = true;
	return tt_rendezvous(served, "group", 1, 3, soon(), &met[1]) == TUTTI_ERR_TIMEOUT;
}

/* In a store of one start, which sees who waits there. */
TEST_WITH(who_dies_before_it_learns_that_rank_0_has_begun_is_missed_at_once, serve, end_serving)
{
	const pid_t pid = child_that(wait_for_rank_0, NULL);

	served->own = true;
	comes(0, 3);
	end_child(pid);
	assert_fails(exchange(served, &met[0], "a record"), TUTTI_ERR_PEER_LOST, "rank 1 (pid ");
}

/* ---- a store that outlives starts, and whose users nobody sees */

struct user {
	tutti_store_t inner, store;
	int gets, sets;
	sem_t *waits;	/* posted once, when it first waits for a key … */
	sem_t *looked;	/* … and when it looks for another rendezvous */
	sem_t *says_so; /* waited for once, before it says that it was there when one failed */
};

static void post_once(sem_t **sem)
{
	if (*sem)
		sem_post(*sem);
	*sem = NULL;
}

static int user_set(void *context, const char *key, const void *value, size_t length)
{
	struct user *user = context;

	if (user->says_so && strstr(key, "/failed/"))
		sem_wait(user->says_so);
	user->sets++;
	return tutti_store_set(user->inner, key, value, length) ? EIO : 0;
}

/* A get that waits is one, however often the library looks whether it should go on. */
static int user_get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	struct user *user = context;
	static _Thread_local char last[TT_STORE_KEY_MAX + 1];

	if (timeout_s == 0 || strcmp(last, key) != 0)
		user->gets++;
	snprintf(last, sizeof(last), "%s", timeout_s > 0 ? key : "");
	if (timeout_s > 0)
		post_once(&user->waits);
	if (strstr(key, "/next/"))
		post_once(&user->looked);
	switch (tutti_store_get(user->inner, key, value, length, timeout_s)) {
	case TUTTI_OK: return 0;
	case TUTTI_ERR_TIMEOUT: return ETIMEDOUT;
	default: return EMSGSIZE;
	}
}

static void use(tutti_store_t inner, struct user *user)
{
	const tutti_store_ops_t ops = { sizeof(ops), user_set, user_get, NULL };

	*user = (struct user){ .inner = inner };
	assert_ok(tutti_store_create(&ops, user, &user->store));
}

struct process {
	struct user user;
	int rank, size;
	pthread_t thread;
	tutti_result_t result;
	struct tt_rendezvous rendezvous;
	char text[TT_ERROR_MAX];
};

static void *meet_as_process(void *argument)
{
	struct process *p = argument;

	p->result = come_and_meet(p->user.store, p->rank, p->size, patience(), &p->rendezvous);
	snprintf(p->text, sizeof(p->text), "%s", tt_thread_error());
	return NULL;
}

/* Both ranks of a new start come, `first` of them when the other waits, and mean the same. */
static void start(tutti_store_t inner, int first, struct process both[2])
{
	sem_t waits;

	sem_init(&waits, 0, 0);
	for (int i = 0; i < 2; i++) {
		struct process *p = &both[i ? !first : first];

		*p = (struct process){ .rank = (int)(p - both), .size = 2 };
		use(inner, &p->user);
		p->user.waits = i ? NULL : &waits;
		assert_int_equal(pthread_create(&p->thread, NULL, meet_as_process, p), 0);
		if (i == 0)
			sem_wait(&waits);
	}
	for (int rank = 0; rank < 2; rank++) {
		pthread_join(both[rank].thread, NULL);
		if (both[rank].result)
			fail_msg("rank %d: %s", rank, tutti_strerror(both[rank].result));
		tutti_store_close(both[rank].user.store);
	}
	assert_true(both[0].rendezvous.id == both[1].rendezvous.id);
	sem_destroy(&waits);
}

/* How far a start came that died. */
enum left {
	NAMED,	    /* rank 0 has begun it … */
	HALF_NAMED, /* … or nearly … */
	OF_THREE,   /* … and there were more ranks */
	GAVE_UP,    /* until its deadline */
	COME,	    /* rank 1 has come, too */
	TOLD,	    /* and set its record */
	ALL_CAME,   /* which rank 0 got, and confirmed nothing yet */
	LEFT_COUNT
};

static uint64_t leave_behind(tutti_store_t inner, enum left left)
{
	const int size = left == OF_THREE ? 3 : 2;
	const struct tt_key none = { 0 };
	struct tt_records records = { 0 };
	struct tt_rendezvous of[2] = { { 0 } };
	struct user users[2];
	uint8_t current[64];
	size_t length = sizeof(current);
	const bool is_first = tutti_store_get(inner, "group/current", current, &length, 0);

	for (int rank = 0; rank < (left < COME ? 1 : 2); rank++) {
		use(inner, &users[rank]);
		assert_ok(tt_rendezvous(users[rank].store, "group", rank, size, patience(),
					&of[rank]));
	}
	if (left == HALF_NAMED && !is_first)
		assert_ok(tutti_store_set(inner, "group/current", current, length));
	if (left == TOLD || left == ALL_CAME)
		assert_ok(tt_gather_up(users[1].store, &of[1], &none, "old", 3, patience(),
				       &records));
	if (left == ALL_CAME)
		assert_ok(tt_rendezvous_met(users[0].store, &of[0]));
	if (left == GAVE_UP)
		tt_rendezvous_give_up(users[0].store, &of[0], TUTTI_ERR_TIMEOUT);
	for (int rank = 0; rank < (left < COME ? 1 : 2); rank++)
		tutti_store_close(users[rank].store);
	return of[0].id;
}

/* In one store, in which each leaves more than the one before; rank 0 comes first, or rank 1. */
TEST(what_starts_that_died_left_holds_up_no_other)
{
	tutti_store_t inner = open_store(true);
	struct process both[2];

	for (int first = 0; first < 2; first++) {
		for (int left = 0; left < LEFT_COUNT; left++) {
			const uint64_t one = leave_behind(inner, HALF_NAMED),
				       other = leave_behind(inner, left);

			start(inner, first, both);
			assert_true(both[0].rendezvous.id != one && both[0].rendezvous.id != other);
		}
	}
	tutti_store_close(inner);
}

TEST(who_differs_from_a_slow_rank_0_is_told_of_that)
{
	tutti_store_t inner = open_store(true);
	struct process both[2] = { { .size = 2 }, { .rank = 1, .size = 3 } };
	sem_t looked;

	sem_init(&looked, 0, 0);
	for (int rank = 0; rank < 2; rank++)
		use(inner, &both[rank].user);
	assert_ok(
		tt_rendezvous(both[0].user.store, "group", 0, 2, patience(), &both[0].rendezvous));
	both[0].user.says_so = both[1].user.looked = &looked;
	assert_int_equal(pthread_create(&both[1].thread, NULL, meet_as_process, &both[1]), 0);
	assert_int_equal(exchange(both[0].user.store, &both[0].rendezvous, "a record"),
			 TUTTI_ERR_INVALID);
	tt_rendezvous_give_up(both[0].user.store, &both[0].rendezvous, TUTTI_ERR_INVALID);
	pthread_join(both[1].thread, NULL);
	assert_int_equal(both[1].result, TUTTI_ERR_INVALID);
	assert_says(both[1].text, "rank 1 was told that there are 3 ranks");
	for (int rank = 0; rank < 2; rank++)
		tutti_store_close(both[rank].user.store);
	sem_destroy(&looked);
	tutti_store_close(inner);
}

TEST(who_meets_again_asks_as_often_as_at_first)
{
	tutti_store_t inner = open_store(true);
	struct process both[2];

	for (int first = 0; first < 2; first++) {
		for (int time = 0; time < 2; time++) {
			start(inner, first, both);
			/* and now and then whether what they wait for has ended */
			assert_in_range(both[0].user.gets, 3, 6);
			assert_int_equal(both[0].user.sets, 5);
			assert_in_range(both[1].user.gets, 3, 8);
			assert_int_equal(both[1].user.sets, 3);
		}
	}
	tutti_store_close(inner);
}

/* Of two that come at once, nobody sees the other: rank 0 has the record of one. */
TEST_WITH(who_is_not_taken_for_its_rank_waits_for_the_next_rendezvous, serve, end_serving)
{
	const struct tt_key none = { 0 };
	struct tt_records records = { 0 };

	comes(0, 2);
	comes(1, 2);
	assert_ok(tt_gather_up(served, &met[1], &none, "one", 3, patience(), &records));
	assert_ok(exchange(served, &met[0], "zero"));
	assert_int_equal(exchange(served, &met[1], "other"), TT_SUPERSEDED);
	assert_true(tt_rendezvous_goes_on(served, &met[1], TT_SUPERSEDED));
	assert_int_equal(tt_rendezvous(served, "group", 1, 2, soon(), &met[1]), TUTTI_ERR_TIMEOUT);
}

/* In a store that may have several, rank 0's next one ends that before, and who is there goes on. */
TEST_WITH(who_waits_in_a_rendezvous_that_is_followed_goes_on, serve, end_serving)
{
	tutti_store_t client = open_store(false);

	comes(0, 2);
	assert_ok(tt_rendezvous(client, "group", 1, 2, patience(), &met[1]));
	comes(0, 2);
	assert_int_equal(exchange(client, &met[1], "one"), TT_SUPERSEDED);
	tutti_store_close(client);
}

/* All have come, and rank 1, which nobody would wait for first, goes no further. */
TEST_WITH(who_came_but_went_no_further_is_named, serve, end_serving)
{
	const struct tt_key none = { 0 };
	struct tt_records records = { 0 };
	char key[TT_RANK_KEY_MAX];

	for (int rank = 0; rank < 4; rank++)
		comes(rank, 4);
	/* rank 0 needs what rank 1 tells for its own */
	for (int rank = 2; rank < 4; rank++) {
		tt_rendezvous_rank_key(&met[rank], rank, key);
		assert_ok(tutti_store_set(served, key, "records", 7));
	}
	assert_int_equal(tt_gather_down(served, &met[2], &none, soon(), &records),
			 TUTTI_ERR_TIMEOUT);
	assert_string_equal(
		tt_thread_error(),
		"rank 1 came to the rendezvous of 4 ranks, but has not gone on with it by "
		"rank 2's deadline: died or stopped?");
}

/* Rank 0 has met all, and closes at the deadline at which the others, which have not, give up. */
TEST(what_a_rank_saw_counts_more_than_that_the_host_is_gone)
{
	struct tt_rendezvous rendezvous = { 0 };
	tutti_store_t host = open_store(true), store = open_store(false);

	assert_ok(tutti_store_set(store, "group/current", (uint64_t[]){ 12345678, 0, 3 }, 24));
	assert_ok(tt_rendezvous(store, "group", 1, 3, patience(), &rendezvous));
	host->close_by = tt_now();
	tutti_store_close(host);
	tt_thread_error_set("rank 2 does not answer");
	assert_int_equal(tt_rendezvous_give_up(store, &rendezvous, TUTTI_ERR_TIMEOUT),
			 TUTTI_ERR_TIMEOUT);
	assert_string_equal(tt_thread_error(), "rank 2 does not answer");
	tutti_store_close(store);
}

/* Who has joined may call tutti_comm_abort() while others still do. */
TEST_WITH(an_abort_of_the_new_communicator_is_no_other_rendezvous, serve, end_serving)
{
	comes(0, 2);
	assert_true(tt_rendezvous_goes_on(served, &met[0], TT_SUPERSEDED));
	assert_false(tt_rendezvous_goes_on(served, &met[0], TUTTI_ERR_ABORTED));
	assert_int_equal(tt_rendezvous_give_up(served, &met[0], TUTTI_ERR_ABORTED),
			 TUTTI_ERR_ABORTED);
}

static int set_nothing(void *context, const char *key, const void *value, size_t length)
{
	return 0;
}

/* Fails once, where a rank waits for rank 0. */
static int fail_to_get(void *context, const char *key, void *value, size_t *length,
		       double timeout_s)
{
	int *gets = context;
	const bool fails = *gets == 0 && strstr(key, "/next/");

	*gets += fails || *gets > 0;
	return fails ? EIO : ETIMEDOUT;
}

TEST(who_loses_the_store_waits_for_nobody)
{
	const tutti_store_ops_t ops = { sizeof(ops), set_nothing, fail_to_get, NULL };
	struct tt_rendezvous rendezvous = { 0 };
	tutti_store_t store;
	int gets = 0; /* from the failure on */

	assert_ok(tutti_store_create(&ops, &gets, &store));
	assert_int_equal(come_and_meet(store, 1, 2, patience(), &rendezvous), TUTTI_ERR_SYSTEM);
	assert_in_range(gets, 1, 1000000); /* in a millisecond; its deadline is 20 s */
	tutti_store_close(store);
}

/* A store of the test's, in which nothing is. */
static uint64_t least_answer; /* that its host was given, where it is to answer at once */

static tutti_result_t keep_nothing(tutti_store_t store, const char *key, const void *value,
				   size_t length, uint64_t timeout_ns)
{
	if (timeout_ns < least_answer)
		least_answer = timeout_ns;
	return TUTTI_OK;
}

static tutti_result_t have_nothing(tutti_store_t store, const char *key, void *value,
				   size_t *length, uint64_t timeout_ns, uint64_t answer_ns)
{
	if (timeout_ns == 0 && answer_ns < least_answer)
		least_answer = answer_ns;
	return TUTTI_IN_PROGRESS;
}

static void attend_nothing(tutti_store_t store, const struct tt_attendance *attendance)
{
}

static tutti_result_t hear_nothing(tutti_store_t store)
{
	return TUTTI_OK;
}

/* It may have much to do, as when hundreds of ranks start at once. */
TEST(a_host_has_as_long_to_answer_as_ranks_have_to_come)
{
	const struct tt_store_ops ops = { .set = keep_nothing,
					  .get = have_nothing,
					  .attend = attend_nothing,
					  .poll = hear_nothing };
	struct tutti_store store = { .ops = &ops };
	struct tt_rendezvous rendezvous = { 0 };
	const uint64_t begun = tt_now();

	least_answer = UINT64_MAX;
	assert_ok(tt_rendezvous(&store, "group", 0, 2, patience(), &rendezvous));
	assert_in_range(least_answer, (uint64_t)(PATIENCE_S * 1e9) - (tt_now() - begun),
			(uint64_t)(PATIENCE_S * 1e9));
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
