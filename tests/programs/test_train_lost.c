/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train loses ranks: it goes on with fewer of them or with replacements, and ends as if
 * nothing had been. The environment names the programs and the data: TEST_RUN, TEST_TRAIN,
 * DIGITS; and TRAIN_DEVICE, host or cuda. With an argument: in the other ways to train, on the
 * host. */
#include <glob.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launched.h"
#include "train_jobs.h"

#include <jansson.h>

enum { RANKS = 4, EPOCHS_MAX = 130, STEPS_OF_EPOCH = 23, LOSSES_MAX = 8 };

/* Slow enough to be met in the middle by a test that waits for a core, fast enough for a test: on
 * the stand-in for a GPU an epoch takes many times as long. */
static int epochs = EPOCHS_MAX;
static int started = RANKS; /* by the last job */
#define TRAINING                                                                                             \
	"echo pid $$; exec \"$TEST_TRAIN\" --data \"$DIGITS\" --json \"$TRAIN_LOG\" --epochs $TRAIN_EPOCHS " \
	"--device $TRAIN_DEVICE --dtype f64 --bucket 64K $TRAIN_MORE"

static char path[] = "/tmp/tutti-train-lost-XXXXXX";
/* ---- the log */

struct outcome {
	double accuracy, train_loss[EPOCHS_MAX];
	int epochs, ranks;
	long steps_begun;
	int losses;
	struct {
		int lost_count, lost[RANKS];
		int before, after, replaced;
		bool by_deadline;
	} loss[LOSSES_MAX];
	bool ended;
};

static long number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return (long)json_integer_value(value);
}

static void take_loss(const json_t *object, struct outcome *o)
{
	const json_t *lost = json_object_get(object, "lost");
	const int i = o->losses++;

	assert_true(i < LOSSES_MAX);
	o->loss[i].lost_count = (int)number_of(object, "lost_count");
	assert_int_equal(json_array_size(lost), o->loss[i].lost_count);
	for (int k = 0; k < o->loss[i].lost_count; k++)
		o->loss[i].lost[k] = (int)json_integer_value(json_array_get(lost, (size_t)k));
	o->loss[i].before = (int)number_of(object, "ranks_before");
	o->loss[i].after = (int)number_of(object, "ranks_after");
	o->loss[i].replaced = (int)number_of(object, "replaced");
	o->loss[i].by_deadline =
		strcmp(json_string_value(json_object_get(object, "how")), "deadline") == 0;
	assert_true(json_real_value(json_object_get(object, "recovery_s")) > 0);
	assert_true(json_string_length(json_object_get(object, "cause")) > 0);
}

/* Every rank that was there at the end holds the same weights. */
static void take_end(const json_t *object, struct outcome *o)
{
	const json_t *weights = json_object_get(object, "weights");

	o->ended = true;
	o->ranks = (int)number_of(object, "ranks");
	o->accuracy = json_number_value(json_object_get(object, "test_accuracy"));
	o->steps_begun = number_of(object, "steps_begun");
	assert_int_equal(number_of(object, "steps"), epochs * STEPS_OF_EPOCH);
	assert_int_equal(number_of(object, "losses"), o->losses);
	assert_int_equal(json_array_size(weights), o->ranks);
	for (int r = 1; r < o->ranks; r++)
		assert_string_equal(json_string_value(json_array_get(weights, (size_t)r)),
				    json_string_value(json_array_get(weights, 0)));
}

static void take_epoch(const json_t *object, struct outcome *o)
{
	assert_true(o->epochs < epochs);
	o->train_loss[o->epochs++] = json_real_value(json_object_get(object, "train_loss"));
	assert_int_equal(number_of(object, "epoch"), o->epochs);
}

