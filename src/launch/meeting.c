/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the place that rank 0 makes for ranks to meet at, and the text that says where it is. */
#include "meeting.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "registry.h"
#include "store.h"
#include "text_append.h"
#include "transport.h"

#define ANYWHERE     "tcp://[::],0.0.0.0:0"
#define FAILED	     "0" /* instead of a place: rank 0 has none */
#define DIGITS	     (2 * TT_KEY_BYTES)
#define INTERFACE_NS 5000000000ull
#define OLD_NS	     1000000000ull  /* for a store to answer whose place may be old, at first */
#define SILENCE_NS   3000000000ull  /* of a launcher that cannot be asked */
#define SERVED_NS    30000000000ull /* for a store to answer that rank 0 serves already */
#define ADDRESS_MORE 32 /* "tcp://", two brackets for each of eight hosts, and ":65535" */

/* ---- the text */

static bool read_key(const char *text, size_t length, struct tt_meeting *out)
{
	out->keyed = !(length == 1 && *text == '-');
	if (!out->keyed)
		return true;
	if (length != DIGITS || strspn(text, "0123456789abcdef") < DIGITS)
		return false;
	for (int i = 0; i < TT_KEY_BYTES; i++) {
		const char two[3] = { text[2 * i], text[2 * i + 1], 0 };

		out->key[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return true;
}

/* "HOST,HOST" with brackets where they belong; numeric addresses alone. */
static bool read_hosts(const char *text, const char *port, struct tt_text *out)
{
	uint8_t bytes[16];
	char host[INET6_ADDRSTRLEN];

	for (bool first = true; *text; first = false) {
		const size_t length = strcspn(text, ",");

		if (length == 0 || length >= sizeof(host))
			return false;
		memcpy(host, text, length);
		host[length] = 0;
		const bool six = inet_pton(AF_INET6, host, bytes) == 1;
		if (!six && inet_pton(AF_INET, host, bytes) != 1)
			return false;
		tt_text_append(out, six ? "%s[%s]" : "%s%s", first ? "tcp://" : ",", host);
		text += length;
		text += *text == ',';
	}
	tt_text_append(out, ":%s", port);
	return true;
}

bool tt_meeting_parse(const char *text, struct tt_meeting *out)
{
	struct tt_text store = { out->store, sizeof(out->store) };
	char port[8];

	if (strncmp(text, "1,", 2) != 0)
		return false;
	text += 2;
	const size_t key = strcspn(text, ",");
	if (!text[key] || !read_key(text, key, out))
		return false;
	text += key + 1;
	const size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > 5 || text[digits] != ',' || !text[digits + 1])
		return false;
	snprintf(port, sizeof(port), "%.*s", (int)digits, text);
	const int number = atoi(port);
	return number > 0 && number <= 65535 && read_hosts(text + digits + 1, port, &store) &&
	       store.capacity > 1; /* nothing was cut off */
}

/* ---- rank 0 */

/* For an interface that comes up. */
static uint64_t hosts_by(uint64_t deadline)
{
	const uint64_t half = tt_left(deadline) / 2;

	return tt_now() + (half < INTERFACE_NS ? half : INTERFACE_NS);
}

/* `made`: the key is to travel, too. As many hosts as fit. */
static tutti_result_t describe(const struct tt_key *key, bool made, tutti_store_t store,
			       uint64_t deadline, char text[TT_KVS_TEXT_MAX])
{
	const char *const port = strrchr(store->address, ':') + 1;
	size_t used = (size_t)sprintf(text, "1,");

	for (int i = 0; made && i < TT_KEY_BYTES; i++)
		used += (size_t)sprintf(text + used, "%02x", key->bytes[i]);
	used += (size_t)sprintf(text + used, made ? ",%s," : "-,%s,", port);
	/* in the address that this becomes there are more characters */
	const tutti_result_t result = tt_transport_of_hosts->hosts(
		text + used, TT_KVS_TEXT_MAX - used - ADDRESS_MORE, hosts_by(deadline));
	if (!result && !text[used])
		return tt_fail(
			TUTTI_ERR_SYSTEM, COMM,
			"this machine has no address at which other ranks could reach rank 0: "
			"bring up an interface, or the loopback interface");
	return result;
}

static tutti_result_t serve(const struct tt_launch *launch, struct tt_key *key, uint64_t deadline,
			    tutti_store_t *store, char text[TT_KVS_TEXT_MAX])
{
	const bool made = !key->set;
	tutti_result_t result = made ? tt_random(key->bytes, sizeof(key->bytes)) : TUTTI_OK;

	key->set = !result;
	if (!result)
		result = tt_store_open(ANYWHERE, key, launch->rank, true, tt_left(deadline), store);
	if (!result)
		result = describe(key, made, *store, deadline, text);
	if (result)
		snprintf(text, TT_KVS_TEXT_MAX, FAILED);
	return result;
}

/* The others are told, too, if this fails. */
static tutti_result_t host(const struct tt_launch *launch, unsigned number, struct tt_key *key,
			   uint64_t deadline, tutti_store_t *store)
{
	char text[TT_KVS_TEXT_MAX] = "", own[TT_ERROR_MAX];
	tutti_result_t result = serve(launch, key, deadline, store, text);

	snprintf(own, sizeof(own), "%s", tt_thread_error());
	const tutti_result_t brought =
		tt_kvs_bring(launch->kvs, launch->rank, launch->size, number, text, deadline);
	OPENSSL_cleanse(text, sizeof(text));
	if (result)
		tt_thread_error_set(own);
	else
		result = brought;
	if (result) {
		tutti_store_close(*store);
		*store = NULL;
	}
	return result;
}

/* ---- the others */

static tutti_result_t fail_key(const struct tt_launch *launch, const struct tt_key *key)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"rank %d has %s key, and rank 0 has %s: give all ranks the same TUTTI_KEY or "
		"TUTTI_KEY_FILE, or none of them",
		launch->rank, key->set ? "a" : "no", key->set ? "none" : "one");
}

