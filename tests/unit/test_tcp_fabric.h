/* SPDX-License-Identifier: BSD-3-Clause */
/* Several ranks' TCP endpoints in one process, over real sockets of the loopback interface. */
#ifndef TEST_TCP_FABRIC_H
#define TEST_TCP_FABRIC_H

#include <stdlib.h>
#include <string.h>

#include "tutti_asserts.h"
#include "handshake.h"
#include "key.h"
#include "tcp.h"

#define RANKS_MAX 8
#define SECOND	  UINT64_C(1000000000)

static const struct tt_transport *const tcp = &tt_transport_tcp;

struct fabric {
	int size;
	uint64_t comm_id;
	struct tt_endpoint *endpoint[RANKS_MAX];
	struct tt_peer peers[RANKS_MAX][RANKS_MAX];		 /* as each rank sees them … */
	uint8_t addresses[RANKS_MAX][RANKS_MAX][TT_ADDRESS_MAX]; /* … and their addresses */
	tutti_result_t joined[RANKS_MAX];
	struct tt_endpoint *dead; /* of a rank that died */
	/* of a channel between ranks 0 and 1, at each of them; NULL: none */
	struct tt_link *ends[2];
};

extern const struct tt_key fabric_key;

/* Open every rank's endpoint, exchange addresses of the family (4, 6 or 0 for both), all pairs to
 * use TCP. All have the key. */
void fabric_open(struct fabric *f, int size, int family);
/* The same with a key of its own for each rank, or none (NULL). */
void fabric_open_with(struct fabric *f, int size, int family, const struct tt_key *const keys[]);
void fabric_open_rank(struct fabric *f, int rank, const struct tt_key *key);
/* Called before what makes sockets for a rank, in the thread that does; NULL: nothing is. */
extern void (*fabric_enter)(int rank);
/* join() of all ranks at once; results in `joined`. */
void fabric_join(struct fabric *f, uint64_t deadline);
/* All must succeed. */
void fabric_meet(struct fabric *f);
/* After fabric_open(). */
void fabric_start(struct fabric *f, int size, int family);
void fabric_stop(struct fabric *f);
/* The rank's process dies, as others see it; its endpoint is no longer looked at, and destroyed by
 * fabric_stop(). */
void fabric_die(struct fabric *f, int rank);
/* One rank's endpoint is destroyed, one end closed. */
void fabric_leave(struct fabric *f, int rank);
void fabric_close(struct fabric *f, int end);

/* That of a claim, for TEST_WITH(): two ranks, or two and both ends of a channel; and its end. */
extern struct fabric fabric;
int two_ranks(void **state);
int two_ends(void **state);
int no_ranks(void **state);

/* Look at everything on every rank until `done(arg)`; fails the test after 20 s. */
void fabric_until(struct fabric *f, bool (*done)(void *arg), void *arg);

/* Port that the rank listens on. */
uint16_t fabric_port(const struct fabric *f, int rank);
/* Rank `who` finds the port in place of that of rank `of`. */
void fabric_lead(struct fabric *f, int who, int of, int port);

/* Somebody who has called a rank and is none: what it was told, until the rank hangs up. */
struct caller {
	int fd;
	size_t enough; /* or until so many bytes have come; 0: no number is enough */
	uint8_t heard[256];
	size_t length;
};
/* For fabric_until(). */
bool caller_heard(void *caller);
/* The rank hangs up without a word; so does the caller. */
void caller_is_dropped(struct fabric *f, int fd);

/* A hello whose nonce does not matter. */
void fabric_hello(const struct tt_hello *hello, uint8_t out[TT_HELLO_BYTES]);

/* The end of rank 0 or 1 is asked for; both are, and are up. */
void fabric_ask(struct fabric *f, int rank);
void fabric_connect(struct fabric *f);
/* Bytes that the end of the rank took, or gave. */
ssize_t fabric_put(struct fabric *f, int rank, const void *bytes, size_t length);
ssize_t fabric_get(struct fabric *f, int rank, void *bytes, size_t length);

/* Ranks 0 and 1 still find each other and move bytes. */
void fabric_goes_on(struct fabric *f);

#endif
