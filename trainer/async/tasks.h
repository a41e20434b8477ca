/* SPDX-License-Identifier: BSD-3-Clause */
/* Who computes what in an epoch when workers do not wait for each other: a list of tasks, of which
 * each worker takes the next as it comes. Every task is done once at least; the servers drop what
 * comes twice. */
#ifndef TRAIN_TASKS_H
#define TRAIN_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "why.h"

#define TASK_NONE UINT64_MAX

struct task;

/* Zeroed is empty. */
struct tasks {
	struct task *task; /* owned: [count], of the epoch */
	size_t count, fresh, lost, done;
	uint64_t first;	  /* number of the epoch's first task */
	uint64_t backups; /* tasks that were given to a second worker, of all epochs */
};

tutti_result_t tasks_create(size_t count, struct tasks *out, struct why *why);
void tasks_finish(struct tasks *tasks);

/* An epoch begins, whose first task has the number `first`. */
void tasks_begin(struct tasks *tasks, uint64_t first);

/* A task for `worker`, which takes `takes_s` seconds for one: one that was lost with another, else a
 * new one, else one that another worker has had for longer than this one takes. TASK_NONE: there is
 * none now. */
uint64_t tasks_take(struct tasks *tasks, int worker, double takes_s, double now_s);

/* All servers have what `worker` made of task `number`, which may be of any epoch. One that it was not
 * given counts for nothing. */
void tasks_finish_one(struct tasks *tasks, int worker, uint64_t number);

/* What `worker` has will not come. */
void tasks_lose(struct tasks *tasks, int worker);

static inline bool tasks_all_done(const struct tasks *tasks)
{
	return tasks->done == tasks->count;
}

#endif
