/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the matrix: what happens, when, over what, to whom. */
#ifndef TT_CASES_H
#define TT_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault {
	FAULT_KILL,	   /* SIGKILL */
	FAULT_STOP,	   /* SIGSTOP, and SIGCONT when the others are done */
	FAULT_EXIT,	   /* exit(0) without a word to the library */
	FAULT_CLOSED,	   /* all its connections are ended under it */
	FAULT_CUT,	   /* one of those with other ranks is */
	FAULT_UNPLUGGED,   /* the cable of its host */
	FAULT_MEMORY,	   /* no byte more can be had */
	FAULT_DESCRIPTORS, /* no descriptor more can be had */
	FAULT_LEAVE,	   /* it destroys its communicator before the others are done */
	FAULT_ABORT,	   /* it aborts the communicator */
	FAULT_COUNT
};

/* In which part of the job's life it happens. */
enum stretch {
	STRETCH_INIT,
	STRETCH_IDLE, /* between two calls, on all ranks */
	STRETCH_COLLECTIVE,
	STRETCH_SHRINK, /* of a communicator that has lost a rank before */
	STRETCH_GROW,	/* of all but the last rank, which is the newcomer */
	STRETCH_DESTROY
};

/* Of a collective. */
enum place {
	PLACE_ABSENT, /* the others wait for its call */
	PLACE_POSTED, /* it has called, and moved a little */
	PLACE_INSIDE, /* while it combines */
	PLACE_AFTER   /* its part is done, the others' perhaps not */
};

struct phase {
	const char *name;
	enum stretch stretch;
	double share; /* elsewhere: it happens at the victim's n-th call of the system, n this share
		       * of those that a rehearsal counted */
	enum place place;
	size_t bytes;
	bool served; /* a process that is no rank hosts the store */
};
extern const struct phase phases[];

enum transport { TRANSPORT_SHM, TRANSPORT_TCP, TRANSPORT_MIXED, TRANSPORT_TLS, TRANSPORT_COUNT };
enum victim { VICTIM_FIRST, VICTIM_MIDDLE, VICTIM_LAST, VICTIM_TWO, VICTIM_COUNT };

#define CASE_AXES 4
struct fault_case {
	union {
		struct {
			uint8_t fault, phase, transport, victim;
		};
		uint8_t axis[CASE_AXES];
	};
};

void case_name(const struct fault_case *c, char *out, size_t size);

/* All that make sense (shared memory has no cable), in order; returns how many; `out` NULL: only that. */
size_t case_all(struct fault_case *out);

int case_ranks(const struct fault_case *c);
/* Those that begin as members of a communicator; the others come later. */
int case_members(const struct fault_case *c);
int case_hosts(const struct fault_case *c); /* 0: nobody is told of hosts */
/* Bit masks of ranks: to whom it is done; and who is lost by it, which is a whole host if its
 * cable is unplugged. */
uint32_t case_victims(const struct fault_case *c);
uint32_t case_lost(const struct fault_case *c);
/* Those that may be blamed: the lost, and where a connection ends between two that live, the
 * other end as well; where a rank of another host is stopped in an operation that all have
 * called, those that wait for it. */
uint32_t case_blamable(const struct fault_case *c);
/* Those that were lost before, in other ways. */
uint32_t case_gone(const struct fault_case *c);
/* After the fault, does the victim run on and call like the others? */
bool case_goes_on(const struct fault_case *c);
/* May all calls succeed in spite of the fault? */
bool case_may_succeed(const struct fault_case *c);
/* Those that go on in the end. */
uint32_t case_survivors(const struct fault_case *c);
/* Those that may be left out by the others as they shrink or grow, or go on with them: a rank that lacks
 * something in the middle of an agreement, and either end of a connection that ended. All must
 * see it alike. */
uint32_t case_at_stake(const struct fault_case *c);

/* A number that depends on nothing but the seed, the case and what it is for. */
uint64_t case_random(const struct fault_case *c, uint64_t seed, uint64_t purpose);

#endif
