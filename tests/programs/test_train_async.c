/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train --sync async: what one rank makes of the journal has the same bits, and workers that
 * are lost, stopped or replaced stop nobody. The environment names the programs and the data:
 * TEST_RUN, TEST_TRAIN, DIGITS. */
#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "launched.h"

#include "async/journal.h"
#include "async/tasks.h"
#include "team.h"
#include "train_files.h"
#include "train_jobs.h"
#include <jansson.h>

enum { EPOCHS_MAX = 400, STALENESS_BINS = 64 };

/* ---- a list of tasks */

static void tasks_go_to_whoever_comes(void **state)
{
	struct tasks tasks = { 0 };
	struct why why;

	assert_int_equal(tasks_create(3, &tasks, &why), TUTTI_OK);
	tasks_begin(&tasks, 30);
	assert_int_equal(tasks_take(&tasks, 0, 1, 0), 30);
	assert_int_equal(tasks_take(&tasks, 1, 1, 0), 31);
	assert_int_equal(tasks_take(&tasks, 0, 1, 0), 32);
	assert_true(tasks_take(&tasks, 1, 1, 1) == TASK_NONE);
	tasks_finish_one(&tasks, 1, 31);
	tasks_finish_one(&tasks, 1, 31); /* twice is once */
	tasks_finish_one(&tasks, 1, 29); /* of the epoch before */
	assert_int_equal(tasks.done, 1);
	tasks_finish_one(&tasks, 1, 32); /* another worker's */
	assert_int_equal(tasks.done, 1);
	tasks_finish_one(&tasks, 0, 32);
	tasks_finish_one(&tasks, 0, 30);
	assert_true(tasks_all_done(&tasks));
	tasks_begin(&tasks, 33);
	assert_false(tasks_all_done(&tasks));
	assert_int_equal(tasks_take(&tasks, 1, 1, 0), 33);
	tasks_finish(&tasks);
}

static void lost_tasks_go_first_and_late_ones_twice(void **state)
{
	struct tasks tasks = { 0 };
	struct why why;

	assert_int_equal(tasks_create(3, &tasks, &why), TUTTI_OK);
	tasks_begin(&tasks, 0);
	assert_int_equal(tasks_take(&tasks, 0, 1, 0), 0);
	assert_int_equal(tasks_take(&tasks, 1, 1, 0), 1);
	tasks_lose(&tasks, 0);
	assert_int_equal(tasks_take(&tasks, 2, 1, 10), 0);
	assert_int_equal(tasks_take(&tasks, 2, 1, 10), 2);
	/* worker 1 has had its task for ten times what worker 2 takes */
	assert_int_equal(tasks_take(&tasks, 2, 1, 10), 1);
	assert_int_equal(tasks.backups, 1);
	assert_true(tasks_take(&tasks, 3, 1, 100) == 0); /* late as well by now */
	tasks_lose(&tasks, 1);				 /* the second one has it still */
	assert_true(tasks_take(&tasks, 2, 1, 100) == TASK_NONE);
	assert_true(tasks_take(&tasks, 4, 0, 100) == TASK_NONE); /* nobody knows how fast it is */
	tasks_lose(&tasks, 2);
	assert_int_equal(tasks_take(&tasks, 4, 0, 100), 1);
	assert_int_equal(tasks_take(&tasks, 4, 0, 100), 2);
	tasks_finish(&tasks);
}

/* ---- journals */

static void refuses(const char *bytes, const char *because)
{
	struct journal journal = { 0 };
	struct why why = { "" };

	assert_int_equal(journal_parse("j", bytes, strlen(bytes), &journal, &why),
			 TUTTI_ERR_INVALID);
	assert_contains(why.text, because);
	assert_null(journal.entries);
}

#define HEAD                                                                                        \
	"{\"journal\":1,\"server\":0,\"servers\":1,\"workers\":2,\"options\":\"00000000000000aa\"," \
	"\"data\":\"00000000000000bb\",\"step\":0}\n"
#define ENTRY(update)                                                                              \
	"{\"update\":" #update                                                                     \
	",\"worker\":1,\"task\":5,\"age\":0,\"seconds\":0.1,\"versions\":[0]}\n"

