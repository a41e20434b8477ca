/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a store that is being served, with their values and those who wait for them; and the
 * endings: beginnings of keys that will not come any more, with the word on why. */
#ifndef TT_STORE_KEYS_H
#define TT_STORE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_STORE_TOTAL_MAX ((size_t)1 << 30) /* bytes of keys and values in one store */

struct tt_store_entry {
	bool present; /* has a value; without one it is only waited for */
	uint8_t *value;
	size_t length;
	void *waiters; /* the server's */
	char key[];
};

struct tt_store_ending {
	struct tt_store_ending *next;
	size_t word_length;
	uint8_t *word; /* behind the prefix */
	char prefix[];
};

struct tt_store_keys {
	void *root; /* of tsearch() */
	struct tt_store_ending *endings;
	size_t bytes;
};

/* The entry of `key`, made if there is none; NULL without memory. */
struct tt_store_entry *tt_store_keys_entry(struct tt_store_keys *keys, const char *key);
/* Give the entry a value in place of the one before; false without memory. */
bool tt_store_keys_put(struct tt_store_keys *keys, struct tt_store_entry *entry, const void *value,
		       size_t length);
/* Forget the entry if it has neither value nor waiters. */
void tt_store_keys_trim(struct tt_store_keys *keys, struct tt_store_entry *entry);
/* End the keys that begin with `prefix` and '/', unless they were ended before; false without
 * memory. */
bool tt_store_keys_end(struct tt_store_keys *keys, const char *prefix, const void *word,
		       size_t length);
/* What ended `key`, NULL if nothing did. */
const struct tt_store_ending *tt_store_keys_ending(const struct tt_store_keys *keys,
						   const char *key);
void tt_store_keys_finish(struct tt_store_keys *keys);

#endif
