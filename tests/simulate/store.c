/* SPDX-License-Identifier: BSD-3-Clause */
#include "store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "machine.h"

struct entry {
	struct entry *next;
	size_t length;
	char *value;
	char key[256];
};

static struct {
	struct entry *first;
	uint64_t slowest_ns;
	bool lost;
} store;

/* The key's among those newer than `old`. */
static struct entry *find_since(const struct entry *old, const char *key)
{
	for (struct entry *entry = store.first; entry != old; entry = entry->next)
		if (strcmp(entry->key, key) == 0)
			return entry;
	return NULL;
}

static struct entry *find(const char *key)
{
	return find_since(NULL, key);
}

/* The way to the store and back. */
static int travel(void)
{
	if (store.slowest_ns > 0)
		machine_sleep(random_below(machine_random(), store.slowest_ns));
	else
		machine_yield(true);
	return store.lost || machine_is_dead(machine_process()) ? ECONNRESET : 0;
}

static int set(void *context, const char *key, const void *value, size_t length)
{
	const int error = travel();
	struct entry *entry = find(key);

	if (error)
		return error;
	if (!entry) {
		entry = calls_allocate(sizeof(*entry));
		snprintf(entry->key, sizeof(entry->key), "%s", key);
		entry->value = NULL;
		entry->next = store.first;
		store.first = entry;
	}
	calls_release(entry->value);
	entry->value = calls_allocate(length);
	memcpy(entry->value, value, length);
	entry->length = length;
	return 0;
}

struct wanted {
	const char *key;
	const struct entry *seen; /* it is none of these and those before it */
};

static uint64_t when_there(const void *argument)
{
	struct wanted *wanted = (struct wanted *)argument;
	const bool there = store.lost || find_since(wanted->seen, wanted->key);

	if (!there)
		wanted->seen = store.first;
	return there ? 0 : FOREVER;
}

static int get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	struct wanted wanted = { .key = key };

	machine_wait(when_there, &wanted, machine_now() + (uint64_t)(timeout_s * 1e9), false);
	const int error = travel();
	const struct entry *entry = find(key);
	const size_t capacity = *length;

	if (error || !entry)
		return error ? error : ETIMEDOUT;
	*length = entry->length;
	memcpy(value, entry->value, entry->length < capacity ? entry->length : capacity);
	return entry->length > capacity ? EMSGSIZE : 0;
}

void store_begin(uint64_t slowest_ns)
{
	store.slowest_ns = slowest_ns;
	store.lost = false;
}

void store_lose(void)
{
	machine_trace("the store is lost");
	store.lost = true;
}

void store_end(void)
{
	while (store.first) {
		struct entry *entry = store.first;

		store.first = entry->next;
		calls_release(entry->value);
		calls_release(entry);
	}
}

tutti_result_t store_open(tutti_store_t *out)
{
	static const tutti_store_ops_t ops = { sizeof(ops), set, get, NULL };

	return tutti_store_create(&ops, NULL, out);
}
