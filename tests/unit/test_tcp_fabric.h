/* SPDX-License-Identifier: BSD-3-Clause */
/* Several ranks' TCP endpoints in one process, over real sockets of the loopback interface. */
#ifndef TEST_TCP_FABRIC_H
#define TEST_TCP_FABRIC_H

#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "key.h"
#include "tcp.h"

#define RANKS_MAX 8
#define SECOND	  UINT64_C(1000000000)

struct fabric {
	int size;
	uint64_t comm_id;
	int family; /* of the addresses that ranks tell each other: 4, 6 or 0 for all */
	struct tt_endpoint *endpoint[RANKS_MAX];
	struct tt_peer peers[RANKS_MAX][RANKS_MAX];		 /* as each rank sees them … */
	uint8_t addresses[RANKS_MAX][RANKS_MAX][TT_ADDRESS_MAX]; /* … and their addresses */
	tutti_result_t joined[RANKS_MAX];
};

extern const struct tt_key fabric_key;

/* Open every rank's endpoint, exchange addresses, all pairs to use TCP. All have the key. */
void fabric_open(struct fabric *f, int size, int family);
/* The same with a key of its own for each rank, or none (NULL). */
void fabric_open_with(struct fabric *f, int size, int family, const struct tt_key *const keys[]);
/* join() of all ranks at once; results in `joined`. */
void fabric_join(struct fabric *f, uint64_t deadline);
/* Both, and all must succeed. */
void fabric_start(struct fabric *f, int size, int family);
void fabric_stop(struct fabric *f);

/* Look at everything on every rank until `done(arg)`; fails the test after 20 s. */
void fabric_until(struct fabric *f, bool (*done)(void *arg), void *arg);

/* Port that the rank listens on. */
uint16_t fabric_port(const struct fabric *f, int rank);

/* Somebody who has called a rank and is none: what it was told. */
struct caller {
	int fd;
	uint8_t heard[256];
	size_t length;
};
/* For fabric_until(). */
bool caller_hung_up(void *caller);

/* Both ends of a channel, up. */
void fabric_connect(struct fabric *f, int a, int b, struct tt_link **at_a, struct tt_link **at_b);

/* Ranks 0 and 1 still find each other and move bytes. */
void fabric_goes_on(struct fabric *f);

#endif
