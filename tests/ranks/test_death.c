/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank ends, in one way or another, at one moment or another: the others are told which, within
 * a second, and nothing is left behind.
 *
 *   test_death shm|tcp|mixed */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define RANKS	  4
#define SOON_S	  bound_s(1.0)
#define AT_ONCE_S bound_s(0.2)
#define LARGE	  (64u << 20)

/* Shared by all ranks of a job. */
struct stage {
	atomic_int joined;
	atomic_int ready;	 /* ranks that are about to wait */
	_Atomic double ended_at; /* when the victim ended; 0: it has not */
	_Atomic pid_t pid;	 /* of the victim */
	char said[RANKS][640];	 /* what each survivor was told */
};

struct play {
	const struct death *death;
	int victim;
	struct stage *stage;
};

struct scene {
	const struct play *play;
	tutti_comm_t comm;
	int rank;
	float *send, *recv;
};

struct death {
	/* The survivors' part: what they call while the victim ends, or after. */
	tutti_result_t (*wait)(struct scene *s);
	/* The victim's part, up to its end. */
	void (*end)(struct scene *s);
	bool killed; /* by a signal */
	tutti_result_t result;
	const char *words; /* of the error message */
};

static void await(struct scene *s, int ready)
{
	await_count(&s->play->stage->ready, ready);
}

static void be_ready(struct scene *s)
{
	atomic_fetch_add(&s->play->stage->ready, 1);
}

static void await_end(struct scene *s)
{
	while (atomic_load(&s->play->stage->ended_at) == 0)
		look_again();
}

static void ends_now(struct scene *s)
{
	atomic_store(&s->play->stage->ended_at, seconds_now());
}

static void die(struct scene *s)
{
	ends_now(s);
	raise(SIGKILL);
}

static tutti_result_t sum(struct scene *s, size_t bytes, tutti_request_t *request)
{
	return tutti_all_reduce(s->comm, s->send, s->recv, bytes / sizeof(float), TUTTI_FLOAT32,
				TUTTI_SUM, request);
}

/* ---- what the survivors do */

static tutti_result_t call_after_the_end(struct scene *s)
{
	be_ready(s);
	await_end(s);
	return sum(s, 8, NULL);
}

static tutti_result_t wait_in_barrier(struct scene *s)
{
	be_ready(s);
	return tutti_barrier(s->comm, NULL);
}

static tutti_result_t sum_for_ever(struct scene *s)
{
	tutti_result_t result;

	do
		result = sum(s, 8, NULL);
	while (!result);
	return result;
}

static tutti_result_t sum_much(struct scene *s)
{
	return sum(s, LARGE, NULL);
}

static tutti_result_t wait_for_requests(struct scene *s)
{
	tutti_request_t requests[10] = { NULL };
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < 10 && !result; i++)
		result = tutti_all_reduce(s->comm, s->send + i, s->recv + i, 1, TUTTI_FLOAT32,
					  TUTTI_SUM, &requests[i]);
	be_ready(s);
	const tutti_result_t waited = tutti_wait_all(requests, 10);
	return result ? result : waited;
}

static tutti_result_t receive_from_victim(struct scene *s)
{
	be_ready(s);
	return tutti_recv(s->comm, s->recv, LARGE / 16, TUTTI_FLOAT32, s->play->victim, NULL);
}

/* Only what is on its way can come: not all of it. */
static tutti_result_t receive_after_the_end(struct scene *s)
{
	be_ready(s);
	await_end(s);
	return tutti_recv(s->comm, s->recv, LARGE / sizeof(float), TUTTI_FLOAT32, s->play->victim,
			  NULL);
}

static tutti_result_t send_to_victim(struct scene *s)
{
	be_ready(s);
	return tutti_send(s->comm, s->send, LARGE / 16, TUTTI_FLOAT32, s->play->victim, NULL);
}

/* The lowest survivor kills; the others wait with the victim. */
static tutti_result_t kill_the_waiting(struct scene *s)
{
	const struct play *play = s->play;

	be_ready(s);
	if (s->rank == (play->victim == 0)) {
		await(s, RANKS);
		ends_now(s);
		kill(atomic_load(&play->stage->pid), SIGKILL);
	}
	const tutti_result_t result =
		tutti_barrier(s->comm, NULL); /* which the victim may have entered */
	return result ? result : tutti_barrier(s->comm, NULL);
}

