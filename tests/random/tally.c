/* SPDX-License-Identifier: BSD-3-Clause */
#include "tally.h"

#include <sched.h>

void tally_call(struct tally *tally, const struct call *call)
{
	atomic_fetch_add(&tally->calls[call->what], 1);
	atomic_fetch_add(&tally->elements, call_elements(call));
}

unsigned long long tally_calls(const struct tally *tally)
{
	unsigned long long all = 0;

	for (int what = 0; what < WHATS; what++)
		all += atomic_load(&tally->calls[what]);
	return all;
}

bool tally_meet(struct tally *tally, int ranks, int before)
{
	atomic_fetch_add(&tally->arrived, 1);
	while (atomic_load(&tally->arrived) < ranks * (before + 1) && !atomic_load(&tally->failed))
		sched_yield();
	return !atomic_load(&tally->failed);
}
