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

/* One kind of store. Arguments were checked: keys have 1 to TT_STORE_KEY_MAX bytes, values at most
 * TT_STORE_VALUE_MAX. Any thread may call; a get that waits keeps no other call from finishing.
 * Failures leave their sentence with tt_fail(). */
struct tt_store_ops {
	tutti_result_t (*set)(tutti_store_t store, const char *key, const void *value,
			      size_t length);
	/* `timeout_ns` 0: look once. TUTTI_IN_PROGRESS, without a sentence, if the key has not come by
	 * then. *length: room on entry, the true length on return, also with TUTTI_ERR_INVALID for a
	 * value that does not fit. */
	tutti_result_t (*get)(tutti_store_t store, const char *key, void *value, size_t *length,
			      uint64_t timeout_ns);
	/* Whoever waits for a key that begins with `prefix` and '/', now or later, stops at once with
	 * `result`, which is negative, and `sentence`; the first call for a prefix counts. Where nobody can
	 * be told, each waits for its time to pass. */
	void (*end)(tutti_store_t store, const char *prefix, tutti_result_t result,
		    const char *sentence);
	/* The caller's thread takes part in what the keys below `prefix` are for, in place of what it attended before. Should
	 * this process end, or its way to the host, before leave(), the host ends the prefix as end() does. Told with the
	 * thread's next call; nothing where nobody would see it. */
	void (*attend)(tutti_store_t store, const char *prefix, tutti_result_t result, const char *sentence);
	void (*leave)(tutti_store_t store);
	/* Has what the caller's thread attends been ended, by whomever, or the host? TUTTI_OK: as far as is known here, no.
	 * Otherwise with the first word, which all are told. Never waits. */
	tutti_result_t (*look)(tutti_store_t store);
	void (*close)(tutti_store_t store);
	/* Instead of close(), in a child of the process that made it (fork.h): frees what memory it can and does nothing
	 * else. */
	void (*forget)(tutti_store_t store);
};

struct tutti_store {
	const struct tt_store_ops *ops;
	struct tt_maker maker;
	char address[TT_STORE_ADDRESS_MAX];
	/* A host that closes waits for its clients no longer than this (CLOCK_MONOTONIC nanoseconds) and a second;
	 * 0: some seconds. */
	uint64_t close_by;
	const char *host; /* who that is, for messages; NULL: unknown */
	bool answered, closed; /* its host has answered something; has closed it in order: another may come to its address */
};

/* Of stores whose host, if there is one, does not see who is there. */
void tt_store_attend_unseen(tutti_store_t store, const char *prefix, tutti_result_t result, const char *sentence);
void tt_store_leave_unseen(tutti_store_t store);
tutti_result_t tt_store_look_blind(tutti_store_t store);

/* tutti_store_open() for those who have read the key; it is copied. */
tutti_result_t tt_store_open(const char *address, const struct tt_key *key, bool serve,
			     uint64_t timeout_ns, tutti_store_t *store);

/* Each makes a store of one kind; `address` is whole, with its scheme. */
tutti_result_t tt_store_client_open(const char *address, const struct tt_key *key, bool serve,
				    uint64_t timeout_ns, tutti_store_t *store);
tutti_result_t tt_store_file_open(const char *address, tutti_store_t *store);
tutti_result_t tt_store_user_create(const tutti_store_ops_t *ops, void *context,
				    tutti_store_t *store);

/* The sentences that all kinds share. `waited_ns` is what the caller was ready to wait. */
tutti_result_t tt_store_fail_room(tutti_store_t store, const char *key, size_t room, size_t length);

/* Seconds as nanoseconds; times beyond a century are a century. */
uint64_t tt_store_ns(double seconds);

#endif