static void take_line(const char *line, struct outcome *o)
{
	json_error_t error;
	json_t *object = json_loads(line, 0, &error);
	const char *event;

	if (!object)
		fail_msg("not JSON: %s", line);
	event = json_string_value(json_object_get(object, "event"));
	if (strcmp(event, "epoch") == 0)
		take_epoch(object, o);
	else if (strcmp(event, "loss") == 0)
		take_loss(object, o);
	else if (strcmp(event, "end") == 0)
		take_end(object, o);
	else
		assert_int_equal(number_of(object, "ranks"), started);
	json_decref(object);
}

static struct outcome read_log(void)
{
	struct outcome o = { 0 };
	char line[8192];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		take_line(line, &o);
	fclose(file);
	return o;
}

static struct outcome read_whole_log(const struct launched *l)
{
	const struct outcome o = read_log();

	if (!o.ended)
		launched_fail(l, "the log has no end");
	assert_int_equal(o.epochs, epochs);
	return o;
}

/* ---- the job */

static void start_on(struct launched *l, const char *ranks, const char *least, const char *restarts)
{
	const char *argv[] = { getenv("TEST_RUN"), "-n",     ranks, "--min-ranks", least,
			       "--restart",	   restarts, "--",  "/bin/sh",	   "-c",
			       TRAINING,	   NULL };

	started = atoi(ranks);
	launched_start(l, argv);
	launched_await(l, 0, "pid ", started);
}

static void start(struct launched *l, const char *least, const char *restarts)
{
	start_on(l, "4", least, restarts);
}

static void finish(struct launched *l, struct outcome *o)
{
	const int status = launched_finish(l);

	if (status != 0)
		launched_fail(l, "exit status %d", status);
	*o = read_whole_log(l);
}

/* Of the way to train that TRAIN_MORE says: without velocity none is lost with a rank. */
static bool has_momentum(void)
{
	return !strstr(getenv("TRAIN_MORE"), "--momentum 0");
}

/* By the usual way, on four ranks. */
static const struct outcome *undisturbed(void)
{
	static struct outcome of[2];
	struct outcome *o = &of[has_momentum()];
	struct launched l;
	char *more;

	if (o->ended)
		return o;
	more = strdup(getenv("TRAIN_MORE"));
	setenv("TRAIN_MORE", has_momentum() ? "" : "--momentum 0", 1);
	start(&l, "4", "0");
	finish(&l, o);
	launched_free(&l);
	setenv("TRAIN_MORE", more, 1);
	free(more);
	assert_int_equal(o->losses, 0);
	assert_int_equal(o->steps_begun, epochs * STEPS_OF_EPOCH);
	assert_true(o->accuracy > 0.9);
	return o;
}

/* The loss of every epoch is that of the undisturbed training but for the order in which numbers
 * of other slices add up: a batch that counts twice or not at all changes it by more. The
 * reporting rank was there from the start: it has begun no step but those of the training, and
 * again at each loss that in flight, or on a GPU those of the epoch. */
static void expect_as_if_nothing_had_been(const struct outcome *o)
{
	/* what is sent in shares may not have come everywhere in the step before, either */
	const int again = strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0 ? STEPS_OF_EPOCH
			  : strstr(getenv("TRAIN_MORE"), "--sync")    ? 2
								      : 1;
	const struct outcome *all = undisturbed();

	for (int e = 0; e < epochs; e++)
		if (!(fabs(o->train_loss[e] - all->train_loss[e]) <= 1e-6 * all->train_loss[e]))
			fail_msg("epoch %d: the loss is %.9g, expected %.9g", e + 1,
				 o->train_loss[e], all->train_loss[e]);
	assert_float_equal(o->accuracy, all->accuracy, 1e-3);
	assert_true(o->steps_begun <= epochs * STEPS_OF_EPOCH + o->losses * again);
}

/* All epochs are there, and what ended the job came before the report of its end: a rank that was
 * done had left already, and the victim is not replaced then. */
static bool over_but_for_the_report(int status, const struct outcome *o)
{
	return status != 0 && !o->ended && o->losses == 0 && o->epochs == epochs;
}

