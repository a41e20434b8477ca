/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the ranks of a claim: starts them as threads or processes and sees that all of them end and
 * leave nothing open. A rank that hangs is named, with the place where it hangs. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport_suite_stage.h"

#define GRACE_S 10 /* for ranks to end by themselves after the limit */

static void play(struct suite_rank *rank, const struct suite_claim *claim)
{
	if (setjmp(rank->bail) == 0) {
		if (!(claim->needs & SUITE_UNMET)) {
			suite_open(rank);
			suite_join(rank);
		}
		claim->body(rank);
	}
	suite_leave(rank);
}

struct player {
	struct suite_rank rank;
	const struct suite_claim *claim;
	pthread_t thread;
	pid_t pid;
	int pid_fd;
};

static void *thread_main(void *argument)
{
	struct player *player = argument;

	play(&player->rank, player->claim);
	suite_post(&player->rank, SUITE_FINISHED);
	return NULL;
}

static void *do_nothing(void *argument)
{
	return argument;
}

/* What stays once it was used is not a leak: the heap, and what a sanitizer starts with the first
 * thread. */
static void warm_up(const struct suite_options *options)
{
	pthread_t thread;

	if (options->allocate)
		options->release(options->allocate(1));
	if (pthread_create(&thread, NULL, do_nothing, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
}

/* What the process holds after the claim that it did not before is the transport's leak. */
static _Noreturn void process_main(struct player *player)
{
	struct suite_rank *rank = &player->rank;
	char text[SUITE_TEXT];

	warm_up(rank->options);
	const struct suite_holdings before = suite_holdings(rank->options);
	play(rank, player->claim);
	if (setjmp(rank->bail) == 0)
		suite_require(rank, suite_gave_back(rank->options, &before, text, sizeof(text)),
			      "of open() to destroy(): %s", text);
	_exit(0);
}

static void describe_hang(struct suite_stage *stage)
{
	suite_lock(stage);
	stage->failed = true;
	for (int i = 0; i < stage->size; i++)
		if (stage->failure[i][0] == '\0')
			snprintf(stage->failure[i], SUITE_TEXT,
				 "hangs, or waits for one that does; "
				 "last seen: %.300s",
				 stage->where[i]);
	suite_unlock(stage);
}

static bool all_finished(struct suite_stage *stage)
{
	const uint64_t until = stage->deadline + GRACE_S * 1000000000ull;
	const struct timespec time = { .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = 0 };
	bool all;

	suite_lock(stage);
	while (stage->counters[SUITE_FINISHED] < (uint64_t)stage->size)
		if (pthread_cond_timedwait(&stage->changed, &stage->lock, &time) == ETIMEDOUT)
			break;
	all = stage->counters[SUITE_FINISHED] >= (uint64_t)stage->size;
	suite_unlock(stage);
	return all;
}

/* A thread that hangs cannot be ended: the whole program is, with a word. */
static void run_threads(struct suite_stage *stage, struct player *players)
{
	for (int i = 0; i < stage->size; i++)
		if (pthread_create(&players[i].thread, NULL, thread_main, &players[i]) != 0)
			abort();
	if (!all_finished(stage)) {
		describe_hang(stage);
		for (int i = 0; i < stage->size; i++)
			fprintf(stderr, "rank %d: %s\n", i, stage->failure[i]);
		_exit(1);
	}
	for (int i = 0; i < stage->size; i++)
		pthread_join(players[i].thread, NULL);
}

static void kill_rank(struct suite_stage *stage, struct player *players)
{
	uint64_t number;

	if (read(stage->kill_fd, &number, sizeof(number)) == sizeof(number)) {
		stage->killed[number - 1] = true;
		kill(players[number - 1].pid, SIGKILL);
	}
}

static void reap(struct suite_stage *stage, struct player *player, int rank)
{
	int status = 0;

	waitpid(player->pid, &status, 0);
	close(player->pid_fd);
	player->pid_fd = -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (stage->killed[rank] || stage->failure[rank][0] != '\0')
		return;
	stage->failed = true;
	snprintf(stage->failure[rank], SUITE_TEXT, "ended with wait status %#x; last seen: %.300s",
		 (unsigned)status, stage->where[rank]);
}

static void run_processes(struct suite_stage *stage, struct player *players)
{
	const uint64_t until = stage->deadline + GRACE_S * 1000000000ull;
	struct pollfd fds[SUITE_RANKS_MAX + 1];
	int left = stage->size;

	for (int i = 0; i < stage->size; i++) {
		players[i].pid = fork();
		if (players[i].pid == 0)
			process_main(&players[i]);
		players[i].pid_fd = players[i].pid > 0 ? pidfd_open(players[i].pid, 0) : -1;
		if (players[i].pid_fd < 0)
			abort();
	}
	while (left > 0) {
		fds[stage->size] = (struct pollfd){ .fd = stage->kill_fd, .events = POLLIN };
		for (int i = 0; i < stage->size; i++)
			fds[i] = (struct pollfd){ .fd = players[i].pid_fd, .events = POLLIN };
		poll(fds, (nfds_t)stage->size + 1, 1000);
		if (fds[stage->size].revents)
			kill_rank(stage, players);
		for (int i = 0; i < stage->size; i++)
			if (players[i].pid_fd >= 0 && fds[i].revents) {
				reap(stage, &players[i], i);
				left--;
			}
		if (tt_now() > until) {
			describe_hang(stage);
			for (int i = 0; i < stage->size; i++)
				if (players[i].pid_fd >= 0)
					kill(players[i].pid, SIGKILL);
		}
	}
}

static void collect_failures(const struct suite_stage *stage, char *out, size_t capacity)
{
	size_t used = 0;

	out[0] = '\0';
	for (int i = 0; i < stage->size; i++)
		if (stage->failure[i][0] != '\0' && used < capacity)
			used += (size_t)snprintf(out + used, capacity - used, "rank %d: %s\n", i,
						 stage->failure[i]);
}

bool suite_run_claim(const struct suite_claim *claim, const struct tt_transport *transport,
		     const struct suite_options *options, bool processes, char *out,
		     size_t capacity)
{
	struct player *players = calloc(SUITE_RANKS_MAX, sizeof(*players));
	struct suite_stage *stage = suite_stage_create(claim->size);
	bool passed;

	if (!players)
		abort();
	if (!processes) /* else each for itself: forking is safe as long as nothing was touched */
		warm_up(options);
	const struct suite_holdings before = suite_holdings(options);
	for (int i = 0; i < claim->size; i++)
		players[i] = (struct player){
			.claim = claim,
			.pid_fd = -1,
			.rank = { .stage = stage,
				  .options = options,
				  .ops = transport,
				  .rank = i,
				  .size = claim->size,
				  .process = processes,
				  .random = 0x9e3779b97f4a7c15u * ((uint64_t)i + 1) },
		};
	if (processes)
		run_processes(stage, players);
	else
		run_threads(stage, players);
	passed = !stage->failed;
	collect_failures(stage, out, capacity);
	free(players);
	if (passed)
		passed = suite_gave_back(options, &before, out, capacity);
	suite_stage_destroy(stage);
	return passed;
}
