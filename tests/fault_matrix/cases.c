/* SPDX-License-Identifier: BSD-3-Clause */
#include "cases.h"

#include <stdio.h>

#include "calls/random.h"

static const char *const fault_names[] = {
	"kill",	     "stop",   "exit",	      "closed", "cut",
	"unplugged", "memory", "descriptors", "leave",	"abort",
};
static const char *const transport_names[] = { "shm", "tcp", "mixed", "tls" };
static const char *const victim_names[] = { "first", "middle", "last", "two" };

#define SMALL  64	   /* in a hot line of the control area */
#define MEDIUM (16u << 10) /* in one piece everywhere */
#define LARGE  (8u << 20)  /* in many */
#define COLLECTIVE(name, bytes)                                                                    \
	{ name "-absent", STRETCH_COLLECTIVE, 0, PLACE_ABSENT, bytes, false },                     \
		{ name "-posted", STRETCH_COLLECTIVE, 0, PLACE_POSTED, bytes, false },             \
		{ name "-inside", STRETCH_COLLECTIVE, 0, PLACE_INSIDE, bytes, false },             \
	{                                                                                          \
		name "-after", STRETCH_COLLECTIVE, 0, PLACE_AFTER, bytes, false                    \
	}
#define STRETCH(name, stretch, served)                                                             \
	{ name "-early", stretch, 0.1, 0, 0, served },                                             \
		{ name "-middle", stretch, 0.5, 0, 0, served },                                    \
	{                                                                                          \
		name "-late", stretch, 0.9, 0, 0, served                                           \
	}

const struct phase phases[] = {
	STRETCH("init", STRETCH_INIT, false),
	STRETCH("served", STRETCH_INIT, true),
	{ "idle", STRETCH_IDLE, 0, 0, SMALL, false },
	COLLECTIVE("small", SMALL),
	COLLECTIVE("medium", MEDIUM),
	COLLECTIVE("large", LARGE),
	STRETCH("shrink", STRETCH_SHRINK, false),
	STRETCH("grow", STRETCH_GROW, false),
	STRETCH("destroy", STRETCH_DESTROY, false),
};
enum { PHASE_COUNT = sizeof(phases) / sizeof(phases[0]) };

void case_name(const struct fault_case *c, char *out, size_t size)
{
	snprintf(out, size, "%s/%s/%s/%s", fault_names[c->fault], phases[c->phase].name,
		 transport_names[c->transport], victim_names[c->victim]);
}

/* Do ranks meet in this phase? */
static bool meets(int phase)
{
	const enum stretch stretch = phases[phase].stretch;

	return stretch == STRETCH_INIT || stretch == STRETCH_SHRINK || stretch == STRETCH_GROW;
}

/* Is the victim in no call when it happens? One that leaves waits for none of its own either. */
static bool may_call(enum fault fault, int phase)
{
	const struct phase *row = &phases[phase];

	if (row->stretch == STRETCH_COLLECTIVE)
		return row->place != PLACE_INSIDE &&
		       (fault != FAULT_LEAVE || row->place != PLACE_POSTED);
	return row->stretch == STRETCH_IDLE;
}

static bool applies(const struct fault_case *c)
{
	if (c->fault == FAULT_LEAVE || c->fault == FAULT_ABORT)
		return may_call(c->fault, c->phase);
	if (c->fault == FAULT_UNPLUGGED) /* hosts meet in a directory, which nobody serves */
		return c->transport != TRANSPORT_SHM && !phases[c->phase].served;
	if (c->fault == FAULT_CUT) /* there are all by then */
		return c->transport != TRANSPORT_SHM &&
		       (phases[c->phase].stretch == STRETCH_IDLE ||
			phases[c->phase].stretch == STRETCH_COLLECTIVE);
	/* OpenSSL needs memory to read, and a connection ends that has none: who is blamed is chance */
	if (c->fault == FAULT_MEMORY && c->transport == TRANSPORT_TLS)
		return false;
	/* ranks that have met in shared memory have no connections but while they meet */
	if (c->fault == FAULT_CLOSED && c->transport == TRANSPORT_SHM)
		return meets(c->phase);
	return true;
}

size_t case_all(struct fault_case *out)
{
	struct fault_case c;
	size_t n = 0;

	for (c.fault = 0; c.fault < FAULT_COUNT; c.fault++)
		for (c.phase = 0; c.phase < PHASE_COUNT; c.phase++)
			for (c.transport = 0; c.transport < TRANSPORT_COUNT; c.transport++)
				for (c.victim = 0; c.victim < VICTIM_COUNT; c.victim++) {
					if (!applies(&c))
						continue;
					if (out)
						out[n] = c;
					n++;
				}
	return n;
}

