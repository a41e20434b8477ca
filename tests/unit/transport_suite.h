/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of src/spi/transport.h, tried on a transport. A claim stands where it is shown:
 *
 *	SUITE_CLAIM(bytes_wake, 2, SUITE_NOTHING)
 *	{
 *		…
 *	}
 *
 * It is played by so many ranks, which are threads or processes and meet on a stage that all of
 * them see. Every function that takes a rank may end it: a failed requirement does not return. */
#ifndef TT_TESTS_TRANSPORT_SUITE_H
#define TT_TESTS_TRANSPORT_SUITE_H

#include <pthread.h>
#include <setjmp.h>

#include "../patience.h"
#include "calls/random.h"
#include "transport.h"

#define SUITE_RANKS_MAX 40
/* Of a claim. */
#define SUITE_LIMIT_S (machine_may_be_busy() ? 150 : 60)
/* A sleep as long as this was not ended by an event. */
#define SUITE_SLEEP_MS ((int)(1000 * bound_s(5)))
#define SUITE_WANT_MAX 4096u /* what the seam allows peek() to want */
#define SUITE_TEXT     512

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

struct suite_options {
	bool threads;	/* ranks may be threads of one process */
	bool processes; /* ranks may be processes */
	bool elsewhere; /* where claims poll, there is a rank more, which other transports reach */
	bool shares;	/* has share() and wake() */
	bool locates;	/* knows where processes with a link run */
	/* Memory that export_memory() takes, and its release; NULL: the transport exports none. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *memory);
	const struct tt_key *key; /* NULL: none */
	size_t longest;		  /* bytes of the longest stream; 0: 4 MiB */
	/* What this process has of the kernel's besides descriptors, in words, into `room`
	 * bytes: the same after a claim as before. NULL: none. */
	void (*held)(char *out, size_t capacity);
};

/* Seen by all ranks of a claim, be they threads or processes. */
struct suite_stage {
	/* set before the ranks start */
	int size;
	uint64_t comm_id, deadline;

	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t changed;
	uint64_t counters[SUITE_COUNTERS];
	struct tt_peer peers[SUITE_RANKS_MAX + 1];
	uint8_t addresses[SUITE_RANKS_MAX][TT_ADDRESS_MAX];
	bool failed; /* some rank has: the others need not go on */
	bool killed[SUITE_RANKS_MAX];
	char failure[SUITE_RANKS_MAX][SUITE_TEXT];
	char where[SUITE_RANKS_MAX][SUITE_TEXT];
};

struct suite_rank {
	struct suite_stage *stage;
	const struct suite_options *options;
	const struct tt_transport *ops;
	int rank, size;
	bool process;	/* ranks are processes */
	bool elsewhere; /* one more is elsewhere */
	struct tt_peer peers[SUITE_RANKS_MAX + 1];
	uint8_t addresses[SUITE_RANKS_MAX][TT_ADDRESS_MAX];
	struct tt_endpoint *endpoint;
	struct tt_link *links[SUITE_RANKS_MAX][TT_CHANNELS];
	struct random random;
	unsigned barriers;
	jmp_buf bail;
};

enum suite_needs {
	SUITE_NOTHING = 0,
	SUITE_SHARES = 1,    /* only where there is share() */
	SUITE_EXPORTS = 2,   /* only where memory is exported */
	SUITE_PROCESSES = 4, /* only as processes */
	SUITE_UNMET = 8,     /* the ranks begin without an endpoint */
	SUITE_ROOT = 16,     /* only by root */
	SUITE_POLLS = 32,    /* fd() is there */
	SUITE_LOCATES = 64,
};

struct suite_claim {
	const char *name;
	int size;
	unsigned needs;
	void (*body)(struct suite_rank *rank);
};

