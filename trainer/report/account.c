/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what ranks tell of themselves at the end, and the sums of it. */
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bits.h"
#include "train.h"

static struct rank_account own_account(const struct training *t)
{
	const double part = (double)shares_own(t, t->batch).count / (double)t->batch;
	struct rusage usage = { 0 };

	getrusage(RUSAGE_SELF, &usage);
	return (struct rank_account){
		.weights = hash_bytes(0, state_now(&t->state, 0).weights,
				      t->model.parameters * t->model.numbers->size),
		.bytes = t->team->bytes,
		.received = t->team->received,
		.memory = (uint64_t)usage.ru_maxrss * 1024,
		.blocked = t->team->blocked_s / (now_s() - t->here_s),
		.share = t->sync->epoch ? t->share : part,
		.read = t->data.read,
		.read_s = t->reading_s,
		.rows_sent = t->sharded ? t->sharded->sent : 0,
	};
}

bool training_account(struct training *t)
{
	const struct rank_account mine = own_account(t);
	struct summary *s = &t->summary;

	free(s->accounts);
	s->accounts = calloc((size_t)t->team->size, sizeof(mine));
	if (!s->accounts)
		return why_no_memory("the ranks' accounts");
	if (!team_gather(t->team, &mine, s->accounts, sizeof(mine)))
		return false;
	s->blocked_mean = s->blocked_worst = s->sent_bytes = 0;
	for (int r = 0; r < t->team->size; r++) {
		s->blocked_mean += s->accounts[r].blocked / t->team->size;
		s->blocked_worst = fmax(s->blocked_worst, s->accounts[r].blocked);
		s->sent_bytes = fmax(s->sent_bytes, (double)s->accounts[r].bytes);
	}
	return true;
}