/* false: the training was over before all victims were met, since this process had to wait for a
 * core */
static bool kill_in_time(const int *victims, int count, struct launched *l, struct outcome *o)
{
	bool met = true;
	int status;

	let_train(l, 2 + (int)draw(8));
	for (int i = 0; i < count; i++)
		met = kill(pid_of(l, victims[i], 1), SIGKILL) == 0 && met;
	status = launched_finish(l);
	*o = read_log();
	if (over_but_for_the_report(status, o))
		return false;
	*o = read_whole_log(l);
	if (!met || o->losses == 0)
		return false;
	if (status != 0)
		launched_fail(l, "exit status %d", status);
	return true;
}

static void lose(const int *victims, int count, const char *least, const char *restarts)
{
	const int replaced = atoi(restarts) < count ? atoi(restarts) : count;
	struct launched l;
	struct outcome o;
	int lost = 0, tries = 5;

	for (start(&l, least, restarts); !kill_in_time(victims, count, &l, &o);
	     start(&l, least, restarts)) {
		launched_free(&l);
		assert_true(--tries > 0);
	}
	expect_as_if_nothing_had_been(&o);
	assert_int_equal(o.ranks, RANKS - count + replaced);
	/* two that die at once may be two losses */
	for (int i = 0; i < o.losses; i++)
		lost += o.loss[i].lost_count;
	assert_int_equal(lost, count);
	assert_int_equal(o.loss[0].before, RANKS);
	assert_int_equal(o.loss[o.losses - 1].after, o.ranks);
	for (int i = 0; i < o.loss[0].lost_count; i++)
		assert_true(o.loss[0].lost[i] == victims[0] ||
			    o.loss[0].lost[i] == victims[count - 1]);
	assert_int_equal(count_of(launched_out(&l), "lost rank"), o.losses);
	launched_free(&l);
}

static void the_first_rank_may_be_lost(void **state)
{
	lose((const int[]){ 0 }, 1, "2", "0");
}

static void one_in_the_middle_may_be_lost(void **state)
{
	lose((const int[]){ 2 }, 1, "2", "0");
}

static void the_last_rank_may_be_lost(void **state)
{
	lose((const int[]){ 3 }, 1, "3", "0");
}

static void two_may_be_lost_at_once(void **state)
{
	lose((const int[]){ 0, 2 }, 2, "2", "0");
	lose((const int[]){ 1, 3 }, 2, "1", "0");
}

static void a_lost_rank_is_replaced(void **state)
{
	lose((const int[]){ 1 }, 1, "2", "1");
	lose((const int[]){ 0 }, 1, "4", "1");
}

static void two_are_replaced_or_one_of_them(void **state)
{
	lose((const int[]){ 0, 3 }, 2, "1", "2");
	lose((const int[]){ 1, 2 }, 2, "1", "1");
}

/* The replacement is a process that does nothing. */
static void a_replacement_that_does_not_come_is_gone_on_without(void **state)
{
	const char *argv[] = { getenv("TEST_RUN"),
			       "-n",
			       "4",
			       "--min-ranks",
			       "2",
			       "--restart",
			       "1",
			       "--",
			       "/bin/sh",
			       "-c",
			       "[ \"$TUTTI_JOIN\" ] && echo pid $$ && exec sleep 1000; " TRAINING
			       " --wait 0.7",
			       NULL };
	struct launched l;
	struct outcome o;
	int status;

	launched_start(&l, argv);
	launched_await(&l, 0, "pid ", RANKS);
	let_train(&l, 2);
	kill(pid_of(&l, 3, 1), SIGKILL);
	launched_await(&l, 1, "tutti-train: going on without 1 replacement: ", 1);
	kill(pid_of(&l, 3, 2), SIGKILL);
	/* if the others had all ended well, it is the first to fail */
	status = launched_finish(&l);
	assert_true(status == 0 || status == 128 + SIGKILL);
	o = read_whole_log(&l);
	assert_int_equal(o.losses, 1);
	assert_int_equal(o.loss[0].replaced, 0);
	assert_int_equal(o.ranks, 3);
	expect_as_if_nothing_had_been(&o);
	launched_free(&l);
}

