/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the moments at which a rank of tutti-train-tested dies, stops or waits. The linker leads calls between
 * files of tutti-train to here (--wrap): the program that is installed knows nothing of it.
 *
 * TRAIN_MOMENTS has words, each behind a space: RANK@POINTNUMBER=ACTION. RANK.LEFT is the replacement of
 * that rank behind which LEFT others may still be started. POINT is the name that a function below hands to
 * reach(). NUMBER says which time, from 1 on, as this process counts; of steps, how many are complete.
 * ACTION is KILL, STOP, or the path of a FIFO: the rank waits until no process has it open for writing. At
 * the end of a collective it may be MISS: the call waits until another rank is lost, and fails for that with
 * nothing received, as it may where the loss is known before what the others have sent is read. The rank
 * prints what it does.
 *
 * TRAIN_UPDATES is the path of what proves an asynchronous training: the weights of its start and of its
 * end, in PATH.start and PATH.end, and in PATH.SERVER a line for each update of a server's shard: its
 * epoch, and of what it was made in which order, tasks and versions of the weights. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "save.h"
#include "servers/async.h"
#include "train.h"

static void hold(const char *fifo)
{
	const int fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char byte;

	/* not before this could a writer that is gone already be missed */
	if (fd < 0 || fcntl(fd, F_SETFL, 0) < 0 || read(fd, &byte, 1) < 0) {
		perror(fifo);
		abort();
	}
	close(fd);
}

/* raise(): this thread goes no further, whatever others do. */
static void act(const char *action)
{
	if (*action == '/')
		hold(action);
	else
		raise(strcmp(action, "STOP") == 0 ? SIGSTOP : SIGKILL);
}

/* Is the call to be missed? */
static bool reach(const char *point, unsigned long number)
{
	const char *moments = getenv("TRAIN_MOMENTS"), *rank = getenv("TUTTI_RANK"),
		   *left = getenv("TUTTI_RESTART"), *found;
	const bool joins = team_is_newcomer();
	char key[64], action[256];

	snprintf(key, sizeof(key), " %s%s%s@%s%lu=", rank ? rank : "0", joins ? "." : "",
		 joins && left ? left : "", point, number);
	found = moments ? strstr(moments, key) : NULL;
	if (!found || sscanf(found + strlen(key), "%255[^ ]", action) != 1)
		return false;
	dprintf(STDOUT_FILENO, "%s at %s%lu: process %ld\n", action, point, number, (long)getpid());
	if (strcmp(action, "MISS") == 0)
		return true;
	act(action);
	return false;
}

/* `call`, which is known by `name` in its own file, once this process has come to `point` again. */
#define MOMENT(point, name, parameters, call)                                                      \
	__typeof__(name) __real_##name, __wrap_##name;                                             \
	bool __wrap_##name parameters                                                              \
	{                                                                                          \
		static unsigned long times;                                                        \
                                                                                                   \
		reach(point, ++times);                                                             \
		return __real_##name call;                                                         \
	}

static bool miss(const struct team *team)
{
	tutti_result_t loss;

	while ((loss = tutti_comm_error(team->comm, NULL)) == TUTTI_OK)
		sched_yield();
	return why_set(loss, "%s", tutti_last_error(team->comm));
}

/* The same of a collective that fills `size` bytes at `out`; when its call has come back, the rank is at
 * `point`-end. */
#define COLLECTIVE(point, name, parameters, call, out, size)                                       \
	__typeof__(name) __real_##name, __wrap_##name;                                             \
	bool __wrap_##name parameters                                                              \
	{                                                                                          \
		static unsigned long times;                                                        \
		void *before = malloc((size) + 1);                                                 \
		bool ok;                                                                           \
                                                                                                   \
		if (!before)                                                                       \
			abort();                                                                   \
		reach(point, ++times);                                                             \
		if ((size) > 0)                                                                    \
			memcpy(before, out, size);                                                 \
		ok = __real_##name call;                                                           \
		if (reach(point "-end", times)) {                                                  \
			ok = miss(team);                                                           \
			if ((size) > 0)                                                            \
				memcpy(out, before, size);                                         \
		}                                                                                  \
		free(before);                                                                      \
		return ok;                                                                         \
	}

