/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: what the ways to train together have in common. */
#include "sync.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

void *sync_sums(const struct training *t)
{
	return (char *)t->gradients + numbers_sums_offset(t->model.numbers, t->model.parameters);
}

void sync_store_sums(struct training *t, const struct sums *sums)
{
	const double numbers[SUMS_NUMBERS] = { sums->loss, sums->correct, sums->samples };

	t->model.numbers->sums->store(sync_sums(t), numbers, SUMS_NUMBERS);
}

struct sums sync_load_sums(const struct training *t)
{
	double numbers[SUMS_NUMBERS];

	t->model.numbers->sums->load(numbers, sync_sums(t), SUMS_NUMBERS);
	return (struct sums){ numbers[0], numbers[1], numbers[2] };
}

void sync_update(const struct training *t, struct trained from, const void *gradients, size_t count,
		 struct trained to)
{
	const struct rule rule = { .rate = rate_at(&t->plan, t->state.step),
				   .momentum = t->options->momentum,
				   .decay = t->options->weight_decay,
				   .part = 1 };

	t->options->optimizer->update(t->model.numbers, &rule, from, gradients, count, to);
}

bool sync_keeps(const struct training *t)
{
	return t->options->optimizer->keeps(t->options->momentum);
}

void sync_tell_velocity_lost(const struct training *t, const char *what)
{
	if (t->report->history.loss_count > 0 && sync_keeps(t))
		fprintf(stderr, "tutti-train: the %s of %s was lost with a rank, and begins anew\n",
			t->options->optimizer->kept, what);
}

void sync_velocity_shared(struct training *t)
{
	free(t->velocity);
	t->velocity = NULL;
	t->resumes = false;
}

/* Pascanu et al. 2013, algorithm 1. */
double sync_clip_factor(const struct training *t, double square_sum)
{
	const double most = t->options->clip, norm = sqrt(square_sum);

	return norm > most ? most / norm : 1;
}

struct worker sync_worker(const struct training *t)
{
	const int servers = (int)t->options->servers, index = t->team->rank - servers;

	return (struct worker){ index < 0 ? -1 : index, t->team->size - servers };
}

tutti_result_t sync_nothing(struct training *t, struct why *why)
{
	return TUTTI_OK;
}

tutti_result_t sync_has_epochs(struct training *t, bool *worked, struct why *why)
{
	*worked = false;
	return TUTTI_OK;
}

void sync_drains_nothing(struct training *t)
{
}

void sync_tells_nobody(struct training *t, const struct why *why)
{
}

size_t sync_no_others(const struct training *t, struct rank_account *out)
{
	return 0;
}

tutti_result_t sync_no_layer(struct training *t, unsigned l, struct why *why)
{
	return TUTTI_OK;
}

size_t sync_all_samples(const struct step *step)
{
	return step->all;
}

size_t sync_own_samples(const struct step *step)
{
	return step->mine > 0 ? step->mine : 1;
}