static void journals_are_read_as_far_as_they_are_complete(void **state)
{
	static const char bytes[] =
		HEAD ENTRY(1) ENTRY(1) ENTRY(0) ENTRY(2) "{\"epoch\":1}\n" ENTRY(3) "{\"upd";
	struct journal journal = { 0 };
	struct why why = { "" };

	assert_int_equal(journal_parse("j", bytes, sizeof(bytes) - 1, &journal, &why), TUTTI_OK);
	assert_int_equal(journal.epochs, 1);
	assert_int_equal(journal.count, 4);
	assert_int_equal(journal.entries[3].update, 2);
	assert_int_equal(journal.head.workers, 2);
	assert_int_equal(journal.head.options, 0xaa);
	journal_finish(&journal);
	refuses("", "found no line");
	refuses("{\"journal\":2}\n",
		"line 1: found no \"journal\" that is a whole number from 1 to 1");
	refuses("[1]\n", "line 1: found no JSON object");
	refuses(HEAD ENTRY(1) ENTRY(3), "line 3: its update is neither");
	refuses(HEAD ENTRY(-1), "line 2: found no \"update\" that is a whole number from 0");
	refuses(HEAD "{\"update\":1}\n", "line 2: found no \"worker\"");
	refuses(HEAD "{\"update\":1,\"worker\":0,\"task\":0,\"age\":0,\"versions\":[0,0]}\n",
		"found no \"versions\" that is a list of one number for each server");
}

/* ---- jobs */

struct outcome {
	int epochs, ranks, losses, by_deadline;
	double train[EPOCHS_MAX], accuracy;
	char weights[17]; /* of the first server */
	double share[16]; /* of the samples, each rank's */
	long staleness[STALENESS_BINS];
};

static void take_end(const json_t *object, struct outcome *o)
{
	const json_t *all = json_object_get(object, "each_rank"),
		     *stale = json_object_get(object, "staleness");

	o->ranks = (int)json_integer_value(json_object_get(object, "ranks"));
	o->accuracy = json_number_value(json_object_get(object, "test_accuracy"));
	snprintf(o->weights, sizeof(o->weights), "%s",
		 json_string_value(json_array_get(json_object_get(object, "weights"), 0)));
	for (size_t i = 0; i < json_array_size(all) && i < 16; i++)
		o->share[i] = json_number_value(json_object_get(json_array_get(all, i), "share"));
	for (size_t i = 0; i < json_array_size(stale); i++)
		o->staleness[i] = (long)json_integer_value(json_array_get(stale, i));
}

static void take_line(const char *line, struct outcome *o)
{
	json_t *object = json_loads(line, 0, NULL);
	const char *event = json_string_value(json_object_get(object, "event"));

	assert_non_null(event);
	if (strcmp(event, "epoch") == 0)
		o->train[o->epochs++] = json_real_value(json_object_get(object, "train_loss"));
	else if (strcmp(event, "loss") == 0)
		o->losses++,
			o->by_deadline +=
			strcmp(json_string_value(json_object_get(object, "how")), "deadline") == 0;
	else if (strcmp(event, "end") == 0)
		take_end(object, o);
	json_decref(object);
}

static struct outcome read_log(const char *name)
{
	struct outcome o = { 0 };
	char line[16384];
	FILE *file = fopen(path_of(name), "r");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		take_line(line, &o);
	fclose(file);
	assert_true(o.ranks > 0); /* it has an end */
	return o;
}

/* `run` is for tutti-run. */
static void start(struct launched *l, int ranks, const char *run, const char *options)
{
	char number[16];
	const char *argv[16] = { getenv("TEST_RUN"), "-n", number };
	int n = 3;

	snprintf(number, sizeof(number), "%d", ranks);
	setenv("TRAIN_RUN", run, 1);
	setenv("TRAIN_OPTIONS", options, 1);
	setenv("TRAIN_DIRECTORY", directory, 1);
	if (*run) {
		static char words[128];

		snprintf(words, sizeof(words), "%s", run);
		for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
			argv[n++] = word;
	}
	argv[n++] = "--";
	argv[n++] = "/bin/sh";
	argv[n++] = "-c";
	argv[n++] = "echo pid $$; exec \"$TEST_TRAIN\" --data \"$DIGITS\" --json "
		    "\"$TRAIN_DIRECTORY/log\" $TRAIN_OPTIONS";
	launched_start(l, argv);
}

