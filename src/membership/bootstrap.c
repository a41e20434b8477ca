/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a communicator comes to be out of the records of its ranks: transports, and the shared
 * control area. */
#include "bootstrap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control_area.h"
#include "fault.h"
#include "hosts.h"
#include "log.h"
#include "notes.h"
#include "machine.h"
#include "memory.h"
#include "monitor.h"
#include "op.h"
#include "record.h"
#include "recorder.h"
#include "registry.h"
#include "small_file.h"
#include "unreached.h"

#define LINK_NS 5000000000ull /* for an interface to come up */

/* Where this process is mapped is as good as random, and the same for all of its threads. */
static uint64_t process_identity(void)
{
	return (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&tt_algorithms ^
	       (uint64_t)(uintptr_t)stdin;
}

static uint32_t cgroup_quota(void)
{
	char line[64];
	double quota, period;

	if (tt_small_file_read("/sys/fs/cgroup/cpu.max", line, sizeof(line)) ||
	    sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0)
		return 0;
	return (uint32_t)(quota / period + 0.999);
}

static void fill_cpus(uint64_t *words)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE && cpu < 64 * TT_CPU_WORDS; cpu++)
		if (CPU_ISSET(cpu, &set))
			words[cpu / 64] |= 1ull << (cpu % 64);
}

static tutti_result_t open_endpoint(struct tutti_comm *comm, const struct tt_transport *transport)
{
	const struct tt_endpoint_config config = {
		.comm_id = comm->id,
		.rank = comm->rank,
		.size = comm->size,
		.timeout_s = (double)comm->settings.timeout_ns / 1e9,
		.silence_s = comm->settings.silence_s,
		.key = &comm->settings.key,
		.should_abort = comm->joining.hooks ? comm->joining.hooks->should_abort : NULL,
		.context = comm->joining.hooks ? comm->joining.hooks->context : NULL,
	};
	const tutti_result_t result = transport->open(&config, &comm->endpoints[comm->nendpoints]);

	if (!result)
		comm->nendpoints++;
	return result;
}

/* All that depends on the number of ranks, while those can still be told by the record that this
 * one has failed. */
static tutti_result_t allocate(struct tutti_comm *comm)
{
	const size_t size = (size_t)comm->size;
	bool good;

	comm->topology.host = calloc(size, sizeof(*comm->topology.host));
	comm->topology.domain = calloc(size, sizeof(*comm->topology.domain));
	comm->routes.via = calloc(size, sizeof(*comm->routes.via));
	comm->routes.connections = calloc(size, sizeof(*comm->routes.connections));
	comm->p2p_seq[0] = calloc(size, sizeof(uint64_t));
	comm->p2p_seq[1] = calloc(size, sizeof(uint64_t));
	comm->joining.records = calloc(size, sizeof(struct tt_record));
	comm->joining.places = calloc(size, sizeof(struct tt_place));
	good = comm->topology.host && comm->topology.domain && comm->routes.via &&
	       comm->routes.connections && comm->p2p_seq[0] && comm->p2p_seq[1] &&
	       comm->joining.records && comm->joining.places && tt_area_reserve(comm) &&
	       tt_notes_open(comm) && tt_comm_fault_open(comm) && tt_progress_open(comm);
	for (int i = 0; i < comm->nendpoints && good; i++) {
		comm->routes.peers[i] = calloc(size, sizeof(*comm->routes.peers[i]));
		good = comm->routes.peers[i] != NULL;
	}
	return good ? tt_recorder_open(comm)
		    : tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", comm->size);
}

/* What is behind the record is complete. */
static void prove(const struct tutti_comm *comm, struct tt_record *self, uint8_t *record,
		  size_t length)
{
	self->keyed = comm->settings.key.set;
	memcpy(record, self, sizeof(*self));
	tt_record_prove(&(struct tt_record_from){ &comm->settings.key, comm->id, comm->rank },
			record, length, self->proof);
	memcpy(record, self, sizeof(*self));
}

