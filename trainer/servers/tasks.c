/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: tasks follow from the options, gradients from a task and weights. */
#include "tasks.h"

#include "host.h"
#include "train.h"

/* Its samples in the order of the epoch, of how many of the batch. */
struct samples_of {
	struct slice mine;
	size_t batch;
};

static struct samples_of samples_of(const struct training *t, uint64_t task)
{
	const size_t first = (size_t)(task / t->workers) * t->batch,
		     left = t->split.train_rows - first, batch = left < t->batch ? left : t->batch;
	const struct slice mine = slice_of(batch, (int)(task % t->workers), (int)t->workers);

	return (struct samples_of){ { first + mine.first, mine.count }, batch };
}

size_t tasks_of_epoch(const struct training *t)
{
	return t->steps_per_epoch * t->workers;
}

size_t task_step(const struct training *t, uint64_t task)
{
	return (t->ordered - 1) * t->steps_per_epoch + (size_t)(task / t->workers);
}

double task_part(const struct training *t, uint64_t task)
{
	const struct samples_of of = samples_of(t, task);

	return (double)of.mine.count / (double)of.batch;
}

size_t task_samples(const struct training *t, uint64_t task)
{
	return samples_of(t, task).mine.count;
}

bool task_compute(struct training *t, uint64_t task, struct sums *sums)
{
	const struct samples_of of = samples_of(t, task);
	const double begun = now_s();
	const bool ok = host_gradients(t, of.mine, 1.0 / (double)of.batch, sums);

	shares_note(t, of.mine.count, now_s() - begun);
	return ok;
}