static void end_well(struct launched *l)
{
	const int status = launched_finish(l);

	if (status != 0)
		launched_fail(l, "exit status %d", status);
}

static struct outcome run(int ranks, const char *options)
{
	struct launched l;

	start(&l, ranks, "", options);
	end_well(&l);
	launched_free(&l);
	return read_log("log");
}

/* With a journal, or from it: in the directory. */
static void with_journal(char *text, size_t room, const char *options, const char *which)
{
	snprintf(text, room, "--sync async %s --%s %s", options, which, path_of("journal"));
}

/* Every server has made updates of every task of each epoch, once and in that epoch. */
static void expect_each_task_once(unsigned server, unsigned servers)
{
	struct journal journal = { 0 };
	struct why why = { "" };
	size_t tasks = 0, at = 0;

	assert_int_equal(journal_read(path_of("journal"), server, servers, &journal, &why),
			 TUTTI_OK);
	while (at < journal.ends[0])
		tasks += journal.entries[at++].update > 0;
	at = 0;
	for (unsigned e = 0; e < journal.epochs; e++) {
		bool *came = calloc(tasks, sizeof(*came));
		size_t count = 0;

		for (; at < journal.ends[e]; at++) {
			const struct journal_entry *entry = &journal.entries[at];
			const uint64_t task = entry->task - e * tasks;

			if (entry->update == 0)
				continue;
			assert_true(task < tasks && !came[task]);
			came[task] = true;
			count++;
		}
		assert_int_equal(count, tasks);
		free(came);
	}
	journal_finish(&journal);
}

static void expect_the_same_bits(const char *options, const struct outcome *was)
{
	char text[320];

	with_journal(text, sizeof(text), options, "replay");
	const struct outcome is = run(1, text);

	assert_string_equal(is.weights, was->weights);
	assert_int_equal(is.epochs, was->epochs);
	assert_memory_equal(is.train, was->train, (size_t)is.epochs * sizeof(is.train[0]));
}

static void one_rank_makes_the_same_bits_of_the_journal(void **state)
{
	static const struct {
		int ranks;
		const char *options;
	} jobs[] = {
		{ 2, "--epochs 2" },
		{ 3, "--epochs 4" },
		{ 4, "--epochs 3 --batch 53 --dtype f64 --slow 2:4" },
		{ 3, "--epochs 3 --optimizer adagrad --lr 0.02 --dtype bf16" },
		{ 4, "--epochs 3 --push-every 3" },
		{ 4, "--epochs 4 --batch 53 --push-every 2 --fetch-every 6 --lr 0.03" },
		{ 5, "--epochs 3 --servers 2" },
		{ 5, "--epochs 4 --servers 2 --batch 53 --fetch-every 4 --slow 3:3 --lr 0.03" },
		{ 5, "--epochs 3 --servers 3 --staleness 1" },
		{ 3, "--epochs 3 --batch all --lr-scaling none" },
		{ 4, "--epochs 2 --batch-per-rank 16 --servers 2" },
		{ 3, "--epochs 2 --transport tcp" },
		{ 4, "--epochs 2 --servers 2 --transport tcp" },
	};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		char text[320];

		with_journal(text, sizeof(text), jobs[i].options, "journal");
		const struct outcome o = run(jobs[i].ranks, text);

		assert_int_equal(o.ranks, jobs[i].ranks);
		expect_the_same_bits(jobs[i].options, &o);
	}
}