static const struct tt_endpoint *endpoint_of(const struct tutti_comm *comm,
					     const struct tt_transport *transport)
{
	for (int i = 0; i < comm->nendpoints; i++)
		if (comm->endpoints[i]->ops == transport)
			return comm->endpoints[i];
	return NULL;
}

/* Of a transport that this rank has, or has not; gives the length. */
static size_t write_entry(const struct tutti_comm *comm, const struct tt_transport *transport,
			  uint8_t *out)
{
	const struct tt_endpoint *endpoint = endpoint_of(comm, transport);
	struct tt_record_entry entry = { 0 };
	char note[TT_RECORD_NOTE_MAX] = "";

	snprintf(entry.transport, sizeof(entry.transport), "%s", transport->name);
	if (endpoint) {
		entry.length = (uint32_t)transport->address(endpoint, out + sizeof(entry));
		entry.coming = transport->paths->lacks &&
			       transport->paths->lacks(endpoint, note, sizeof(note));
	} else {
		snprintf(note, sizeof(note), "TUTTI_TRANSPORT is \"%s\"",
			 comm->settings.transports);
	}
	entry.note = (uint32_t)strlen(note);
	memcpy(out + sizeof(entry) + entry.length, note, entry.note);
	memcpy(out, &entry, sizeof(entry));
	return sizeof(entry) + entry.length + entry.note;
}

/* What this rank's endpoints say now, behind what the record has of the rank itself. */
static tutti_result_t write_entries(const struct tutti_comm *comm, uint8_t record[TT_RECORD_MAX],
				    size_t *length)
{
	const size_t most = sizeof(struct tt_record_entry) + TT_ADDRESS_MAX + TT_RECORD_NOTE_MAX;
	struct tt_record self;

	memcpy(&self, record, sizeof(self));
	self.entries = 0;
	*length = sizeof(self);
	for (int i = 0; tt_transports[i] && comm->size > 1; i++) {
		if (!endpoint_of(comm, tt_transports[i]) && !*comm->settings.transports)
			continue; /* that of the tests */
		if (*length + most > TT_RECORD_MAX)
			return tt_fail(TUTTI_ERR_UNSUPPORTED, COMM,
				       "too many transports for one record");
		*length += write_entry(comm, tt_transports[i], record + *length);
		self.entries++;
	}
	prove(comm, &self, record, *length);
	return TUTTI_OK;
}

/* Ranks that all share memory go on doing so where they are fewer. */
static bool may_use(const struct tutti_comm *comm, const struct tutti_comm *parent,
		    const struct tt_transport *transport)
{
	if (parent && parent->nendpoints == 1 && parent->endpoints[0]->ops->shares_memory)
		return transport == parent->endpoints[0]->ops;
	return tt_settings_allow(comm->settings.transports, transport);
}

tutti_result_t tt_bootstrap_open(struct tutti_comm *comm, const struct tutti_comm *parent,
				 uint8_t record[TT_RECORD_MAX], size_t *length)
{
	struct tt_record self = { .version = TT_RECORD_VERSION,
				  .pid = getpid(),
				  .process = process_identity(),
				  .quota = cgroup_quota() };
	tutti_result_t result = tt_machine_here(&self.machine);

	comm->uses_plan = tt_ops_use;
	comm->note_plan = tt_recorder_plan;
	if (result)
		return result;
	tt_machine_name(&self.machine, self.host_id);
	if (strcmp(self.host_id, comm->settings.host_id) == 0)
		memset(self.host_id, 0, sizeof(self.host_id)); /* needs no saying */
	else
		memcpy(self.host_id, comm->settings.host_id, sizeof(self.host_id));
	fill_cpus(self.cpus);
	self.domain = tt_domain_of("/sys", self.cpus);
	if (comm->rank == 0 && comm->size > 1)
		result = tt_model_get(&self.model, NULL);
	memcpy(record, &self, sizeof(self));
	for (int i = 0; tt_transports[i] && comm->size > 1 && !result; i++)
		if (may_use(comm, parent, tt_transports[i]))
			result = open_endpoint(comm, tt_transports[i]);
	if (!result)
		result = write_entries(comm, record, length);
	return result ? result : allocate(comm);
}