/* Two unplugged hosts of three leave one with two ranks. */
static bool by_hosts(const struct fault_case *c)
{
	return c->fault == FAULT_UNPLUGGED && c->transport == TRANSPORT_MIXED;
}

int case_ranks(const struct fault_case *c)
{
	const enum stretch stretch = phases[c->phase].stretch;

	return by_hosts(c) ? 6 : stretch == STRETCH_SHRINK || stretch == STRETCH_GROW ? 5 : 4;
}

int case_members(const struct fault_case *c)
{
	return case_ranks(c) - (phases[c->phase].stretch == STRETCH_GROW);
}

int case_hosts(const struct fault_case *c)
{
	return c->transport != TRANSPORT_MIXED ? 0 : by_hosts(c) ? 3 : 2;
}

uint32_t case_victims(const struct fault_case *c)
{
	const int ranks = case_ranks(c);
	const uint32_t first = 1, middle = 1u << (ranks / 2), last = 1u << (ranks - 1);

	switch (c->victim) {
	case VICTIM_FIRST: return first;
	case VICTIM_MIDDLE: return middle;
	case VICTIM_LAST: return last;
	default: return first | last;
	}
}

uint32_t case_lost(const struct fault_case *c)
{
	const int ranks = case_ranks(c), hosts = case_hosts(c);
	const uint32_t victims = case_victims(c);
	uint32_t lost = victims;

	if (!by_hosts(c))
		return victims;
	for (int victim = 0; victim < ranks; victim++)
		for (int rank = 0; rank < ranks && victims >> victim & 1; rank++)
			if (rank % hosts == victim % hosts)
				lost |= 1u << rank;
	return lost;
}

static bool share_memory(const struct fault_case *c, int a, int b)
{
	return c->transport == TRANSPORT_SHM ||
	       (c->transport == TRANSPORT_MIXED && a % case_hosts(c) == b % case_hosts(c));
}

/* The victim sees its connections end, too, and can tell others by those that have not yet, or
 * in shared memory. */
uint32_t case_blamable(const struct fault_case *c)
{
	const uint32_t lost = case_lost(c);
	uint32_t blamable = lost;

	/* all may have called, and a stopped process on another host looks like any: who is
	 * waited for is blamed */
	if (c->fault == FAULT_STOP && c->transport == TRANSPORT_MIXED &&
	    phases[c->phase].stretch == STRETCH_COLLECTIVE &&
	    phases[c->phase].place != PLACE_ABSENT)
		return (1u << case_ranks(c)) - 1;
	for (int rank = 0; rank < case_ranks(c) && c->fault == FAULT_CLOSED; rank++)
		for (int victim = 0; victim < case_ranks(c); victim++)
			if (lost >> victim & 1 && !share_memory(c, rank, victim))
				blamable |= 1u << rank;
	return blamable;
}

uint32_t case_gone(const struct fault_case *c)
{
	return phases[c->phase].stretch == STRETCH_SHRINK ? 1u << 1 : 0; /* never a victim */
}

bool case_goes_on(const struct fault_case *c)
{
	return c->fault == FAULT_ABORT || case_may_succeed(c);
}

bool case_may_succeed(const struct fault_case *c)
{
	if (c->fault == FAULT_CLOSED && c->transport == TRANSPORT_SHM)
		return phases[c->phase].stretch != STRETCH_INIT; /* it can try again */
	return c->fault == FAULT_MEMORY || c->fault == FAULT_DESCRIPTORS;
}

uint32_t case_at_stake(const struct fault_case *c)
{
	const enum stretch stretch = phases[c->phase].stretch;

	if (stretch != STRETCH_SHRINK && stretch != STRETCH_GROW)
		return 0;
	if (c->fault == FAULT_CLOSED && c->transport == TRANSPORT_MIXED)
		return stretch == STRETCH_SHRINK ? case_blamable(c) & ~case_gone(c) : 0;
	return c->fault == FAULT_MEMORY || c->fault == FAULT_DESCRIPTORS ? case_victims(c) : 0;
}

uint32_t case_survivors(const struct fault_case *c)
{
	const uint32_t all = (1u << case_ranks(c)) - 1;

	return all & ~case_gone(c) & ~(case_goes_on(c) ? 0 : case_lost(c));
}

uint64_t case_random(const struct fault_case *c, uint64_t seed, uint64_t purpose)
{
	uint64_t x = seed;

	for (int i = 0; i < CASE_AXES; i++)
		x = x * 256 + c->axis[i];
	struct random random = random_stream(x, purpose);

	return random_next(&random);
}