/* With 0 nobody is ahead of anybody. */
static void without_staleness_it_is_the_synchronous_server(void **state)
{
	static const char common[] = "--epochs 4 --batch 53 --dtype f64";

	for (int servers = 1; servers <= 2; servers++)
		for (int workers = 1; workers <= 3; workers += 2) {
			char text[128];

			snprintf(text, sizeof(text), "%s --sync ps --servers %d", common, servers);
			const struct outcome ps = run(servers + workers, text);

			snprintf(text, sizeof(text), "%s --sync async --staleness 0 --servers %d",
				 common, servers);
			const struct outcome async = run(servers + workers, text);

			for (int e = 0; e < ps.epochs; e++)
				assert_true(fabs(async.train[e] - ps.train[e]) <=
					    1e-9 * ps.train[e]);
			assert_true(async.staleness[0] == 4L * 28 * workers);
		}
}

/* On each server, as its journal has it. */
static void expect_no_older(unsigned servers, uint64_t most)
{
	for (unsigned number = 0; number < servers; number++) {
		struct journal journal = { 0 };
		struct why why = { "" };

		assert_int_equal(journal_read(path_of("journal"), number, servers, &journal, &why),
				 TUTTI_OK);
		assert_true(journal.count > 0);
		for (size_t i = 0; i < journal.count; i++) {
			const struct journal_entry *e = &journal.entries[i];

			assert_true(e->update == 0 || e->update - 1 - e->versions[number] <= most);
		}
		journal_finish(&journal);
	}
}

static void gradients_are_no_older_on_any_server(void **state)
{
	char text[320];

	with_journal(text, sizeof(text), "--epochs 100 --servers 3 --staleness 1", "journal");
	run(7, text);
	expect_no_older(3, 1);
}

static void gradients_are_no_older_than_was_said(void **state)
{
	const struct outcome bound = run(4, "--sync async --epochs 4 --staleness 1 --slow 2:3"),
			     any = run(4, "--sync async --epochs 4 --slow 2:3");
	long older = 0;

	for (int i = 2; i < STALENESS_BINS; i++) {
		assert_int_equal(bound.staleness[i], 0);
		older += any.staleness[i];
	}
	assert_true(older > 0);
	assert_true(bound.accuracy > 0.9 && any.accuracy > 0.9);
}

/* The second one who has a task waits for the update, as the first does. */
static void what_is_held_at_the_end_of_an_epoch_belongs_to_it(void **state)
{
	static const char options[] =
		"--epochs 6 --hidden 256 --staleness 1 --servers 2 --slow 3:60";
	char text[320];

	with_journal(text, sizeof(text), options, "journal");
	for (int i = 0; i < 4; i++) {
		const struct outcome o = run(6, text);

		for (unsigned s = 0; s < 2; s++)
			expect_each_task_once(s, 2);
		expect_the_same_bits(options, &o);
	}
}

/* Two could keep it busy, and nothing would be left to the last. */
static void workers_take_turns_at_a_busy_server(void **state)
{
	const struct outcome o =
		run(8, "--sync async --epochs 2 --batch 14 --hidden 512,512 --transport tcp");

	for (int w = 1; w < 8; w++)
		assert_true(o.share[w] > 0.07); /* half of what is equal */
}

/* Each takes as much as it can. */
static void a_slow_worker_does_less(void **state)
{
	const struct outcome o = run(3, "--sync async --epochs 4 --hidden 512,512 --slow 1:20");

	assert_true(o.share[1] < 0.4 && o.share[2] > 0.6); /* 1 to 20, if nothing else runs */
	assert_float_equal(o.share[1] + o.share[2], 1, 1e-6);
}

static void a_checkpoint_goes_on(void **state)
{
	char text[320];

	snprintf(text, sizeof(text), "--sync async --servers 2 --epochs 6 --save %s --resume",
		 path_of("save"));
	run(4, text);
	const struct outcome o = run(4, text); /* has nothing left to do */

	assert_int_equal(o.epochs, 6);
	assert_true(o.accuracy > 0.9);
	unlink(path_of("save"));
}

/* ---- losses */

static void sleep_s(double seconds)
{
	const struct timespec time = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };

	nanosleep(&time, NULL);
}

/* The longest time between two entries of server 0's journal. */
static double longest_pause(const char *name)
{
	char line[512];
	double last = -1, pause = 0;
	FILE *file = fopen(path_of(name), "r");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, "\"seconds\":");
		const double seconds = at ? atof(at + 10) : -1;

		if (at && last >= 0 && seconds - last > pause)
			pause = seconds - last;
		last = at ? seconds : last;
	}
	fclose(file);
	return pause;
}

