/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the error message of two ranks that no transport joins: for each transport that one of them
 * has, why not. Both say the same, but for which of them found it. */
#include "unreached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "log.h"
#include "record.h"
#include "registry.h"

#define REASON_MAX 200

/* The two, the lower first. */
struct pair {
	const struct tutti_comm *comm;
	const struct tt_record *records;
	int rank[2];
	const uint8_t *bytes[2];
	size_t length[2];
};

/* What the pair says of one transport. */
struct way {
	const struct tt_transport *transport;
	struct tt_record_entry entry[2];
	const uint8_t *at[2]; /* NULL: nothing is said */
	struct tt_peer peer[2];
};

static bool has_address(const struct way *way, int i)
{
	return way->at[i] && way->entry[i].length > 0;
}

static void read_way(const struct pair *pair, const struct tt_transport *transport, struct way *way)
{
	way->transport = transport;
	for (int i = 0; i < 2; i++) {
		struct tt_peer *peer = &way->peer[i];
		const struct tt_record *record = &pair->records[pair->rank[i]];

		way->at[i] = tt_record_find(record, pair->bytes[i], pair->length[i],
					    transport->name, &way->entry[i]);
		*peer = (struct tt_peer){ .rank = pair->rank[i],
					  .host = pair->comm->topology.host[pair->rank[i]],
					  .process = record->process };
		if (has_address(way, i)) {
			peer->address_length = (uint16_t)way->entry[i].length;
			peer->address = way->at[i];
		}
	}
}

static bool is_offered(const struct way *way)
{
	return has_address(way, 0) || has_address(way, 1);
}

/* What an end lacks, with `between` before it. */
static size_t note(const struct pair *pair, const struct way *way, int i, const char *between,
		   char *out, size_t size)
{
	const struct tt_record_entry *entry = &way->entry[i];

	if (way->at[i] && entry->note > 0)
		return (size_t)snprintf(out, size, "%srank %d: %.*s", between, pair->rank[i],
					(int)entry->note, (const char *)way->at[i] + entry->length);
	if (has_address(way, i))
		return 0;
	return (size_t)snprintf(out, size, "%srank %d %s", between, pair->rank[i],
				way->at[i] ? "offers no address" : "has it not in its build");
}

static void describe_way(const struct pair *pair, const struct way *way, char out[REASON_MAX])
{
	size_t used = 0;

	out[0] = 0;
	if (has_address(way, 0) && has_address(way, 1)) {
		way->transport->paths->explain(&way->peer[0], &way->peer[1], out, REASON_MAX);
		used = strlen(out);
	}
	for (int i = 0; i < 2 && used < REASON_MAX; i++)
		used += note(pair, way, i, used ? ", " : "", out + used, REASON_MAX - used);
}

/* Both ends have a transport that joins hosts, and yet it does not join them. */
static bool networks_fail(const struct pair *pair)
{
	for (int i = 0; tt_transports[i]; i++) {
		struct way way;

		if (!tt_transports[i]->joins_hosts)
			continue;
		read_way(pair, tt_transports[i], &way);
		if (has_address(&way, 0) && has_address(&way, 1))
			return true;
	}
	return false;
}

/* The transports that this rank may use, as TUTTI_TRANSPORT would name them. */
static void name_allowed(const char *list, char *out, size_t size)
{
	size_t used = 0;

	out[0] = 0;
	for (int i = 0; tt_transports[i] && used < size; i++)
		if (tt_settings_allow(list, tt_transports[i]))
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "",
						 tt_transports[i]->name);
}

static const char *find_advice(const struct pair *pair)
{
	if (!networks_fail(pair))
		return "allow all ranks the same in TUTTI_TRANSPORT, or allow another in it";
	return pair->comm->settings.key.set
		       ? "bring up an interface that both reach"
		       : "without a key ranks are reached on their own machine only; give all the same TUTTI_KEY or "
			 "TUTTI_KEY_FILE";
}

static tutti_result_t fail(const struct pair *pair, int rank)
{
	const struct tutti_comm *comm = pair->comm;
	char reasons[2 * REASON_MAX] = "", reason[REASON_MAX], allowed[64];
	size_t used = 0;

	for (int i = 0; tt_transports[i] && used < sizeof(reasons); i++) {
		struct way way;

		read_way(pair, tt_transports[i], &way);
		if (!is_offered(&way) &&
		    !tt_settings_allow(comm->settings.transports, tt_transports[i]))
			continue;
		describe_way(pair, &way, reason);
		used += (size_t)snprintf(reasons + used, sizeof(reasons) - used, "%s: %s; ",
					 tt_transports[i]->name, reason);
	}
	name_allowed(comm->settings.transports, allowed, sizeof(allowed));
	return tt_fail(
		TUTTI_ERR_UNSUPPORTED, COMM,
		"no transport of \"%s\" reaches rank %d (host %.40s) from rank %d (host %.40s): %s%s",
		allowed, rank, pair->records[rank].host_id, comm->rank,
		pair->records[comm->rank].host_id, reasons, find_advice(pair));
}

tutti_result_t tt_fail_unreached(const struct tutti_comm *comm, const struct tt_records *records,
				 int rank)
{
	struct pair pair = { .comm = comm, .records = comm->joining.records };

	for (int i = 0; i < 2; i++) {
		const int of = (rank < comm->rank) == (i == 0) ? rank : comm->rank;

		pair.rank[i] = of;
		pair.bytes[i] = records->bytes + records->offset[of];
		pair.length[i] = records->length[of];
	}
	return fail(&pair, rank);
}