void tt_bootstrap_fail(struct tutti_comm *comm, uint8_t record[TT_RECORD_MAX], size_t *length)
{
	struct tt_record self = { .version = TT_RECORD_VERSION, .failure = TUTTI_ERR_PEER_LOST };
	const char *error_text = tt_thread_error();

	*length = sizeof(self) + strlen(error_text);
	memcpy(record + sizeof(self), error_text, strlen(error_text));
	prove(comm, &self, record, *length);
}

tutti_result_t tt_bootstrap_await(struct tutti_comm *comm, uint64_t deadline,
				  uint8_t record[TT_RECORD_MAX], size_t *length)
{
	const uint64_t now = tt_now(), most = now + LINK_NS,
		       left = deadline > now ? now + (deadline - now) / 2 : now;

	for (int i = 0; i < comm->nendpoints; i++)
		if (comm->endpoints[i]->ops->paths->await)
			comm->endpoints[i]->ops->paths->await(comm->endpoints[i],
							      most < left ? most : left);
	return write_entries(comm, record, length);
}

bool tt_bootstrap_awaits(const struct tt_records *records, int size)
{
	char first[TT_MACHINE_NAME], other[TT_MACHINE_NAME];
	bool coming = false, hosts = false;

	tt_record_host(records->bytes + records->offset[0], records->length[0], first);
	for (int rank = 0; rank < size; rank++) {
		const uint8_t *bytes = records->bytes + records->offset[rank];

		tt_record_host(bytes, records->length[rank], other);
		coming |= tt_record_is_coming(bytes, records->length[rank]);
		hosts |= strcmp(first, other) != 0;
	}
	return coming && hosts;
}

/* ---- reading the records */

static tutti_result_t read_record(const struct tutti_comm *comm, const struct tt_records *records,
				  int rank, struct tt_record *out)
{
	const struct tt_record_from from = { &comm->settings.key, comm->id, rank };

	return tt_record_read(&from, records->bytes + records->offset[rank], records->length[rank],
			      records->proven, comm->rank, out);
}

/* ---- choosing transports */

/* Do process numbers of the one mean the same to the other? */
static bool sees_process(const struct tt_machine *a, const struct tt_machine *b)
{
	return a->boot == b->boot && a->processes == b->processes && a->processes != 0;
}

static struct tt_peer peer_of(const struct tutti_comm *comm, const struct tt_record *read,
			      const struct tt_place *places, int rank)
{
	return (struct tt_peer){
		.rank = rank,
		.host = comm->topology.host[rank],
		.local_rank = places[rank].local_rank,
		.process = read[rank].process,
		.pid = sees_process(&read[comm->rank].machine, &read[rank].machine) ? read[rank].pid
										    : 0,
	};
}

/* The peers' addresses of endpoint i are in the records, which go: keep them, one behind the
 * other. */
static bool keep_addresses(struct tutti_comm *comm, int i)
{
	struct tt_peer *peers = comm->routes.peers[i];
	size_t bytes = 0;

	for (int rank = 0; rank < comm->size; rank++)
		bytes += peers[rank].address_length;
	uint8_t *at = comm->routes.addresses[i] = malloc(bytes + 1);
	for (int rank = 0; rank < comm->size && at; rank++) {
		if (peers[rank].address_length)
			memcpy(at, peers[rank].address, peers[rank].address_length);
		peers[rank].address = at;
		at += peers[rank].address_length;
	}
	return at != NULL;
}

static tutti_result_t fill_peers(struct tutti_comm *comm, const struct tt_records *records,
				 const struct tt_record *read, const struct tt_place *places)
{
	bool good = true;

	for (int i = 0; i < comm->nendpoints && good; i++) {
		for (int rank = 0; rank < comm->size; rank++) {
			struct tt_peer *peer = &comm->routes.peers[i][rank];

			*peer = peer_of(comm, read, places, rank);
			tt_record_find_address(&read[rank], records->bytes + records->offset[rank],
					       records->length[rank], comm->endpoints[i]->ops->name,
					       peer);
		}
		good = keep_addresses(comm, i);
	}
	return good ? TUTTI_OK
		    : tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", comm->size);
}