#define LOSING "--epochs 150 --servers %d"

/* `servers` first; rank `victim` of as many and three more dies. Repeated, if the training was over too
 * early, or before there were `ranks` in all. */
static struct outcome kill_a_worker(int servers, int victim, const char *run_options, int ranks,
				    struct launched *l)
{
	char options[64], text[256];
	int tries = 5;

	snprintf(options, sizeof(options), LOSING, servers);
	with_journal(text, sizeof(text), options, "journal");
	for (;;) {
		struct outcome o;

		start(l, servers + 3, run_options, text);
		let_train(l, 1 + (int)draw(6));
		kill(pid_of(l, victim, 1), SIGKILL);
		end_well(l);
		o = read_log("log");
		if (o.losses > 0 && o.ranks == ranks)
			return o;
		launched_free(l);
		assert_true(--tries > 0);
	}
}

static void expect_nothing_stopped(int servers, const struct outcome *o)
{
	char options[64];

	assert_int_equal(o->epochs, 150);
	assert_int_equal(o->losses, 1);
	assert_true(o->accuracy > 0.9);
	/* who waits for a dead one waits for the deadline, 300 s */
	assert_true(longest_pause(servers == 1 ? "journal" : "journal.0") < 30);
	snprintf(options, sizeof(options), LOSING, servers);
	expect_the_same_bits(options, o);
}

static void a_killed_worker_stops_nobody(void **state)
{
	for (int servers = 1; servers <= 2; servers++) {
		struct launched l;
		const struct outcome o =
			kill_a_worker(servers, servers + 1, "--min-ranks 3", servers + 3, &l);

		assert_contains(launched_out(&l), "lost rank");
		expect_nothing_stopped(servers, &o);
		launched_free(&l);
	}
}

static void a_newcomer_takes_its_place(void **state)
{
	for (int servers = 1; servers <= 2; servers++) {
		struct launched l;
		const struct outcome o = kill_a_worker(
			servers, servers, "--min-ranks 3 --restart 1", servers + 4, &l);

		assert_contains(launched_err(&l), "as worker 3");
		assert_true(o.share[servers + 3] > 0);
		expect_nothing_stopped(servers, &o);
		launched_free(&l);
	}
}

/* The servers wait for it, as long as a deadline and a half; workers wait for them. */
static void a_newcomer_that_dies_while_it_joins_stops_nobody(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct launched l;

		setenv("TUTTI_TIMEOUT", "1", 1);
		start(&l, 3, "--min-ranks 2 --restart 2",
		      "--sync async --epochs 400 --transport tcp");
		unsetenv("TUTTI_TIMEOUT");
		let_train(&l, 1);
		kill(pid_of(&l, 1, 1), SIGKILL);
		launched_await(&l, 0, "[1] pid ", 2);
		sleep_s(0.001 * (double)draw(60));
		kill(pid_of(&l, 1, 2), SIGKILL);
		end_well(&l);
		launched_free(&l);
		assert_int_equal(read_log("log").epochs, 400);
	}
}

/* It goes on when it is continued, or learns that it is lost. */
static void stop_a_worker(const char *timeout, bool until_lost)
{
	char text[320];
	struct launched l;
	pid_t stopped;

	with_journal(text, sizeof(text), "--epochs 200", "journal");
	setenv("TUTTI_TIMEOUT", timeout, 1);
	start(&l, 4, "--min-ranks 2", text);
	unsetenv("TUTTI_TIMEOUT");
	let_train(&l, 2);
	stopped = pid_of(&l, 2, 1);
	kill(stopped, SIGSTOP);
	if (until_lost)
		launched_await(&l, 0, "lost rank 2", 1);
	else
		let_train(&l, 30);
	kill(stopped, SIGCONT);
	assert_true(launched_finish(&l) <= until_lost); /* the others ended well before it */
	const struct outcome o = read_log("log");

	assert_int_equal(o.epochs, 200);
	assert_int_equal(o.losses, until_lost);
	assert_int_equal(o.by_deadline, until_lost);
	assert_true(o.accuracy > 0.9);
	assert_true(longest_pause("journal") < 2.5); /* lost after three deadlines, 3 s */
	expect_the_same_bits("--epochs 200", &o);
	launched_free(&l);
}