/* ---- how the victim ends */

static void die_idle(struct scene *s)
{
	await(s, RANKS - 1);
	die(s);
}

static void die_in_small_sums(struct scene *s)
{
	for (int i = 0; i < 100; i++)
		sum(s, 8, NULL);
	die(s);
}

static void die_in_a_large_sum(struct scene *s)
{
	tutti_request_t request = NULL;

	sum(s, LARGE, &request);
	for (int i = 0; i < 20; i++)
		tutti_test(&request);
	die(s);
}

static void die_sending(struct scene *s)
{
	const int to = s->play->victim == 0 ? 1 : 0;
	tutti_request_t request = NULL;

	await(s, RANKS - 1);
	tutti_send(s->comm, s->send, LARGE / sizeof(float), TUTTI_FLOAT32, to, &request);
	tutti_test(&request);
	die(s);
}

static void be_killed_waiting(struct scene *s)
{
	be_ready(s);
	tutti_barrier(s->comm, NULL);
}

static void leave_without_destroy(struct scene *s)
{
	await(s, RANKS - 1);
	ends_now(s);
	_exit(0);
}

static void destroy_early(struct scene *s)
{
	await(s, RANKS - 1);
	ends_now(s);
	tutti_comm_destroy(s->comm);
	s->comm = NULL;
}

static void abort_for_a_reason(struct scene *s)
{
	await(s, RANKS - 1);
	ends_now(s);
	tutti_comm_abort(s->comm, "the disk is full");
}

/* ---- a rank */

static int survive(struct scene *s)
{
	const struct play *play = s->play;
	const tutti_comm_t comm = s->comm;
	char victim[16], text[640];
	const tutti_result_t result = play->death->wait(s);
	const double after = seconds_now() - atomic_load(&play->stage->ended_at);

	snprintf(text, sizeof(text), "%s", tutti_last_error(comm));
	memcpy(play->stage->said[s->rank], text, sizeof(text));
	snprintf(victim, sizeof(victim), "rank %d ", play->victim);
	CLAIM(result == play->death->result, "result %d (%s), expected %d", result, text,
	      play->death->result);
	CLAIM(strstr(text, victim) && strstr(text, play->death->words),
	      "\"%s\" does not say \"%s … %s\"", text, victim, play->death->words);
	CLAIM(after < SOON_S, "told after %.3f s", after);
	const double start = seconds_now();
	CLAIM(tutti_barrier(comm, NULL) == result && sum(s, 8, NULL) == result,
	      "later calls differ");
	CLAIM(strcmp(text, tutti_last_error(comm)) == 0, "the sentence became \"%s\"",
	      tutti_last_error(comm));
	CLAIM(seconds_now() - start < AT_ONCE_S, "later calls took %.3f s", seconds_now() - start);
	return 0;
}

static int play_rank(int rank, void *argument)
{
	const struct play *play = argument;
	struct scene s = { .play = play, .rank = rank };
	tutti_comm_t comm = NULL;
	void *memory;
	int failed = 0;

	SUCCEEDS(tutti_mem_alloc(1, &memory)); /* the heap's descriptor stays with the process */
	tutti_mem_free(memory);
	if (rank == play->victim)
		atomic_store(&play->stage->pid, getpid());
	const int descriptors = open_descriptors();
	SUCCEEDS(tutti_init(NULL, &comm));
	meet_at(&play->stage->joined, RANKS); /* nobody is in tutti_init() any more */
	s.comm = comm;
	s.send = calloc(1, LARGE);
	s.recv = calloc(1, LARGE);
	if (rank == play->victim)
		play->death->end(&s);
	else
		failed = survive(&s);
	tutti_comm_destroy(s.comm);
	const int left = open_descriptors();
	CLAIM(left == descriptors, "%d descriptors were open before, %d are after", descriptors,
	      left);
	free(s.send);
	free(s.recv);
	return failed;
}

/* ---- the parent */

/* Folders are those of recorders, and of other programs' tests. */
static int shm_files(void)
{
	DIR *directory = opendir("/dev/shm");
	struct dirent *entry;
	int n = 0;

	while (directory && (entry = readdir(directory)))
		n += entry->d_type == DT_REG && strstr(entry->d_name, "tutti") != NULL;
	if (directory)
		closedir(directory);
	return n;
}