/* The best transport with which two ranks reach each other, -1 for none. Symmetric, as reach()
 * is. */
static int best_between(const struct tutti_comm *comm, int a, int b)
{
	int best = -1;

	for (int i = 0; i < comm->nendpoints; i++) {
		const struct tt_peer *peers = comm->routes.peers[i];
		const struct tt_transport *ops = comm->endpoints[i]->ops;

		if (peers[a].address_length && peers[b].address_length &&
		    ops->reach(&peers[a], &peers[b]) &&
		    (best < 0 || ops->preference > comm->endpoints[best]->ops->preference))
			best = i;
	}
	return best;
}

static tutti_result_t choose_transports(struct tutti_comm *comm, const struct tt_records *records)
{
	int unreached = -1;

	for (int rank = 0; rank < comm->size; rank++) {
		const int best = rank == comm->rank ? -1 : best_between(comm, comm->rank, rank);

		comm->routes.via[rank] = (int8_t)best;
		if (best >= 0)
			comm->routes.peers[best][rank].use = true;
		else if (rank != comm->rank && unreached < 0)
			unreached = rank;
	}
	return unreached < 0 ? TUTTI_OK : tt_fail_unreached(comm, records, unreached);
}

/* Is no pair of ranks at all joined by shared memory? The tuner asks, and must be answered alike
 * on all ranks. */
static bool nobody_shares(const struct tutti_comm *comm, const struct tt_place *places)
{
	for (int a = 0; a < comm->size; a++) {
		for (int b = places[a].before; b >= 0; b = places[b].before) {
			const int best = best_between(comm, a, b);

			if (best >= 0 && comm->endpoints[best]->ops->shares_memory)
				return false;
		}
	}
	return comm->size > 1;
}

/* ---- joining */

static void drop_endpoint(struct tutti_comm *comm, int i)
{
	comm->endpoints[i]->ops->destroy(comm->endpoints[i]);
	free(comm->routes.peers[i]);
	free(comm->routes.addresses[i]);
	for (int k = i; k + 1 < comm->nendpoints; k++) {
		comm->endpoints[k] = comm->endpoints[k + 1];
		comm->routes.peers[k] = comm->routes.peers[k + 1];
		comm->routes.addresses[k] = comm->routes.addresses[k + 1];
	}
	comm->nendpoints--;
	comm->endpoints[comm->nendpoints] = NULL;
	comm->routes.peers[comm->nendpoints] = NULL;
	comm->routes.addresses[comm->nendpoints] = NULL;
	for (int rank = 0; rank < comm->size; rank++)
		if (comm->routes.via[rank] > i)
			comm->routes.via[rank]--;
}

static bool is_used(const struct tutti_comm *comm, int i)
{
	for (int rank = 0; rank < comm->size; rank++)
		if (comm->routes.via[rank] == i)
			return true;
	return false;
}

/* Counts in `*joined` those that have. */
static tutti_result_t join_endpoints(struct tutti_comm *comm, uint64_t deadline, int *joined)
{
	for (int i = comm->nendpoints - 1; i >= 0; i--)
		if (!is_used(comm, i))
			drop_endpoint(comm, i);
	for (int i = 0; i < comm->nendpoints; i++) {
		struct tt_endpoint *endpoint = comm->endpoints[i];
		const tutti_result_t result =
			endpoint->ops->join(endpoint, comm->routes.peers[i], comm->size, deadline);

		if (result)
			return result;
		++*joined;
		snprintf(comm->routes.transport_names + strlen(comm->routes.transport_names),
			 sizeof(comm->routes.transport_names) -
				 strlen(comm->routes.transport_names),
			 "%s%s", i ? "+" : "", endpoint->ops->name);
	}
	return TUTTI_OK;
}

/* Every rank for itself: the causes are its own limits. */
static void warn_of_no_control_area(const struct tutti_comm *comm)
{
	tt_log(WARN, COMM,
	       "rank %d: the %d ranks share memory, but not the control area (%s): algorithms board and direct are missing, "
	       "and short collectives take two to three times as long",
	       comm->rank, comm->size, tt_thread_error());
}