/* In the midst of a message, over one deadline and less than three. */
static void a_worker_that_stops_for_a_while_is_not_lost(void **state)
{
	struct launched l;

	setenv("TUTTI_TIMEOUT", "1", 1);
	start(&l, 3, "--min-ranks 2", "--sync async --hidden 512,512 --batch 14 --epochs 30");
	unsetenv("TUTTI_TIMEOUT");
	let_train(&l, 1);
	for (int i = 0; i < 4; i++) {
		const pid_t pid = pid_of(&l, 1 + i % 2, 1);

		kill(pid, SIGSTOP);
		sleep_s(1.5);
		kill(pid, SIGCONT);
		let_train(&l, 1);
	}
	end_well(&l);
	launched_free(&l);
	assert_int_equal(read_log("log").losses, 0);
}

static void a_stopped_worker_stops_nobody(void **state)
{
	stop_a_worker("60", false);
	stop_a_worker("1", true);
}

/* Now and then two of three have stopped with the same task, one as a backup of the other. For the third
 * there is nothing to do for longer than a deadline. */
static void who_waits_for_a_task_knows_that_the_server_is_there(void **state)
{
	struct launched l;
	pid_t pids[3];

	setenv("TUTTI_TIMEOUT", "2", 1);
	start(&l, 4, "--min-ranks 2",
	      "--sync async --batch 720 --lr-scaling none --hidden 256,256 --epochs 30 "
	      "--slow 1:60 --slow 2:60 --slow 3:60");
	unsetenv("TUTTI_TIMEOUT");
	for (int r = 1; r < 3; r++)
		pids[r] = pid_of(&l, r, 1);
	let_train(&l, 1);
	for (int i = 0; i < 3; i++) { /* half of the epochs, also on a busy machine */
		double begun, epoch_s;

		let_train(&l, 2); /* those that were stopped are heard of in a whole epoch */
		begun = now_s();
		let_train(&l, 1);
		epoch_s = now_s() - begun;
		kill(pids[1], SIGSTOP);
		if (epoch_s > 0.7) /* a busy machine: half of three deadlines in all */
			epoch_s = 0.7;
		sleep_s(epoch_s * (0.5 + 0.01 * (double)draw(80)));
		kill(pids[2], SIGSTOP);
		sleep_s(2.3);
		kill(pids[1], SIGCONT);
		kill(pids[2], SIGCONT);
	}
	end_well(&l);
	launched_free(&l);
	assert_int_equal(read_log("log").epochs, 30);
}

/* Everybody says which, and nobody hangs. */
static void lose_a_server(int servers, int victim, int sig)
{
	char options[64], expected[64];
	struct launched l;
	pid_t pid;

	snprintf(options, sizeof(options), "--sync async --epochs 4000 --servers %d", servers);
	setenv("TUTTI_TIMEOUT", sig == SIGSTOP ? "1" : "60", 1);
	start(&l, servers + 2, servers == 1 ? "--min-ranks 2" : "--min-ranks 3", options);
	unsetenv("TUTTI_TIMEOUT");
	let_train(&l, 2);
	pid = pid_of(&l, victim, 1);
	kill(pid, sig);
	/* a stopped one is waited for by the launcher, when the others have ended */
	snprintf(expected, sizeof(expected),
		 sig == SIGKILL ? "rank %d (pid %ld) died" : "rank %d is stopped (state T)", victim,
		 (long)pid);
	launched_await(&l, 1, expected, 1);
	kill(pid, SIGCONT);
	assert_int_not_equal(launched_finish(&l), 0);
	launched_free(&l);
}

static void a_lost_server_ends_the_training_by_name(void **state)
{
	lose_a_server(1, 0, SIGKILL);
	lose_a_server(2, 1, SIGKILL);
	lose_a_server(1, 0, SIGSTOP);
	lose_a_server(2, 1, SIGSTOP);
}