static void one_after_the_other_may_be_lost(void **state)
{
	struct launched l;
	struct outcome o;

	start(&l, "1", "1");
	let_train(&l, 2);
	kill(pid_of(&l, 0, 1), SIGKILL);
	launched_await(&l, 0, "lost rank 0 ", 1);
	let_train(&l, 2);
	/* the rank that reports now, and then the replacement */
	kill(pid_of(&l, 1, 1), SIGKILL);
	launched_await(&l, 0, "lost rank 1 ", 1);
	let_train(&l, 2);
	kill(pid_of(&l, 0, 2), SIGKILL);
	launched_await(&l, 0, "lost rank 0 ", 2);
	finish(&l, &o);
	assert_int_equal(o.losses, 3);
	assert_int_equal(o.loss[0].replaced, 1);
	assert_int_equal(o.loss[0].after, 4);
	assert_int_equal(o.loss[1].after, 3);
	assert_int_equal(o.ranks, 2);
	expect_as_if_nothing_had_been(&o);
	launched_free(&l);
}

static void no_rank_of_the_end_was_there_at_the_start(void **state)
{
	struct launched l;
	struct outcome o;

	start(&l, "3", "4");
	for (int r = 0; r < RANKS; r++) {
		char lost[32];

		let_train(&l, 1);
		kill(pid_of(&l, r, 1), SIGKILL);
		snprintf(lost, sizeof(lost), "lost rank %d ", r);
		launched_await(&l, 0, lost, 1);
	}
	finish(&l, &o);
	assert_int_equal(o.losses, RANKS);
	assert_int_equal(o.ranks, RANKS);
	expect_as_if_nothing_had_been(&o);
	launched_free(&l);
}

static void leave_out(int victim, bool same_curve)
{
	char text[64];
	struct launched l;
	struct outcome o;
	pid_t stuck;

	setenv("TUTTI_TIMEOUT", "4", 1);
	start(&l, "2", "0");
	unsetenv("TUTTI_TIMEOUT");
	let_train(&l, 3);
	stuck = pid_of(&l, victim, 1);
	kill(stuck, SIGSTOP);
	snprintf(text, sizeof(text), "lost rank %d ", victim);
	launched_await(&l, 0, text, 1);
	kill(stuck, SIGCONT);
	/* 1: the others had all ended well when it failed */
	assert_true(launched_finish(&l) <= 1);
	o = read_whole_log(&l);
	assert_int_equal(o.losses, 1);
	assert_true(o.loss[0].by_deadline);
	assert_int_equal(o.ranks, 3);
	if (same_curve)
		expect_as_if_nothing_had_been(&o);
	/* it learns that the others have gone on, and is a failed rank like any other */
	snprintf(text, sizeof(text), "tutti-train: rank %d: going on without lost ranks failed",
		 victim);
	assert_contains(launched_err(&l), text);
	snprintf(text, sizeof(text), "tutti-run: rank %d (pid ", victim);
	assert_contains(launched_err(&l), text);
	launched_free(&l);
}

static void a_rank_that_is_stuck_is_left_out(void **state)
{
	leave_out(2, true);
}

/* On GPUs there is one way. */
static void each_way_to_train_goes_on(void **state)
{
	static const char *const ways[] = { "--sync zero1 --momentum 0", "--sync local --every 1" };

	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		skip();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		setenv("TRAIN_MORE", ways[i], 1);
		lose((const int[]){ 0 }, 1, "2", "0");
		lose((const int[]){ 2, 3 }, 2, "1", "1");
		leave_out(2, true);
	}
	setenv("TRAIN_MORE", "", 1);
}

