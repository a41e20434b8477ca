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

/* FNV-1a */
static uint64_t hash(uint64_t from, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		from = (from ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
	return from;
}

/* Ranks that are far ahead may take a slot, so that nothing is compared. */
bool tally_agrees(struct tally *tally, uint64_t which, const void *bits, size_t bytes)
{
	const uint64_t name = hash(UINT64_C(0xcbf29ce484222325), &which, sizeof(which));
	const uint64_t mine = name >> 32 << 32 | (uint32_t)(hash(name, bits, bytes) >> 16);
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