/* A rank is about to join the others; to compare where it stands with the others, at the start and after
 * each loss; to give gradients to the sum, and to wait for it; at the end of an epoch to report it, and to
 * save it. */
MOMENT("join", team_join, (struct team * team, double timeout_s), (team, timeout_s))
MOMENT("sum", team_start_sum,
       (struct team * team, const struct numbers *numbers, void *values, size_t count,
	tutti_request_t *request),
       (team, numbers, values, count, request))
MOMENT("wait", team_wait, (struct team * team, tutti_request_t *request), (team, request))
MOMENT("epoch", report_epoch, (struct report * report, const struct epoch *epoch), (report, epoch))
/* The forward pass of a layer begins. */
MOMENT("forward", sync_weights, (struct training * t, unsigned l), (t, l))
/* Of --sync async: a worker is about to compute. */
MOMENT("task", task_compute, (struct training * t, uint64_t task, struct sums *sums),
       (t, task, sums))

/* Of ranks together: they begin, and have ended. */
COLLECTIVE("gather", team_gather, (struct team * team, const void *mine, void *all, size_t bytes),
	   (team, mine, all, bytes), all, bytes *(size_t)team->size)
COLLECTIVE("add", team_sum, (struct team * team, double *values, size_t count),
	   (team, values, count), values, count * sizeof(*values))
COLLECTIVE("broadcast", team_broadcast,
	   (struct team * team, const void *send, void *recv, size_t bytes, int root),
	   (team, send, recv, bytes, root), recv, bytes)
COLLECTIVE("share", team_exchange,
	   (struct team * team, const struct numbers *numbers, const size_t *counts, void *mine,
	    void *all, bool collects),
	   (team, numbers, counts, mine, all, collects), mine,
	   collects ? 0 : counts[team->rank] * numbers->size)

/* The weights of this moment. */
static void keep(const struct training *t, const char *name)
{
	const char *updates = getenv("TRAIN_UPDATES");
	char path[512];
	FILE *to;

	if (!updates || t->team->rank > 0)
		return;
	snprintf(path, sizeof(path), "%s.%s", updates, name);
	to = fopen(path, "w");
	if (!to || fwrite(state_now(&t->state, 0).weights, t->model.numbers->size,
			  t->model.parameters, to) != t->model.parameters)
		abort();
	fclose(to);
}

__typeof__(settle) __real_settle, __wrap_settle;
bool __wrap_settle(struct training *t)
{
	static unsigned long times;
	const bool first = !t->settled;

	reach("settle", ++times);
	const bool ok = __real_settle(t);

	if (ok && first)
		keep(t, "start");
	return ok;
}

__typeof__(save_epoch) __real_save_epoch, __wrap_save_epoch;
bool __wrap_save_epoch(struct training *t)
{
	static unsigned long times;

	reach("save", ++times);
	keep(t, "end");
	return __real_save_epoch(t);
}

__typeof__(shard_update) __real_shard_update, __wrap_shard_update;
void __wrap_shard_update(struct training *t, struct peer *const *held, size_t count)
{
	const char *updates = getenv("TRAIN_UPDATES");
	char path[512];
	FILE *to = NULL;

	if (updates) {
		snprintf(path, sizeof(path), "%s.%d", updates, t->team->rank);
		to = fopen(path, "a");
		if (!to)
			abort();
		fprintf(to, "%u", t->ordered);
		for (size_t i = 0; i < count; i++)
			fprintf(to, " %llu %llu", (unsigned long long)held[i]->report.task,
				(unsigned long long)held[i]->version);
		fputc('\n', to);
		fclose(to);
	}
	__real_shard_update(t, held, count);
}

/* Steps are those of the training: a replacement begins in the middle. */
__typeof__(report_step) __real_report_step, __wrap_report_step;
void __wrap_report_step(struct report *report, unsigned epoch, size_t step, size_t steps)
{
	__real_report_step(report, epoch, step, steps);
	reach("step", epoch * steps + step + 1);
}

/* Whatever it had to do is done. */
__typeof__(team_leave) __real_team_leave, __wrap_team_leave;
void __wrap_team_leave(struct team *team)
{
	static unsigned long times;

	reach("leave", ++times);
	__real_team_leave(team);
}
