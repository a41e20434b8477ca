/* SPDX-License-Identifier: BSD-3-Clause */
#include "tally.h"

#include <sched.h>

#include "calls/values.h"

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

/* Ranks that are far ahead may take a slot, so that nothing is compared. */
bool tally_agrees(struct tally *tally, uint64_t which, const void *bits, size_t bytes)
{
	const uint64_t name = bits_hash(&which, sizeof(which));
	const uint64_t mine = name >> 32 << 32 | (uint32_t)(bits_hash(bits, bytes) >> 16);
	const uint64_t other = atomic_exchange(&tally->agreed[name % AGREED_MAX], mine);

	return other >> 32 != mine >> 32 || other == mine;
}

bool tally_meet(struct tally *tally, int ranks, int before)
{
	atomic_fetch_add(&tally->arrived, 1);
	while (atomic_load(&tally->arrived) < ranks * (before + 1) && !atomic_load(&tally->failed))
		sched_yield();
	return !atomic_load(&tally->failed);
}
