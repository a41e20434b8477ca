/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "thread_ranks.h"
#include "walk.h"

#define CALLERS_MAX  4
#define TOLERANCE_KB 16384 /* for each thread that calls */

struct play {
	const struct setting *setting;
	struct tally *tally;
	long only, flip;
};

/* One rank. */
struct part {
	const struct play *play;
	int rank, failed;
	tutti_comm_t comm[CALLERS_MAX]; /* the first is that of the job */
	struct walker *walkers;
};

/* Some steps of one thread. */
struct stretch {
	struct walker *walker;
	long from, to;
	bool done;
	pthread_t thread;
};

/* ---- what a process holds */

struct holdings {
	int descriptors;
	long kilobytes;
};

static struct holdings holdings_now(void)
{
	return (struct holdings){ open_descriptors(), private_memory_in_use() };
}

static bool compare_holdings(struct part *p, const struct holdings *before)
{
	const struct setting *s = p->play->setting;
	const struct holdings now = holdings_now();
	const long most = before->kilobytes + before->kilobytes / 10 + TOLERANCE_KB * s->callers;

	if (now.descriptors > before->descriptors)
		return walk_fail(&p->walkers[0],
				 "%d descriptors are open, %d were after a third of the steps",
				 now.descriptors, before->descriptors);
	if (s->watched && now.kilobytes > most)
		return walk_fail(&p->walkers[0],
				 "memory has grown from %ld to %ld KiB since a third of the steps",
				 before->kilobytes, now.kilobytes);
	return true;
}

/* ---- a rank */

static void *take_stretch(void *argument)
{
	struct stretch *s = argument;

	s->done = walk(s->walker, s->from, s->to) && walk_rest(s->walker);
	return NULL;
}

static bool take_steps(struct part *p, long from, long to)
{
	const int callers = p->play->setting->callers;
	struct stretch stretches[CALLERS_MAX];
	int started = 1;
	bool done;

	for (int i = 0; i < callers; i++)
		stretches[i] = (struct stretch){ .walker = &p->walkers[i], .from = from, .to = to };
	while (started < callers && pthread_create(&stretches[started].thread, NULL, take_stretch,
						   &stretches[started]) == 0)
		started++;
	if (started < callers)
		walk_fail(&p->walkers[0], "cannot start a thread");
	take_stretch(&stretches[0]);
	done = stretches[0].done && started == callers;
	for (int i = 1; i < started; i++) {
		pthread_join(stretches[i].thread, NULL);
		done = done && stretches[i].done;
	}
	return done;
}

/* When all ranks have come as far; ranks that are threads hold one process's things. */
static bool look(struct part *p, int before, struct holdings *holdings)
{
	const struct setting *s = p->play->setting;
	const bool looks = !s->as_threads || p->rank == 0;

	if (!tally_meet(p->play->tally, s->ranks, 2 * before))
		return false;
	if (looks && before)
		compare_holdings(p, holdings);
	else if (looks)
		*holdings = holdings_now();
	return tally_meet(p->play->tally, s->ranks, 2 * before + 1);
}

static bool take_part(struct part *p)
{
	const long steps = p->play->setting->steps;
	struct holdings holdings;

	for (int i = 0; i < p->play->setting->callers; i++)
		if (!walk_warm_up(&p->walkers[i]))
			return false;
	return take_steps(p, 0, steps / 3) && look(p, 0, &holdings) &&
	       take_steps(p, steps / 3, steps) && look(p, 1, &holdings);
}

static bool begin_walks(struct part *p)
{
	for (int i = 0; i < p->play->setting->callers; i++) {
		struct walker *w = &p->walkers[i];

		w->setting = p->play->setting;
		w->tally = p->play->tally;
		w->rank = p->rank;
		w->caller = i;
		w->only = p->play->only;
		w->flip = p->rank == 0 ? p->play->flip : -1;
		if (i && tutti_comm_split(p->comm[0], 0, 0, &p->comm[i]))
			return walk_fail(&p->walkers[0], "a communicator for a thread: %s",
					 tutti_last_error(NULL));
		communicators_init(&w->communicators, p->comm[i]);
	}
	return true;
}

static void play_rank(struct part *p)
{
	p->walkers = calloc(CALLERS_MAX, sizeof(*p->walkers));
	p->failed = !p->walkers || !begin_walks(p) || !take_part(p);
	for (int i = 1; i < CALLERS_MAX; i++)
		tutti_comm_destroy(p->comm[i]);
	if (p->failed && p->walkers)
		communicators_abort(&p->walkers[0].communicators);
	for (int i = 0; i < p->play->setting->callers && p->walkers; i++)
		communicators_drop(&p->walkers[i].communicators);
	free(p->walkers);
}

/* ---- ranks as processes */

static int be_process(tutti_comm_t comm, void *argument)
{
	struct part part = { .play = argument, .rank = tutti_comm_rank(comm), .comm = { comm } };

	play_rank(&part);
	return part.failed;
}

/* ---- ranks as threads */

static int be_all(int rank, void *argument)
{
	const struct setting *s = ((const struct play *)argument)->setting;

	return run_thread_ranks(s->ranks, s->hosts, be_process, argument);
}

bool job_run(const struct setting *setting, struct tally *tally, long only, long flip)
{
	struct play play = { .setting = setting, .tally = tally, .only = only, .flip = flip };
	const struct job job = { .ranks = setting->as_threads ? 1 : setting->ranks,
				 .env = setting->environment.env,
				 .body = be_process,
				 .whole = setting->as_threads ? be_all : NULL,
				 .argument = &play,
				 .limit_s = 200 + (double)setting->steps / 2 };

	atomic_store(&tally->arrived, 0);
	return run_job(&job) == 0;
}