/* Of a curve of its own; the log says that all ranks have the same weights at the end. */
static void stays_alike_with_a_replacement(const char *options, const char *says)
{
	static const int victim[] = { 2 };
	struct launched l;
	struct outcome o;
	int tries = 5;

	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		skip();
	setenv("TRAIN_MORE", options, 1);
	for (start(&l, "4", "1"); !kill_in_time(victim, 1, &l, &o); start(&l, "4", "1")) {
		launched_free(&l);
		assert_true(--tries > 0);
	}
	assert_contains(launched_err(&l), says);
	launched_free(&l);
	assert_int_equal(o.ranks, RANKS);
	assert_int_equal(o.loss[0].replaced, 1);
	assert_true(o.accuracy > 0.9);
	setenv("TRAIN_MORE", "", 1);
}

static void outer_steps_stay_alike_with_a_replacement(void **state)
{
	stays_alike_with_a_replacement(
		"--sync local --every 3 --outer nesterov,0.7,0.9 --lr 0.02 --verify", "");
	stays_alike_with_a_replacement("--sync gossip --peers random --verify", "");
}

/* The sums of a step travel by themselves there. */
static void bfloat16_stays_alike_with_a_replacement(void **state)
{
	stays_alike_with_a_replacement("--dtype bf16 --verify", "");
	stays_alike_with_a_replacement(
		"--dtype bf16 --sync zero1 --verify",
		"tutti-train: the velocity of all weights was lost with a rank, and begins anew");
}

/* What was owed is forgotten, and factors begin anew, the same on all ranks. */
static void compressed_gradients_stay_alike_with_a_replacement(void **state)
{
	stays_alike_with_a_replacement("--dtype f32 --compress int8 --verify", "");
	stays_alike_with_a_replacement("--dtype f32 --compress topk:0.05 --verify", "");
	stays_alike_with_a_replacement("--dtype f32 --compress powersgd:2 --verify", "");
	setenv("TRAIN_MORE", "--dtype f32 --compress topk:0.05 --verify", 1);
	leave_out(2, false);
	setenv("TRAIN_MORE", "", 1);
}

/* Who keeps its shard keeps its velocity. */
static void workers_and_servers_may_be_lost(void **state)
{
	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		skip();
	setenv("TRAIN_MORE", "--sync ps", 1);
	lose((const int[]){ 2 }, 1, "2", "0");
	lose((const int[]){ 1, 3 }, 2, "2", "1");
	leave_out(3, true);
	setenv("TRAIN_MORE", "--sync ps --servers 2 --momentum 0", 1);
	lose((const int[]){ 0 }, 1, "3", "0");
	lose((const int[]){ 1 }, 1, "4", "1");
	setenv("TRAIN_MORE", "--sync ps --momentum 0", 1);
	leave_out(0, true);
	setenv("TRAIN_MORE", "", 1);
}

/* Nobody else has its layers. */
static void lose_a_stage(int victim, int sig)
{
	char expected[64];
	struct launched l;
	pid_t pid;

	if (sig == SIGSTOP)
		setenv("TUTTI_TIMEOUT", "2", 1);
	start(&l, "4", "0");
	unsetenv("TUTTI_TIMEOUT");
	let_train(&l, 2);
	pid = pid_of(&l, victim, 1);
	kill(pid, sig);
	/* whoever's deadline passes first names the one that it waits for, which waits itself perhaps */
	if (sig == SIGKILL)
		snprintf(expected, sizeof(expected), "rank %d (pid %ld) was killed", victim,
			 (long)pid);
	else
		snprintf(expected, sizeof(expected), "missed its deadline of 2 s: ");
	launched_await(&l, 1, expected, 1);
	kill(pid, SIGCONT);
	assert_int_not_equal(launched_finish(&l), 0);
	launched_free(&l);
}