static tutti_result_t understand(const struct tt_launch *launch, const char *text,
				 struct tt_meeting *out, struct tt_key *key)
{
	if (strcmp(text, FAILED) == 0)
		return tt_fail(TUTTI_ERR_PEER_LOST, COMM,
			       "rank 0 could not make a place to meet: its own output says why");
	if (!tt_meeting_parse(text, out))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"the launcher (%s) brought no place to meet: does rank 0 run another version of tutti?",
			launch->kvs->name);
	if (out->keyed == key->set)
		return fail_key(launch, key);
	if (out->keyed) {
		memcpy(key->bytes, out->key, sizeof(key->bytes));
		key->set = true;
	}
	return TUTTI_OK;
}

/* *heard: when the launcher has brought something last. */
static tutti_result_t visit_by(const struct tt_launch *launch, unsigned number, struct tt_key *key,
			       uint64_t deadline, uint64_t patience, uint64_t *heard,
			       tutti_store_t *store)
{
	struct tt_meeting meeting = { 0 };
	char text[TT_KVS_TEXT_MAX] = "";
	tutti_result_t result =
		tt_kvs_bring(launch->kvs, launch->rank, launch->size, number, text, deadline);
	const uint64_t left = tt_left(deadline);

	if (!result)
		result = understand(launch, text, &meeting, key);
	if (!result)
		result = tt_store_open(meeting.store, key, launch->rank, false,
				       left < patience ? left : patience, store);
	if (text[0])
		*heard = tt_now();
	OPENSSL_cleanse(text, sizeof(text));
	OPENSSL_cleanse(&meeting, sizeof(meeting));
	return result;
}

/* A place that an earlier program has left may be anybody's by now: it is as good as none. */
static tutti_result_t visit(const struct tt_launch *launch, unsigned number, struct tt_key *key,
			    uint64_t deadline, tutti_store_t *store)
{
	struct tt_key given = *key;
	uint64_t heard = tt_now();
	tutti_result_t result;

	if (!launch->kvs->may_be_old)
		return visit_by(launch, number, key, deadline, SERVED_NS, &heard, store);
	for (uint64_t patience = OLD_NS;; patience *= 2) {
		const struct timespec pause = { .tv_nsec = 50000000 };

		*key = given;
		result = visit_by(launch, number, key, deadline, patience, &heard, store);
		if (!result || tt_now() >= deadline || tt_now() - heard >= SILENCE_NS)
			break;
		nanosleep(&pause, NULL);
	}
	OPENSSL_cleanse(&given, sizeof(given));
	return result;
}

tutti_result_t tt_meeting_open(const struct tt_launch *launch, unsigned number, struct tt_key *key,
			       uint64_t deadline, tutti_store_t *store)
{
	*store = NULL;
	return launch->rank == 0 ? host(launch, number, key, deadline, store)
				 : visit(launch, number, key, deadline, store);
}