static void all_say_the_same(const struct stage *stage, int victim)
{
	const int first = victim == 0;

	for (int rank = first + 1; rank < RANKS; rank++)
		if (rank != victim)
			assert_string_equal(stage->said[rank], stage->said[first]);
}

static void all_are_told(const struct death *death)
{
	static const int victims[] = { 0, 2, RANKS - 1 };
	struct stage *stage = shared_memory(sizeof(*stage));
	const int files = shm_files();

	for (int i = 0; i < 3; i++) {
		struct play play = { death, victims[i], stage };
		const struct job job = { .ranks = RANKS,
					 .whole = play_rank,
					 .argument = &play,
					 .limit_s = 20,
					 .expect_signal = death->killed ? SIGKILL : 0,
					 .victims = 1u << victims[i] };

		memset(stage, 0, sizeof(*stage));
		assert_int_equal(run_job(&job), 0);
		all_say_the_same(stage, victims[i]);
	}
	assert_int_equal(shm_files(), files);
}

#define TEST(name, wait, end, killed, result, words)                                               \
	static void name(void **state)                                                             \
	{                                                                                          \
		static const struct death death = { wait, end, killed, result, words };            \
		all_are_told(&death);                                                              \
	}
#define LOST TUTTI_ERR_PEER_LOST

TEST(the_death_of_an_idle_rank_ends_the_next_call, call_after_the_end, die_idle, true, LOST, "died")
TEST(a_death_ends_a_loop_of_small_sums, sum_for_ever, die_in_small_sums, true, LOST, "died")
TEST(a_death_ends_a_sum_of_64_mib, sum_much, die_in_a_large_sum, true, LOST, "died")
TEST(a_death_ends_the_barrier_that_others_wait_in, wait_in_barrier, die_idle, true, LOST, "died")
TEST(a_rank_killed_in_a_barrier_is_named, kill_the_waiting, be_killed_waiting, true, LOST, "died")
TEST(a_death_ends_pending_requests, wait_for_requests, die_idle, true, LOST, "died")
TEST(a_death_ends_receives, receive_from_victim, die_idle, true, LOST, "died")
TEST(a_death_while_sending_ends_receives, receive_after_the_end, die_sending, true, LOST, "died")
TEST(a_death_ends_sends, send_to_victim, die_idle, true, LOST, "died")
TEST(a_rank_that_exits_without_destroy_has_died, wait_in_barrier, leave_without_destroy, false,
     LOST, "died")
TEST(destroying_early_ends_what_others_wait_for, wait_in_barrier, destroy_early, false, LOST,
     "left")
TEST(destroying_early_ends_later_calls, call_after_the_end, destroy_early, false, LOST, "left")
TEST(an_abort_reaches_who_waits, wait_in_barrier, abort_for_a_reason, false, TUTTI_ERR_ABORTED,
     "aborted the communicator: the disk is full")
TEST(an_abort_reaches_who_sums_much, wait_for_requests, abort_for_a_reason, false,
     TUTTI_ERR_ABORTED, "the disk is full")
TEST(an_abort_ends_later_calls, call_after_the_end, abort_for_a_reason, false, TUTTI_ERR_ABORTED,
     "the disk is full")

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_death_of_an_idle_rank_ends_the_next_call),
		cmocka_unit_test(a_death_ends_a_loop_of_small_sums),
		cmocka_unit_test(a_death_ends_a_sum_of_64_mib),
		cmocka_unit_test(a_death_ends_the_barrier_that_others_wait_in),
		cmocka_unit_test(a_rank_killed_in_a_barrier_is_named),
		cmocka_unit_test(a_death_ends_pending_requests),
		cmocka_unit_test(a_death_ends_receives),
		cmocka_unit_test(a_death_while_sending_ends_receives),
		cmocka_unit_test(a_death_ends_sends),
		cmocka_unit_test(a_rank_that_exits_without_destroy_has_died),
		cmocka_unit_test(destroying_early_ends_what_others_wait_for),
		cmocka_unit_test(destroying_early_ends_later_calls),
		cmocka_unit_test(an_abort_reaches_who_waits),
		cmocka_unit_test(an_abort_reaches_who_sums_much),
		cmocka_unit_test(an_abort_ends_later_calls),
	};

	if (choose_transport(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
