/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the public calls on stores: checks arguments, finds the kind of store by the scheme of its
 * address and hands on to its table. Holds no state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "key_read.h"
#include "log.h"
#include "store.h"

static tutti_result_t fail_missing(tutti_store_t store, const char *key, uint64_t waited_ns)
{
	return tt_fail(TUTTI_ERR_TIMEOUT, STORE,
		       "key \"%s\" did not come to the store %s within %.3f s: the rank that sets "
		       "it has not "
		       "got that far, or has ended",
		       key, store->address, (double)waited_ns * 1e-9);
}

static tutti_result_t check_address(const char *address)
{
	if (!address)
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"the address of the store is NULL: expected tcp://HOST:PORT, unix:NAME or "
			"file:DIRECTORY");
	if (strlen(address) >= TT_STORE_ADDRESS_MAX)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the address of the store has %zu bytes: expected at most %d",
			       strlen(address), TT_STORE_ADDRESS_MAX - 1);
	return TUTTI_OK;
}

static tutti_result_t open_kind(const char *address, const struct tt_key *key, int rank, bool serve,
				uint64_t timeout_ns, tutti_store_t *store)
{
	if (strncmp(address, "tcp://", 6) == 0 || strncmp(address, "unix:", 5) == 0)
		return tt_store_client_open(address, key, rank, serve, timeout_ns, store);
	if (strncmp(address, "file:", 5) == 0)
		return tt_store_file_open(address, store);
	return tt_fail(TUTTI_ERR_INVALID, STORE,
		       "the address of the store is \"%s\": expected tcp://HOST:PORT, unix:NAME or "
		       "file:DIRECTORY",
		       address);
}

static tutti_result_t sign(tutti_result_t result, tutti_store_t *store)
{
	if (result == TUTTI_OK)
		(*store)->owner = tt_owner_here();
	return result;
}

tutti_result_t tt_store_open(const char *address, const struct tt_key *key, int rank, bool serve,
			     uint64_t timeout_ns, tutti_store_t *store)
{
	*store = NULL;
	return sign(open_kind(address, key, rank, serve, timeout_ns, store), store);
}

TUTTI_API tutti_result_t tutti_store_open_with(const char *address,
					       const tutti_store_config_t *config,
					       tutti_store_t *store)
{
	struct tt_key key;

	if (!store)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "tutti_store_open: the place for the store is NULL");
	*store = NULL;
	if (!config || config->size != sizeof(*config))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the config of the store is %s: start from TUTTI_STORE_CONFIG_INIT",
			       config ? "of another size" : "NULL");
	tutti_result_t result = check_address(address);
	if (result != TUTTI_OK)
		return result;
	if (!tt_seconds_sound(config->timeout_s))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the timeout to open the store %s is %g s: expected more than 0 and "
			       "at most 1e9, or 0 for %g s",
			       address, config->timeout_s, TT_STORE_TIMEOUT_S);
	result = tt_key_read(config->key, config->encrypt, &key);
	if (result == TUTTI_OK)
		result = tt_key_check(&key);
	if (result == TUTTI_OK)
		result = tt_store_open(address, &key, -1, config->serve != 0,
				       tt_nanoseconds(config->timeout_s > 0 ? config->timeout_s
									    : TT_STORE_TIMEOUT_S),
				       store);
	tt_key_wipe(&key);
	return result;
}

TUTTI_API tutti_result_t tutti_store_open(const char *address, int serve, double timeout_s,
					  tutti_store_t *store)
{
	tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;

	config.serve = serve;
	config.timeout_s = timeout_s;
	return tutti_store_open_with(address, &config, store);
}

TUTTI_API tutti_result_t tutti_store_create(const tutti_store_ops_t *ops, void *context,
					    tutti_store_t *store)
{
	if (!store)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "tutti_store_create: the place for the store is NULL");
	*store = NULL;
	if (!ops || ops->size < sizeof(*ops))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "tutti_store_create: the table is %s: expected one with size %zu",
			       ops ? "smaller than this library's" : "NULL", sizeof(*ops));
	if (!ops->set || !ops->get)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "tutti_store_create: %s is NULL: both set and get must be there",
			       ops->set ? "get" : "set");
	return sign(tt_store_user_create(ops, context, store), store);
}

TUTTI_API const char *tutti_store_address(tutti_store_t store)
{
	return store ? store->address : NULL;
}

static tutti_result_t check_key(const char *call, tutti_store_t store, const char *key)
{
	if (!store)
		return tt_fail(TUTTI_ERR_INVALID, STORE, "%s: the store is NULL", call);
	if (!tt_owned_here(&store->owner))
		return tt_fail_inherited(&store->owner, call, "store");
	if (!key)
		return tt_fail(TUTTI_ERR_INVALID, STORE, "%s: the key is NULL", call);
	const size_t length = strlen(key);
	if (length == 0 || length > TT_STORE_KEY_MAX)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "%s: the key has %zu bytes: expected 1 to %d", call, length,
			       TT_STORE_KEY_MAX);
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_store_set(tutti_store_t store, const char *key, const void *value,
					 size_t length)
{
	const tutti_result_t checked = check_key("tutti_store_set", store, key);

	if (checked != TUTTI_OK)
		return checked;
	if (length > TT_STORE_VALUE_MAX)
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"tutti_store_set: the value of \"%s\" has %zu bytes: expected at most %u",
			key, length, TT_STORE_VALUE_MAX);
	if (!value && length > 0)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "tutti_store_set: the value of \"%s\" is NULL and has %zu bytes",
			       key, length);
	/* a value of no bytes has an address, too: what copies it may not be given NULL */
	return store->ops->set(store, key, value ? value : "", length, 0);
}

TUTTI_API tutti_result_t tutti_store_get(tutti_store_t store, const char *key, void *value,
					 size_t *length, double timeout_s)
{
	const tutti_result_t checked = check_key("tutti_store_get", store, key);

	if (checked != TUTTI_OK)
		return checked;
	if (!length || (!value && *length > 0))
		return tt_fail(TUTTI_ERR_INVALID, STORE, "tutti_store_get: %s for \"%s\" is NULL",
			       length ? "the buffer" : "the length", key);
	if (!tt_seconds_sound(timeout_s))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "tutti_store_get: the timeout for \"%s\" is %g s: expected 0 to 1e9",
			       key, timeout_s);
	const tutti_result_t result = store->ops->get(
		store, key, value, length, tt_nanoseconds(timeout_s), TT_STORE_ANSWER_NS);

	return result == TUTTI_IN_PROGRESS ? fail_missing(store, key, tt_nanoseconds(timeout_s))
					   : result;
}

TUTTI_API void tutti_store_close(tutti_store_t store)
{
	if (store && tt_owned_here(&store->owner))
		store->ops->close(store);
	else if (store)
		store->ops->forget(store);
}
