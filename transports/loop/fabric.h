/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of one communicator share: who is there, the pipes between them, the memory of
 * share(), and the fault that ended it. Functions of a fabric are called with its lock held, unless
 * they say otherwise. */
#ifndef TT_LOOP_FABRIC_H
#define TT_LOOP_FABRIC_H

#include <pthread.h>

#include "faults.h"
#include "pipe.h"
#include "transport.h"

#define LOOP_SLEEPERS_MAX 64

struct loop_sleeper {
	pthread_t thread;
	bool called; /* the bell rang since it armed */
};

/* That poll() can wait for. */
struct loop_timer {
	int fd;
	uint64_t at; /* rings then; 0: not set */
};

/* Rung now or, for bytes that are not due yet, at a time. */
struct loop_bell {
	struct loop_timer timer;
	bool rang; /* and sleepers are marked */
	int armed; /* threads that sleep or are about to */
	struct loop_sleeper sleepers[LOOP_SLEEPERS_MAX];
};

enum loop_state { LOOP_ABSENT, LOOP_HERE, LOOP_LEFT, LOOP_DEAD };

/* The best fault that a rank has told, for those who hear each other's news. */
struct loop_told {
	struct tt_fault fault;
	uint64_t at, number;
};

struct loop_rank {
	enum loop_state state;
	bool joined;
	unsigned entries; /* the last has the place */
	uint64_t gone_at;
	struct loop_told told;
	struct loop_timer alarm; /* rings when there is news, whoever sleeps */
	pthread_t opener;
	int host;
	uint64_t written; /* on all links */
	struct loop_bell bell;
};

struct loop_segment {
	struct loop_segment *next;
	int host;
	unsigned number; /* the how manieth share() of its host */
	int arrived;
	size_t bytes;
	void *memory;
};

struct loop_fabric {
	struct loop_fabric *next;
	uint64_t comm_id;
	int size;
	int users; /* endpoints; under the lock of the registry */
	struct loop_faults faults;

	pthread_mutex_t lock;	/* of everything below */
	pthread_cond_t changed; /* a rank joined, shared, left or died, or the fault was set */
	struct tt_fault fault;
	uint8_t notes[4 * TT_NOTES_KEPT][TT_NOTE_BYTES]; /* of all ranks, in turn */
	uint64_t noted_at[4 * TT_NOTES_KEPT];
	uint64_t told;
	uint64_t numbers; /* of faults told */
	struct loop_segment *segments;
	struct loop_pipe **pipes; /* [from][to][channel] */
	struct loop_rank *ranks;
};

struct loop_entry {
	int rank;
	unsigned number;       /* among those of this rank */
	int bell_fd, alarm_fd; /* the place's while it is this entry's; readable without the lock */
};

/* Enter or leave, without the lock. The first to enter makes the fabric, the last to leave frees
 * it. A rank that has not joined may be replaced: by another thread, or by one that enters after
 * it has left. */
tutti_result_t tt_loop_fabric_enter(const struct tt_endpoint_config *config,
				    struct loop_fabric **out, struct loop_entry *entry);
void tt_loop_fabric_leave(struct loop_fabric *fabric, const struct loop_entry *entry);
/* Has it still its place? */
bool tt_loop_fabric_has(const struct loop_fabric *fabric, const struct loop_entry *entry);

void tt_loop_fabric_lock(struct loop_fabric *fabric);
void tt_loop_fabric_unlock(struct loop_fabric *fabric);

/* The pipe, made if need be; NULL: no memory. */
struct loop_pipe *tt_loop_fabric_pipe(struct loop_fabric *fabric, int from, int to,
				      enum tt_channel channel);
/* The segment that is its host's `number`-th, made if need be; NULL: no memory. */
struct loop_segment *tt_loop_fabric_segment(struct loop_fabric *fabric, int host, unsigned number,
					    size_t bytes);
/* Wait until something changed; false when `deadline` has passed. */
bool tt_loop_fabric_wait(struct loop_fabric *fabric, uint64_t deadline);
void tt_loop_fabric_die(struct loop_fabric *fabric, int rank);

/* Wake the rank's sleepers at `time` (0: at once), if there are any. */
void tt_loop_fabric_ring(struct loop_fabric *fabric, int rank, uint64_t time);
void tt_loop_fabric_ring_all(struct loop_fabric *fabric);
void tt_loop_fabric_arm(struct loop_fabric *fabric, int rank);
void tt_loop_fabric_disarm(struct loop_fabric *fabric, int rank);
/* The same for an alarm, which rings also if nobody sleeps; `time` 0: not at all. */
void tt_loop_fabric_set_alarm(struct loop_fabric *fabric, int rank, uint64_t time);

#endif
