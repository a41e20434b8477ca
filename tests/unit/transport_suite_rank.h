/* SPDX-License-Identifier: BSD-3-Clause */
/* What a claim's ranks may use: they are threads or processes, and meet on a stage that all of them
 * see. Every function that takes a rank may end it: a failed requirement does not return. */
#ifndef TT_TESTS_TRANSPORT_SUITE_RANK_H
#define TT_TESTS_TRANSPORT_SUITE_RANK_H

#include <setjmp.h>

#include "../patience.h"
#include "transport_suite.h"

#define SUITE_RANKS_MAX 40
/* Of a claim. */
#define SUITE_LIMIT_S (machine_may_be_busy() ? 150 : 60)
/* A sleep as long as this was not ended by an event. */
#define SUITE_SLEEP_MS ((int)(1000 * bound_s(5)))
#define SUITE_WANT_MAX 4096u /* what the seam allows peek() to want */

/* Counters of the stage. */
enum suite_counter {
	SUITE_BARRIER,
	SUITE_ARMED,
	SUITE_EVENT,
	SUITE_KILLED_AT, /* nanoseconds, when the kill was asked for */
	SUITE_FINISHED,
	SUITE_FIRST_FREE,
	SUITE_COUNTERS = SUITE_FIRST_FREE + SUITE_RANKS_MAX
};

struct suite_stage;

struct suite_rank {
	struct suite_stage *stage;
	const struct suite_options *options;
	const struct tt_transport *ops;
	int rank, size;
	bool process; /* ranks are processes */
	struct tt_peer peers[SUITE_RANKS_MAX];
	uint8_t addresses[SUITE_RANKS_MAX][TT_ADDRESS_MAX];
	struct tt_endpoint *endpoint;
	struct tt_link *links[SUITE_RANKS_MAX][TT_CHANNELS];
	uint64_t random;
	unsigned barriers;
	jmp_buf bail;
};

enum suite_needs {
	SUITE_NOTHING = 0,
	SUITE_SHARES = 1,    /* only where there is share() */
	SUITE_EXPORTS = 2,   /* only where memory is exported */
	SUITE_PROCESSES = 4, /* only as processes */
	SUITE_UNMET = 8,     /* the ranks begin without an endpoint */
};

struct suite_claim {
	const char *name;
	int size;
	unsigned needs;
	void (*body)(struct suite_rank *rank);
};

/* The claims, by file; each list ends with a NULL name. */
extern const struct suite_claim suite_bytes_claims[], suite_meet_claims[], suite_sleep_claims[],
	suite_end_claims[];

/* Run these lists (the last NULL) instead of all; returns the number of claims that failed. */
int suite_run_claims(const struct suite_claim *const *lists, const struct tt_transport *transport,
		     const struct suite_options *options);

/* ---- stage */

/* Run the claim; true, or false with the error messages of what failed and where in `out`. */
bool suite_run_claim(const struct suite_claim *claim, const struct tt_transport *transport,
		     const struct suite_options *options, bool processes, char *out,
		     size_t capacity);

/* Go on only if `ok`; else the error message is the claim's failure. */
void suite_require(struct suite_rank *rank, bool ok, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void suite_require_ok(struct suite_rank *rank, tutti_result_t result, const char *what);
/* Say where the rank is, for the error message of a hang; ends the rank if the claim is over
 * already. */
void suite_at(struct suite_rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t suite_deadline(const struct suite_rank *rank);

void suite_post(struct suite_rank *rank, int counter);
void suite_set(struct suite_rank *rank, int counter, uint64_t value);
uint64_t suite_value(struct suite_rank *rank, int counter);
/* Wait until the counter is `value` at least; the endpoint makes progress meanwhile. */
void suite_await(struct suite_rank *rank, int counter, uint64_t value);
void suite_barrier(struct suite_rank *rank);
/* Have this rank, a process, killed; does not return. */
void suite_die(struct suite_rank *rank);

uint64_t suite_random(struct suite_rank *rank);
size_t suite_random_size(struct suite_rank *rank, size_t least, size_t most);

/* ---- endpoints and links */

void suite_open(struct suite_rank *rank); /* and learn of all the others */
void suite_join(struct suite_rank *rank);
void suite_leave(struct suite_rank *rank); /* close all links, destroy the endpoint */
struct tt_link *suite_connect(struct suite_rank *rank, int peer, enum tt_channel channel);
void suite_connect_all(struct suite_rank *rank);

/* Open descriptors of the process. */
int suite_count_descriptors(void);

/* ---- streams */

/* Memory that a write() or read() was given, the same until all of it has moved, as a device may
 * be at it. */
struct suite_chunk {
	uint8_t *buffer; /* NULL: none */
	size_t bytes, moved;
};

/* What is to be written to and read from one link; which bytes, is given by the seeds. */
struct suite_stream {
	struct tt_link *link;
	uint32_t out_seed, in_seed;
	size_t out_total, out_done, in_total, in_done;
	size_t want;  /* of the peek under way, 0: none */
	size_t shown; /* by that peek so far */
	struct suite_chunk out, in;
	bool peek_only; /* else read and peek by turns */
};

/* The stream of this rank over its link with `peer`, `out` bytes there and `in` bytes back. */
struct suite_stream suite_stream(struct suite_rank *rank, int peer, enum tt_channel channel,
				 size_t out, size_t in);
/* Write to it no more than is in its chunk. */
void suite_stream_end_writing(struct suite_stream *stream);
/* Write and read what goes now; false: nothing. */
bool suite_stream_pass(struct suite_rank *rank, struct suite_stream *stream);
/* Until all streams are through, sleeping where nothing moves. */
void suite_pump(struct suite_rank *rank, struct suite_stream *streams, int n, const char *what);
/* Each of two ranks sends the other a message that begins with a head, in memory of its own,
 * while it reads the other's. `midway`, or NULL, is called once, with about half of it moved. */
void suite_exchange_long(struct suite_rank *rank, struct tt_link *link, size_t bytes,
			 void (*midway)(struct suite_rank *rank));
/* Arm, pass once more (true: something moved, no sleep), sleep until an event or SUITE_SLEEP_MS,
 * disarm. The way of sleeping is sleep(), or poll() of fd(). */
typedef bool suite_pass_fn(struct suite_rank *rank, void *context);
void suite_sleep(struct suite_rank *rank, suite_pass_fn *pass, void *context, bool by_poll,
		 const char *what);

#endif
