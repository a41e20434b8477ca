/* SPDX-License-Identifier: BSD-3-Clause */
/* What every kind of store begins with, and how each kind is made. A kind is one file with one
 * table. */
#ifndef TT_STORE_H
#define TT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fork.h"
#include "key.h"
#include "tutti/tutti.h"

#define TT_STORE_KEY_MAX     255
#define TT_STORE_VALUE_MAX   (1u << 20)
#define TT_STORE_ADDRESS_MAX 512
#define TT_STORE_TIMEOUT_S   300.0

/* A process that takes part in what the keys below `prefix` are for. */
struct tt_attendance {
	const char *prefix; /* GROUP/NUMBER */
	int member;	    /* of GROUP, a number that no other process has meanwhile; -1: none
			     * is claimed */
	const char *who;    /* the process, for messages */
	/* For the others, should this process end, or its way to the host, before leave(). */
	tutti_result_t result;
	const char *error_text;
	uint64_t timeout_ns; /* for a host to be reached; 0: the store's own time */
};

/* How end() ends what is no failure: another rendezvous has begun, or another process has taken
 * this one's place. No call of the library's returns it: tt_rendezvous_goes_on(). */
#define TT_SUPERSEDED ((tutti_result_t)-100)

/* The usual `answer_ns` of a get. */
#define TT_STORE_ANSWER_NS UINT64_C(2000000000)

/* One kind of store. Arguments were checked: keys have 1 to TT_STORE_KEY_MAX bytes, values at most
 * TT_STORE_VALUE_MAX. Any thread may call; a get that waits keeps no other call from finishing.
 * Failures leave their error message with tt_fail(). */
struct tt_store_ops {
	/* `timeout_ns`: what a host has to answer; 0: the store's own time. */
	tutti_result_t (*set)(tutti_store_t store, const char *key, const void *value,
			      size_t length, uint64_t timeout_ns);
	/* `timeout_ns` 0: poll once. TUTTI_IN_PROGRESS, without an error message, if the key has
	 * not come by then. *length: room on entry, the true length on return, also with
	 * TUTTI_ERR_INVALID for a value that does not fit. `answer_ns`: what a host has beyond
	 * `timeout_ns` to answer. */
	tutti_result_t (*get)(tutti_store_t store, const char *key, void *value, size_t *length,
			      uint64_t timeout_ns, uint64_t answer_ns);
	/* A wait for a key that begins with `prefix` and '/', or of one who attends it, now or
	 * later, ends at once with `result`, which is negative, and `error_text`; the first call
	 * for a prefix counts. Where the store has no host, those who attend the prefix are told. */
	void (*end)(tutti_store_t store, const char *prefix, tutti_result_t result,
		    const char *error_text);
	/* The caller's thread attends, in place of what it attended before. If another attends
	 * as the same member of the group, what both attend is ended, unless TT_STORE_MET is set
	 * below one of the prefixes: that one waits for nobody any more, and the other process
	 * attends the next. Should this process end, or its way to the host, before leave(), the
	 * host ends the prefix as end() does; not where nobody would see it. Told with the
	 * thread's next call. */
	void (*attend)(tutti_store_t store, const struct tt_attendance *attendance);
	void (*leave)(tutti_store_t store);
	/* Has what the caller's thread attends been ended, by whomever, or the host? TUTTI_OK:
	 * as far as is known here, no. Otherwise with the first word, which all are told. Waits
	 * for nobody; may ask the store. */
	tutti_result_t (*poll)(tutti_store_t store);
	void (*close)(tutti_store_t store);
	/* Instead of close(), in a child of the process that made it (fork.h): frees what memory
	 * it can and does nothing else. */
	void (*forget)(tutti_store_t store);
};

/* Below a prefix: all whom it waits for have come. (It is rank 0's, see rendezvous.c.) */
#define TT_STORE_MET "0"
/* Where a served store says which process it turned away last, as it did not prove that it
 * belongs to the job. */
#define TT_STORE_TURNED_AWAY "tutti/turned-away"

struct tutti_store {
	const struct tt_store_ops *ops;
	struct tt_owner owner;
	char address[TT_STORE_ADDRESS_MAX];
	/* A host that closes waits for its clients no longer than this (CLOCK_MONOTONIC
	 * nanoseconds) and a second; 0: some seconds. */
	uint64_t close_by;
	const char *host;      /* who that is, for messages; NULL: unknown */
	bool hosts;	       /* this handle serves it */
	bool own;	       /* no other start of the job has left anything in it */
	bool answered, closed; /* its host has answered something; has closed it in order:
				* another may come to its address */
};

/* tutti_store_open() for those who have read the key; it is copied. `rank`: which one opens it,
 * so that the others can be told if the host turns it away; -1: unknown. */
tutti_result_t tt_store_open(const char *address, const struct tt_key *key, int rank, bool serve,
			     uint64_t timeout_ns, tutti_store_t *store);

/* Each makes a store of one kind; `address` is whole, with its scheme. */
tutti_result_t tt_store_client_open(const char *address, const struct tt_key *key, int rank,
				    bool serve, uint64_t timeout_ns, tutti_store_t *store);
tutti_result_t tt_store_file_open(const char *address, tutti_store_t *store);
tutti_result_t tt_store_user_create(const tutti_store_ops_t *ops, void *context,
				    tutti_store_t *store);

/* store_errors.c: the error messages that all kinds share. */
tutti_result_t tt_store_fail_capacity(tutti_store_t store, const char *key, size_t capacity,
				      size_t length);
/* With what an end() has told: any result and text may have come. */
tutti_result_t tt_store_fail_ended(tutti_result_t result, const char *error_text);
void tt_store_report_twice(int member, const char *one, const char *other, char *out, size_t size);

#endif
