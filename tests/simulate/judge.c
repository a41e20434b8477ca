/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what may be said of a run by comparing what its ranks were told. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

static void blame(struct outcome *out, const char *format, ...)
{
	va_list args;

	if (*out->wrong)
		return;
	va_start(args, format);
	vsnprintf(out->wrong, sizeof(out->wrong), format, args);
	va_end(args);
}

/* What the rank was told of the end of a communicator it has made; NULL: nothing. */
static const struct told *told_of(const struct participant *rank, uint64_t id)
{
	for (int i = 0; i < rank->ntold; i++)
		if (rank->told[i].made && rank->told[i].id == id && rank->told[i].result)
			return &rank->told[i];
	return NULL;
}

/* Where nothing may have failed, nothing has. */
static void judge_gentle(const struct plan *plan, struct outcome *out)
{
	for (int rank = 0; rank < plan->ranks; rank++)
		for (int i = 0; i < out->ranks[rank].ntold; i++)
			if (out->ranks[rank].told[i].result)
				blame(out, "rank %d was told without cause: %s", rank, out->ranks[rank].told[i].sentence);
}

/* All who were told of an end of a communicator were told the same. What the dead heard last does not matter. */
static void judge_agreement(const struct plan *plan, struct outcome *out, int one, const struct told *told)
{
	for (int rank = one + 1; rank < plan->ranks; rank++) {
		const struct told *other = told_of(&out->ranks[rank], told->id);

		if (other && !out->ranks[rank].died &&
		    (told->result != other->result || strcmp(told->sentence, other->sentence) != 0))
			blame(out, "ranks disagree: rank %d was told \"%s\", rank %d \"%s\"", one, told->sentence, rank,
			      other->sentence);
	}
}

void world_judge(const struct plan *plan, struct outcome *out)
{
	if (plan->gentle)
		judge_gentle(plan, out);
	for (int rank = 0; rank < plan->ranks; rank++)
		for (int i = 0; !out->ranks[rank].died && i < out->ranks[rank].ntold; i++)
			if (out->ranks[rank].told[i].made && out->ranks[rank].told[i].result)
				judge_agreement(plan, out, rank, &out->ranks[rank].told[i]);
}