/* A descriptor that says when a process has ended; -1: it has. */
static int end_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

enum { PHASE_RANKS = 4 };

/* Whatever becomes of the training: nobody hangs. */
static void disturb(int victim, int sig, const char *phase, int times, const char *options)
{
	char text[256];
	struct launched l;
	int ends[PHASE_RANKS];
	pid_t pid;

	snprintf(text, sizeof(text), "--sync async --servers 2 --epochs 12 %s", options);
	setenv("TUTTI_TIMEOUT", "1", 1);
	start(&l, PHASE_RANKS, "--min-ranks 3", text);
	unsetenv("TUTTI_TIMEOUT");
	for (int r = 0; r < PHASE_RANKS; r++)
		ends[r] = end_of(pid_of(&l, r, 1));
	pid = pid_of(&l, victim, 1);
	launched_await(&l, 0, phase, times);
	for (unsigned long n = draw(300); n > 0; n--)
		sched_yield();
	kill(pid, sig);
	for (int r = 0; r < PHASE_RANKS; r++) {
		struct pollfd end = { ends[r], POLLIN, 0 };

		if (r != victim && ends[r] >= 0 && poll(&end, 1, 20000) != 1)
			fail_msg("rank %d hangs", r);
		close(ends[r]);
	}
	kill(pid, SIGCONT);
	launched_finish(&l);
	launched_free(&l);
}

/* While ranks join, at the first step, between an epoch and the next with a checkpoint, at the end. */
static void nobody_hangs_in_any_phase(void **state)
{
	static const struct {
		const char *phase;
		int times;
	} phases[] = { { "pid ", 4 }, { "weights in", 1 }, { "  loss ", 3 }, { "12/12 ", 1 } };
	static const int victims[] = { 0, 1, 3 }, signals[] = { SIGKILL, SIGSTOP };
	char options[160];

	for (size_t p = 0; p < sizeof(phases) / sizeof(phases[0]); p++)
		for (size_t v = 0; v < 3; v++)
			for (size_t s = 0; s < 2; s++) {
				snprintf(options, sizeof(options), "%s --save %s",
					 draw(2) ? "--staleness 1" : "", path_of("save"));
				disturb(victims[v], signals[s], phases[p].phase, phases[p].times,
					options);
			}
}

static void too_few_workers_end_the_training(void **state)
{
	struct launched l;

	start(&l, 3, "--min-ranks 3", "--sync async --epochs 4000");
	let_train(&l, 2);
	kill(pid_of(&l, 2, 1), SIGKILL);
	assert_int_not_equal(launched_finish(&l), 0);
	launched_free(&l);
	/* with nobody to say that it ended them */
	start(&l, 4, "--min-ranks 2", "--sync async --epochs 4000");
	let_train(&l, 2);
	for (int r = 1; r < 4; r++)
		kill(pid_of(&l, r, 1), SIGKILL);
	assert_int_not_equal(launched_finish(&l), 0);
	launched_free(&l);
}

static void what_cannot_be_is_refused(void **state)
{
	static const struct {
		int ranks;
		const char *options, *because;
	} wrong[] = {
		{ 1, "--sync async", "expected one worker at least" },
		{ 2, "--sync ps --staleness 1", "found --staleness without --sync async" },
		{ 2, "--sync async --staleness 1 --push-every 2",
		  "found --staleness and --push-every or --fetch-every" },
		{ 2, "--sync async --push-every 2 --fetch-every 3", "expected a multiple of that" },
		{ 2, "--sync async --shares 1,2", "found --shares with --sync async" },
		{ 2, "--sync async --clip 1", "found --clip and --sync async" },
		{ 2, "--sync async --servers 17", "expected at most 16" },
		{ 2, "--servers 1", "found --servers without --sync ps or async" },
		{ 2, "--sync async --replay none", "none cannot be read" },
		{ 2, "--sync async --journal /no/such/file", "cannot be written" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct launched l;

		start(&l, wrong[i].ranks, "", wrong[i].options);
		assert_int_not_equal(launched_finish(&l), 0);
		assert_contains(launched_err(&l), wrong[i].because);
		launched_free(&l);
	}
}

static void journals_of_others_are_refused(void **state)
{
	static const char *const others[][2] = {
		{ "--epochs 2 --lr 0.2", "other options that shape the curve" },
		{ "--epochs 2 --servers 2", "journal.0 cannot be read" },
		{ "--epochs 2 --test-fraction 0.3", "other options that shape the curve" },
	};
	char text[320];

	with_journal(text, sizeof(text), "--epochs 2", "journal");
	run(3, text);
	unlink(path_of("journal.0"));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct launched l;

		with_journal(text, sizeof(text), others[i][0], "replay");
		start(&l, 1, "", text);
		assert_int_not_equal(launched_finish(&l), 0);
		assert_contains(launched_err(&l), others[i][1]);
		launched_free(&l);
	}
}

