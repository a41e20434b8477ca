/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the memory of keys, values and endings in a served store: a search tree by key, and a list
 * of endings, which are few. Their total size is bounded. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "store_keys.h"

static int compare(const void *a, const void *b)
{
	const struct tt_store_entry *left = a, *right = b;

	return strcmp(left->key, right->key);
}

static size_t entry_size(const char *key)
{
	return sizeof(struct tt_store_entry) + strlen(key) + 1;
}

struct tt_store_entry *tt_store_keys_entry(struct tt_store_keys *keys, const char *key)
{
	const size_t size = entry_size(key);
	struct tt_store_entry *fresh = calloc(1, size);

	if (!fresh)
		return NULL;
	memcpy(fresh->key, key, strlen(key) + 1);
	struct tt_store_entry **found = tsearch(fresh, &keys->root, compare);
	if (!found || *found != fresh) {
		free(fresh);
		return found ? *found : NULL;
	}
	keys->bytes += size;
	return fresh;
}

bool tt_store_keys_put(struct tt_store_keys *keys, struct tt_store_entry *entry, const void *value,
		       size_t length)
{
	if (keys->bytes - entry->length + length > TT_STORE_TOTAL_MAX)
		return false;
	uint8_t *copy = malloc(length + 1); /* one more: never NULL for an empty value */
	if (!copy)
		return false;
	memcpy(copy, value, length);
	free(entry->value);
	keys->bytes += length - entry->length;
	entry->value = copy;
	entry->length = length;
	entry->present = true;
	return true;
}

void tt_store_keys_trim(struct tt_store_keys *keys, struct tt_store_entry *entry)
{
	if (entry->present || entry->waiters)
		return;
	keys->bytes -= entry_size(entry->key);
	tdelete(entry, &keys->root, compare);
	free(entry);
}

static bool ends(const struct tt_store_ending *ending, const char *key)
{
	const size_t length = strlen(ending->prefix);

	return strncmp(key, ending->prefix, length) == 0 && key[length] == '/';
}

const struct tt_store_ending *tt_store_keys_ending(const struct tt_store_keys *keys,
						   const char *key)
{
	const struct tt_store_ending *ending = keys->endings;

	while (ending && !ends(ending, key))
		ending = ending->next;
	return ending;
}

bool tt_store_keys_end(struct tt_store_keys *keys, const char *prefix, const void *word,
		       size_t length)
{
	const size_t name = strlen(prefix) + 1;
	const size_t size = sizeof(struct tt_store_ending) + name + length;

	for (const struct tt_store_ending *e = keys->endings; e; e = e->next)
		if (strcmp(e->prefix, prefix) == 0)
			return true;
	struct tt_store_ending *ending =
		keys->bytes + size > TT_STORE_TOTAL_MAX ? NULL : malloc(size);
	if (!ending)
		return false;
	memcpy(ending->prefix, prefix, name);
	ending->word = (uint8_t *)ending->prefix + name;
	ending->word_length = length;
	memcpy(ending->word, word, length);
	ending->next = keys->endings;
	keys->endings = ending;
	keys->bytes += size;
	return true;
}

static void free_entry(void *node)
{
	struct tt_store_entry *entry = node;

	free(entry->value);
	free(entry);
}

void tt_store_keys_finish(struct tt_store_keys *keys)
{
	tdestroy(keys->root, free_entry);
	keys->root = NULL;
	while (keys->endings) {
		struct tt_store_ending *ending = keys->endings;

		keys->endings = ending->next;
		free(ending);
	}
}
