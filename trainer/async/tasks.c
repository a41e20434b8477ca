/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of tasks of an epoch. A task that is late goes to a second worker that has nothing
 * else to do (the backup tasks of Dean and Ghemawat 2004, section 3.6): so a worker that is slow,
 * stopped or lost keeps nobody from the end of an epoch. */
#include "tasks.h"

#include <stdlib.h>

enum { HOLDERS = 2, NOBODY = -1 };

#define LATE 1.5 /* times what a task takes */

struct task {
	bool done;
	int holder[HOLDERS]; /* workers, or NOBODY */
	double since_s;	     /* when the first of them took it */
};

tutti_result_t tasks_create(size_t count, struct tasks *out, struct why *why)
{
	struct tasks tasks = { .count = count };

	tasks.task = calloc(count, sizeof(*tasks.task));
	if (!tasks.task)
		return why_no_memory(why, "the tasks of an epoch");
	*out = tasks;
	return TUTTI_OK;
}

void tasks_finish(struct tasks *tasks)
{
	free(tasks->task);
	*tasks = (struct tasks){ 0 };
}

void tasks_begin(struct tasks *tasks, uint64_t first)
{
	tasks->first = first;
	tasks->fresh = tasks->lost = tasks->done = 0;
	for (size_t i = 0; i < tasks->count; i++)
		tasks->task[i] = (struct task){ .holder = { NOBODY, NOBODY } };
}

static bool is_lost(const struct task *task)
{
	return !task->done && task->holder[0] == NOBODY && task->holder[1] == NOBODY;
}

static bool is_late(const struct task *task, int worker, double takes_s, double now_s)
{
	const bool alone = task->holder[0] == NOBODY || task->holder[1] == NOBODY;

	return !task->done && alone && task->holder[0] != worker && task->holder[1] != worker &&
	       takes_s > 0 && now_s - task->since_s > LATE * takes_s;
}

static uint64_t give(struct tasks *tasks, size_t i, int worker, double now_s)
{
	struct task *task = &tasks->task[i];

	if (is_lost(task))
		task->since_s = now_s;
	else
		tasks->backups++;
	task->holder[task->holder[0] != NOBODY] = worker;
	return tasks->first + i;
}

static uint64_t give_lost(struct tasks *tasks, int worker, double now_s)
{
	size_t i = 0;

	while (!is_lost(&tasks->task[i]))
		i++;
	tasks->lost--;
	return give(tasks, i, worker, now_s);
}

uint64_t tasks_take(struct tasks *tasks, int worker, double takes_s, double now_s)
{
	if (tasks->lost > 0)
		return give_lost(tasks, worker, now_s);
	if (tasks->fresh < tasks->count)
		return give(tasks, tasks->fresh++, worker, now_s);
	for (size_t i = 0; i < tasks->count; i++)
		if (is_late(&tasks->task[i], worker, takes_s, now_s))
			return give(tasks, i, worker, now_s);
	return TASK_NONE;
}

void tasks_finish_one(struct tasks *tasks, int worker, uint64_t number)
{
	struct task *task;

	if (number < tasks->first || number - tasks->first >= tasks->count)
		return; /* an epoch before, or not at all */
	task = &tasks->task[number - tasks->first];
	if (task->done || (task->holder[0] != worker && task->holder[1] != worker))
		return;
	task->done = true;
	tasks->done++;
}

void tasks_lose(struct tasks *tasks, int worker)
{
	for (size_t i = 0; i < tasks->fresh; i++) {
		struct task *task = &tasks->task[i];
		const bool was_lost = is_lost(task);

		for (int h = 0; h < HOLDERS; h++)
			if (task->holder[h] == worker)
				task->holder[h] = NOBODY;
		tasks->lost += is_lost(task) && !was_lost;
	}
}