#define SUITE_CLAIM(name, size, needs)                                                             \
	static void name(struct suite_rank *rank);                                                 \
	__attribute__((constructor)) static void add_##name(void)                                  \
	{                                                                                          \
		suite_add_claim(&(const struct suite_claim){ #name, size, needs, name });          \
	}                                                                                          \
	static void name(struct suite_rank *rank)

/* One that is a call: such claims differ in an argument. */
#define SUITE_CLAIM_OF(name, size, needs, call)                                                    \
	SUITE_CLAIM(name, size, needs)                                                             \
	{                                                                                          \
		call;                                                                              \
	}

void suite_add_claim(const struct suite_claim *claim);
/* Run every claim of the suite and of the program that fits the options, as processes first.
 * Returns the number of claims that failed. */
int transport_suite_run(const struct tt_transport *transport, const struct suite_options *options);

/* ---- stage */

/* Run the claim; true, or false with the error messages of what failed and where in `out`. */
bool suite_run_claim(const struct suite_claim *claim, const struct tt_transport *transport,
		     const struct suite_options *options, bool processes, char *out,
		     size_t capacity);

/* Go on only if `ok`; else the error message is the claim's failure. */
void suite_require(struct suite_rank *rank, bool ok, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void suite_require_ok(struct suite_rank *rank, tutti_result_t result, const char *what);
/* It failed so, and the thread's error message has these words. */
void suite_require_failed(struct suite_rank *rank, ssize_t result, tutti_result_t expected,
			  const char *words, const char *what);
/* Say where the rank is, for the error message of a hang; ends the rank if the claim is over
 * already. */
void suite_at(struct suite_rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void suite_post(struct suite_rank *rank, int counter);
void suite_set(struct suite_rank *rank, int counter, uint64_t value);
uint64_t suite_value(struct suite_rank *rank, int counter);
/* Wait until the counter is `value` at least; the endpoint makes progress meanwhile. */
void suite_await(struct suite_rank *rank, int counter, uint64_t value);
void suite_barrier(struct suite_rank *rank);
/* Of this rank, a process; does not return. */
_Noreturn void suite_die(struct suite_rank *rank);

/* ---- endpoints and links */

void suite_open(struct suite_rank *rank); /* and learn of all the others */
tutti_result_t suite_try_join(struct suite_rank *rank);
void suite_join(struct suite_rank *rank);
void suite_leave(struct suite_rank *rank); /* close all links, destroy the endpoint */
struct tt_link *suite_connect(struct suite_rank *rank, int peer, enum tt_channel channel);
/* With the other one of two ranks, until the link is ready at both. */
struct tt_link *suite_connect_up(struct suite_rank *rank, enum tt_channel channel);
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
	size_t want, limit; /* of the peek under way, 0: none */
	size_t shown;	    /* by that peek so far */
	struct suite_chunk out, in;
	bool peek_only; /* else read and peek by turns */
	bool whole;	/* a head, then all the rest in one piece */
};

/* The stream of this rank over its link with `peer`, `out` bytes there and `in` bytes back. */
struct suite_stream suite_stream(struct suite_rank *rank, int peer, enum tt_channel channel,
				 size_t out, size_t in);
/* Write bytes until the link takes no more; those of the chunk that is not through are still to be
 * written. */
void suite_stream_fill(struct suite_rank *rank, struct suite_stream *stream);
/* Write and read what goes now; false: nothing. */
bool suite_stream_pass(struct suite_rank *rank, struct suite_stream *stream);
/* Until all streams are through, sleeping where nothing moves. */
void suite_pump(struct suite_rank *rank, struct suite_stream *streams, int n, const char *what);
/* Over the link with `peer` so many bytes go there and back. */
void suite_exchange(struct suite_rank *rank, int peer, enum tt_channel channel, size_t out,
		    size_t in, const char *what);
/* Each of two ranks sends the other a message that begins with a head, in memory of its own, over
 * the channel P2P, while it reads the other's. `midway`, or NULL, is called once, with about half
 * of it moved. */
void suite_exchange_long(struct suite_rank *rank, size_t bytes,
			 void (*midway)(struct suite_rank *rank));
/* Arm, pass once more (true: something moved, no sleep), sleep until an event or SUITE_SLEEP_MS,
 * disarm. The way of sleeping is sleep(), or poll() of fd(). */
typedef bool suite_pass_fn(struct suite_rank *rank, void *context);
void suite_sleep(struct suite_rank *rank, suite_pass_fn *pass, void *context, bool by_poll,
		 const char *what);
/* Sleeping, until the endpoint has a fault. */
void suite_await_fault(struct suite_rank *rank, const char *what);
/* It has this one, with these words in its text. */
void suite_require_fault(struct suite_rank *rank, tutti_result_t result, int of, const char *words);

#endif