/* Where one transport reaches everybody and shares memory, there is a control area. Of a rank that died
 * before it had it the fault tells. */
static void make_control_area(struct tutti_comm *comm, uint64_t deadline)
{
	if (comm->nendpoints != 1 || comm->topology.local_size != comm->size)
		return;
	const struct tt_transport_memory *of = comm->endpoints[0]->ops->memory;
	void *memory = of ? of->share(comm->endpoints[0], tt_area_bytes(comm), deadline) : NULL;
	if (!memory) {
		comm->endpoints[0]->ops->progress(comm->endpoints[0], false);
		if (!comm->topology.by_network && !comm->endpoints[0]->fault.result)
			warn_of_no_control_area(comm);
		return;
	}
	tt_area_place(comm, memory, comm->endpoints[0]);
}

static bool is_about_others(tutti_result_t result)
{
	return result == TUTTI_ERR_PEER_LOST || result == TUTTI_ERR_TIMEOUT;
}

/* What names no rank, such as the end of this rank's way to the store, is not what others see. */
static bool names_a_rank(const char *error_text)
{
	return strstr(error_text, "rank ") || strstr(error_text, "ranks ");
}

/* This rank fails: those that wait for it in a join are told, and so are those that believe to
 * have joined with it. */
static void decline(struct tutti_comm *comm, tutti_result_t result, int joined)
{
	const bool others = is_about_others(result);
	const bool told = others && names_a_rank(tt_thread_error());
	struct tt_fault fault = { .result = others ? result : TUTTI_ERR_PEER_LOST,
				  .rank = told ? -1 : comm->rank };
	char error_text[TT_ERROR_MAX];

	snprintf(error_text, sizeof(error_text), "%s", tt_thread_error());
	if (told)
		snprintf(fault.text, sizeof(fault.text), "%.*s", (int)sizeof(fault.text) - 1,
			 error_text);
	else
		snprintf(fault.text, sizeof(fault.text), "rank %d could not join: %.580s",
			 comm->rank, error_text);
	for (int i = 0; i < comm->nendpoints; i++) {
		struct tt_endpoint *endpoint = comm->endpoints[i];

		if (i < joined)
			endpoint->ops->control->revoke(endpoint, &fault);
		else
			endpoint->ops->control->reject(endpoint, comm->routes.peers[i], comm->size,
						       &fault);
	}
	tt_thread_error_set(error_text);
}

tutti_result_t tt_bootstrap_join(struct tutti_comm *comm, const struct tt_records *records,
				 uint64_t deadline)
{
	struct tt_record *read = comm->joining.records;
	struct tt_place *places = comm->joining.places;
	tutti_result_t result = TUTTI_OK;
	int joined = 0;

	for (int rank = 0; rank < comm->size && !result; rank++)
		result = read_record(comm, records, rank, &read[rank]);
	if (!result) {
		comm->topology.model = read[0].model;
		result = tt_hosts_find(comm, read, places);
	}
	if (!result)
		result = fill_peers(comm, records, read, places);
	if (!result)
		result = choose_transports(comm, records);
	const bool fits = !result;
	if (!fits && comm->joining.hooks &&
	    comm->joining.hooks->agree) /* told before anybody waits for this rank to decline */
		result = comm->joining.hooks->agree(comm->joining.hooks->context, result, true);
	if (!result) {
		comm->topology.by_network = nobody_shares(comm, places);
		result = join_endpoints(comm, deadline, &joined);
	}
	if (comm->joining.hooks && comm->joining.hooks->agree && fits && is_about_others(result))
		result = comm->joining.hooks->agree(comm->joining.hooks->context, result, false);
	if (result)
		decline(comm, result, joined);
	else {
		make_control_area(comm, deadline);
		tt_recorder_ready(comm);
		tt_comm_choose_settling(comm);
		tt_monitor_enter(comm);
	}
	free(read);
	free(places);
	comm->joining.records = comm->joining.places = NULL;
	return result;
}
