/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a case, as the files know it that make up what it does. */
#ifndef TT_PLAYER_H
#define TT_PLAYER_H

#include "stage.h"
#include "work.h"

#define MEDIUM_BYTES (100u << 10)
#define AT_ONCE_S    0.5 /* and the slack: what waits for nobody */

struct player {
	const struct scene *scene;
	struct stage *stage;
	struct report *report;
	int rank, ranks;
	tutti_comm_t comm;
	struct work call;    /* of the collective that the phase is about */
	unsigned combined;   /* calls of the user's operation so far */
	unsigned combine_at; /* … in which it happens; 0: in none */
	bool failed;
};

/* Into the report, if nothing is there; returns 1. */
int player_complain(struct player *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Is this rank among those who are lost by the fault? */
bool player_is_lost(const struct player *p);
/* The ranks that are to be left: all, in a rehearsal, but for those lost before. */
uint32_t player_survivors(const struct player *p);

/* A stretch in which a victim's calls of the system are counted, and the fault may happen at one
 * of them. */
void player_begin(struct player *p, enum stretch stretch);
void player_end(struct player *p, enum stretch stretch);

/* going_on.c: does a sum over all ranks come out right on all of them? The answer is the same on all that
 * know it. */
bool player_all_sum(struct player *p, tutti_comm_t comm);
/* Its communicator is the one that it has in the end. */
void player_goes_on(struct player *p);
/* Survivors make a communicator by rendezvous anew … */
void go_on_by_rendezvous(struct player *p);
/* … or out of the old one, which takes its place: at the first attempt, or as soon as the fault
 * meanwhile allows. */
void go_on_by_shrinking(struct player *p, bool at_first);
/* growing.c: all but the last take it in. */
void play_grow(struct player *p);
/* A rank that the others have left behind is told so. */
void come_too_late(struct player *p);

#endif