static void a_lost_stage_ends_the_training_by_name(void **state)
{
	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		skip();
	setenv("TRAIN_MORE", "--parallel pipeline=2", 1);
	lose_a_stage(0, SIGKILL);
	lose_a_stage(3, SIGKILL);
	lose_a_stage(1, SIGSTOP);
	setenv("TRAIN_MORE", "--parallel pipeline=2,tensor=2", 1);
	lose_a_stage(2, SIGKILL);
	setenv("TRAIN_MORE", "--parallel pipeline --hidden 32,32,32 --sync zero1", 1);
	lose_a_stage(2, SIGSTOP);
	setenv("TRAIN_MORE", "", 1);
}

/* Nobody else has its rows. */
static void a_lost_part_of_the_samples_ends_the_training_by_name(void **state)
{
	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		skip();
	setenv("TRAIN_MORE", "--data synthetic:15000x64x10 --shard", 1);
	lose_a_stage(0, SIGKILL);
	lose_a_stage(3, SIGKILL);
	lose_a_stage(1, SIGSTOP);
	setenv("TRAIN_MORE", "", 1);
}

/* A replacement waits in tutti_init() for others that take nobody in, and end by `sig`. */
static void leave_alone(int sig, int status)
{
	const char *argv[] = { getenv("TEST_RUN"),
			       "-n",
			       "2",
			       "--min-ranks",
			       "1",
			       "--restart",
			       "1",
			       "--",
			       "/bin/sh",
			       "-c",
			       "trap 'exit 0' USR1; if [ \"$TUTTI_JOIN\" ]; then " TRAINING
			       "; fi; echo pid $$; while :; do sleep 0.02; done",
			       NULL };
	struct launched l;

	launched_start(&l, argv);
	launched_await(&l, 0, "pid ", 2);
	kill(pid_of(&l, 1, 1), SIGKILL);
	pid_of(&l, 1, 2);
	kill(pid_of(&l, 0, 1), sig);
	assert_int_equal(launched_finish(&l), status);
	assert_contains(launched_err(&l), "nobody is left to take replacements in; ending rank 1");
	launched_free(&l);
}

static void a_replacement_does_not_wait_for_the_dead(void **state)
{
	setenv("TUTTI_TIMEOUT", "100", 1);
	leave_alone(SIGUSR1, 0);
	leave_alone(SIGKILL, 128 + SIGKILL);
	unsetenv("TUTTI_TIMEOUT");
}

static void too_few_ranks_end_the_training(void **state)
{
	struct launched l;

	start(&l, "4", "0");
	let_train(&l, 2);
	kill(pid_of(&l, 1, 1), SIGKILL);
	assert_int_equal(launched_finish(&l), 128 + SIGKILL);
	assert_lacks(launched_out(&l), "lost rank");
	launched_free(&l);
}

/* Again and again, until it was met in the middle. */
static void train_until_killed(const char *save)
{
	struct launched l;
	int status, tries = 5;

	do {
		assert_true(tries-- > 0);
		unlink(save);
		start(&l, "4", "0");
		let_train(&l, 5 + (int)draw(20));
		kill(pid_of(&l, (int)draw(RANKS), 1), SIGKILL);
		status = launched_finish(&l);
		launched_free(&l);
	} while (status == 0);
}

/* On as many ranks it is the same bits; on others, as much as those would differ anyway. */
static void resume_on(const char *ranks)
{
	struct launched l;
	const struct outcome *all = undisturbed();
	const double most = strcmp(ranks, "4") == 0 ? 0 : 1e-9;
	struct outcome o;

	start_on(&l, ranks, ranks, "0");
	finish(&l, &o);
	assert_contains(launched_out(&l), "resumed after epoch ");
	launched_free(&l);
	assert_int_equal(o.ranks, atoi(ranks));
	assert_true(o.steps_begun < epochs * STEPS_OF_EPOCH);
	for (int e = 0; e < epochs; e++)
		if (!(fabs(o.train_loss[e] - all->train_loss[e]) <= most * all->train_loss[e]))
			fail_msg("epoch %d: the loss is %.17g, expected %.17g", e + 1,
				 o.train_loss[e], all->train_loss[e]);
}

