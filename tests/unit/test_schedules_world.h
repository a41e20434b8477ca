/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of all ranks while a schedule is proved, and what may be done to it. Functions that
 * return bool return false after refuse(), which keeps the first reason. */
#ifndef TEST_SCHEDULES_WORLD_H
#define TEST_SCHEDULES_WORLD_H

#include "test_schedules_prover.h"
#include "test_schedules_values.h"

/* One block's place in a buffer. Rounds are counted from 1 here, so that 0 is never. */
struct cell {
	int32_t value;		/* 0: nobody wrote it */
	uint32_t writer;	/* the step that wrote it last, counted from 1 */
	uint32_t write_round;	/* in which round */
	uint32_t exposed;	/* since which round peers may read it */
	uint32_t marked_round;	/* in which round a message reads it … */
	uint32_t marked_by;	/* … of which step; SEVERAL */
	uint32_t writing_round; /* in which round a message writes it */
	int32_t readers;	/* the last of those who read it, in world.readers */
	uint8_t exposed_as;	/* enum tt_buffer */
};

/* A peer read a cell. */
struct reader {
	int32_t next; /* the reader before, -1 for none */
	int32_t owner, rank;
	uint32_t round;
};

struct message;

struct world {
	const struct claim *claim;
	int blocks; /* of a buffer */
	int height; /* of combinations on a contribution's way, at most */
	struct tt_sched *sched;
	uint32_t *first_step; /* [size]: the number of a rank's first step, from 1 */
	size_t steps;
	struct cell *cells;
	size_t *first_cell; /* [size] */
	struct values values;
	struct reader *readers;
	int32_t reader_count, reader_capacity;
	uint32_t *synced; /* [size * size]: the last round in which a rank waited for a peer */
	uint64_t *known, *knew; /* barrier: whose beginning a rank knows of; when the round began */
	struct message *sends, *receives, *spare;
	int rank; /* at work, for refuse() */
	uint32_t round, step;
	char *why;
	size_t why_capacity;
	bool refused;
};

bool world_init(struct world *w, const struct claim *claim, char *why, size_t capacity);
void world_fini(struct world *w);
void begin_round(struct world *w);

__attribute__((format(printf, 2, 3))) bool refuse(struct world *w, const char *format, ...);
bool reduces(const struct world *w);
bool is_prefix(const struct world *w);

/* The cell of block i of a run; in place, send and recv share theirs. The ref was checked. */
struct cell *find_cell(const struct world *w, int rank, struct tt_ref ref, uint32_t i);
bool check_ref(struct world *w, int rank, struct tt_ref ref, uint32_t i);
/* Where only a rank's own row of lengths is known, messages go from send to recv. */
bool check_straight(struct world *w, struct tt_ref from, struct tt_ref to);

bool read_own(struct world *w, struct tt_ref ref, uint32_t i, struct value *value);
bool read_peer(struct world *w, int peer, struct tt_ref ref, uint32_t i, struct value *value);
bool write_own(struct world *w, struct tt_ref ref, uint32_t i, const struct value *value);
bool expose_own(struct world *w, struct tt_ref ref, uint32_t i);
bool await_peer(struct world *w, int peer);

void mark_read(struct world *w, int rank, struct tt_ref ref, uint32_t i, uint32_t step);
bool mark_write(struct world *w, int rank, struct tt_ref ref, uint32_t i, uint32_t step);

/* Barrier: `rank` hears of all that `peer` knew when the round began. */
void learn(struct world *w, int rank, int peer);

/* After the last round. */
bool check_outputs(struct world *w);

#endif
