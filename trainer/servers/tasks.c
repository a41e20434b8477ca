/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: tasks follow from the options, gradients from a task and weights. */
#include "async.h"
#include "pipeline.h"

size_t tasks_of_epoch(const struct training *t)
{
	return t->steps_per_epoch * t->workers;
}

struct task task_of(const struct training *t, uint64_t task)
{
	const size_t step = (size_t)(task / t->workers), first = step * t->batch,
		     left = t->split.train_rows - first, batch = left < t->batch ? left : t->batch;
	const struct slice mine = slice_of(batch, (int)(task % t->workers), (int)t->workers);

	return (struct task){ (t->ordered - 1) * t->steps_per_epoch + step,
			      { first + mine.first, mine.count },
			      batch };
}

bool task_compute(struct training *t, uint64_t number, struct sums *sums)
{
	const struct task task = task_of(t, number);
	const double begun = now_s();
	const bool ok = pipeline_gradients(t, task.samples, 1.0 / (double)task.batch, sums);

	shares_note(t, task.samples.count, now_s() - begun);
	return ok;
}