static void a_killed_training_is_resumed_on_any_number_of_ranks(void **state)
{
	static const char *const each[][2] = { { "", "4" },
					       { "", "3" },
					       { "--sync local --every 1", "2" },
					       { "--sync zero1", "1" },
					       { "--sync ps", "3" } };
	char save[sizeof(path) + 8], options[128];

	snprintf(save, sizeof(save), "%s.saved", path);
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		if (*each[i][0] && strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
			continue; /* there is one way */
		snprintf(options, sizeof(options), "%s --save %s --every-epochs 3", each[i][0],
			 save);
		setenv("TRAIN_MORE", options, 1);
		train_until_killed(save);
		strcat(options, " --resume");
		setenv("TRAIN_MORE", options, 1);
		resume_on(each[i][1]);
		assert_int_equal(unlink(save), 0);
	}
	setenv("TRAIN_MORE", "", 1);
}

static int prepare(void **state)
{
	const int fd = mkstemp(path);

	char text[16];

	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		epochs = 40;
	snprintf(text, sizeof(text), "%d", epochs);
	setenv("TRAIN_EPOCHS", text, 1);
	seed = (unsigned long)time(NULL);
	print_message("seed %lu\n", seed);
	setenv("TRAIN_LOG", path, 1);
	setenv("TRAIN_MORE", "", 1);
	return fd < 0 || close(fd) < 0;
}

/* With what a killed rank had not written to its end. */
static int clean(void **state)
{
	char pattern[sizeof(path) + 16];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s.saved.*.tmp", path);
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
	globfree(&found);
	return unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_rank_may_be_lost),
		cmocka_unit_test(one_in_the_middle_may_be_lost),
		cmocka_unit_test(the_last_rank_may_be_lost),
		cmocka_unit_test(two_may_be_lost_at_once),
		cmocka_unit_test(a_lost_rank_is_replaced),
		cmocka_unit_test(two_are_replaced_or_one_of_them),
		cmocka_unit_test(a_replacement_that_does_not_come_is_gone_on_without),
		cmocka_unit_test(one_after_the_other_may_be_lost),
		cmocka_unit_test(no_rank_of_the_end_was_there_at_the_start),
		cmocka_unit_test(a_rank_that_is_stuck_is_left_out),
		cmocka_unit_test(a_killed_training_is_resumed_on_any_number_of_ranks),
		cmocka_unit_test(a_replacement_does_not_wait_for_the_dead),
		cmocka_unit_test(too_few_ranks_end_the_training),
	};
	const struct CMUnitTest ways[] = {
		cmocka_unit_test(each_way_to_train_goes_on),
		cmocka_unit_test(outer_steps_stay_alike_with_a_replacement),
		cmocka_unit_test(bfloat16_stays_alike_with_a_replacement),
		cmocka_unit_test(compressed_gradients_stay_alike_with_a_replacement),
		cmocka_unit_test(workers_and_servers_may_be_lost),
		cmocka_unit_test(a_lost_stage_ends_the_training_by_name),
		cmocka_unit_test(a_lost_part_of_the_samples_ends_the_training_by_name),
	};
	/* those in which memory of a GPU is in the way */
	const struct CMUnitTest on_gpu[] = {
		cmocka_unit_test(a_lost_rank_is_replaced),
		cmocka_unit_test(one_after_the_other_may_be_lost),
		cmocka_unit_test(a_rank_that_is_stuck_is_left_out),
		cmocka_unit_test(a_killed_training_is_resumed_on_any_number_of_ranks),
	};

	setenv("TRAIN_DEVICE", "host", 0);
	if (argc > 1)
		return cmocka_run_group_tests(ways, prepare, clean);
	if (strcmp(getenv("TRAIN_DEVICE"), "cuda") == 0)
		return cmocka_run_group_tests(on_gpu, prepare, clean);
	return cmocka_run_group_tests(tests, prepare, clean);
}