/* One goes on from a checkpoint, and has fewer epochs. */
static void journals_of_two_trainings_are_refused(void **state)
{
	static const char from_start[] = "--servers 2 --epochs 200";
	char options[192], text[400], other[128];
	struct launched l;

	snprintf(options, sizeof(options), "%s --save %s --resume", from_start, path_of("save"));
	with_journal(text, sizeof(text), options, "journal");
	start(&l, 3, "", text);
	let_train(&l, 2);
	kill(pid_of(&l, 2, 1), SIGKILL);
	launched_finish(&l);
	launched_free(&l);
	run(3, text);
	unlink(path_of("save"));
	snprintf(other, sizeof(other), "%s", path_of("other"));
	assert_int_equal(rename(path_of("journal.1"), other), 0);
	with_journal(text, sizeof(text), from_start, "journal");
	run(3, text);
	assert_int_equal(rename(other, path_of("journal.1")), 0);
	with_journal(text, sizeof(text), from_start, "replay");
	start(&l, 1, "", text);
	assert_int_not_equal(launched_finish(&l), 0);
	assert_contains(launched_err(&l), "of server 1 begins after step");
	launched_free(&l);
}

/* ---- the directory */

static int remove_files(void **state)
{
	struct dirent *entry;
	DIR *d = opendir(directory);

	while (d && (entry = readdir(d)))
		unlink(path_of(entry->d_name));
	closedir(d);
	return remove_directory(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest phases[] = { cmocka_unit_test(nobody_hangs_in_any_phase) };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_go_to_whoever_comes),
		cmocka_unit_test(lost_tasks_go_first_and_late_ones_twice),
		cmocka_unit_test(journals_are_read_as_far_as_they_are_complete),
		cmocka_unit_test(one_rank_makes_the_same_bits_of_the_journal),
		cmocka_unit_test(without_staleness_it_is_the_synchronous_server),
		cmocka_unit_test(gradients_are_no_older_than_was_said),
		cmocka_unit_test(gradients_are_no_older_on_any_server),
		cmocka_unit_test(what_is_held_at_the_end_of_an_epoch_belongs_to_it),
		cmocka_unit_test(workers_take_turns_at_a_busy_server),
		cmocka_unit_test(a_slow_worker_does_less),
		cmocka_unit_test(a_checkpoint_goes_on),
		cmocka_unit_test(a_killed_worker_stops_nobody),
		cmocka_unit_test(a_newcomer_takes_its_place),
		cmocka_unit_test(a_newcomer_that_dies_while_it_joins_stops_nobody),
		cmocka_unit_test(a_worker_that_stops_for_a_while_is_not_lost),
		cmocka_unit_test(a_stopped_worker_stops_nobody),
		cmocka_unit_test(who_waits_for_a_task_knows_that_the_server_is_there),
		cmocka_unit_test(a_lost_server_ends_the_training_by_name),
		cmocka_unit_test(too_few_workers_end_the_training),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(journals_of_others_are_refused),
		cmocka_unit_test(journals_of_two_trainings_are_refused),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	seed = (unsigned long)getpid();
	printf("seed %lu\n", seed);
	return argc > 1 ? cmocka_run_group_tests(phases, make_directory, remove_files)
			: cmocka_run_group_tests(tests, make_directory, remove_files);
}
