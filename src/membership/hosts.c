/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns who runs where: hosts by their ids, ranks by their place on one, and how many ranks share a
 * core. All of it follows from the records, alike on all ranks, in time that grows with their
 * number alone. */
#include "hosts.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

/* The first rank of the host of `rank`, which is taken down where it is that itself. */
static int first_of(struct tt_host_table *table, const struct tt_record *records, int rank)
{
	size_t place = tt_host_table_place(table, records[rank].host_id);

	while (table->number[place] >= 0 &&
	       strcmp(records[table->number[place]].host_id, records[rank].host_id) != 0)
		place = (place + 1) & table->mask;
	if (table->number[place] < 0)
		table->number[place] = rank;
	return table->number[place];
}

static void number_hosts(struct tutti_comm *comm, const struct tt_record *records,
			 struct tt_host_table *table)
{
	struct tt_topology *topology = &comm->topology;

	for (int rank = 0; rank < comm->size; rank++) {
		const int first = first_of(table, records, rank);

		topology->host[rank] = first < rank ? topology->host[first] : topology->hosts++;
	}
}

/* What the ranks of a host may use together. */
struct cores {
	uint64_t cpus[TT_CPU_WORDS];
	uint32_t quota, ranks;
	int last; /* of its ranks */
};

static void add_rank(struct cores *cores, const struct tt_record *record)
{
	for (int i = 0; i < TT_CPU_WORDS; i++)
		cores->cpus[i] |= record->cpus[i];
	if (record->quota && (!cores->quota || record->quota < cores->quota))
		cores->quota = record->quota;
	cores->ranks++;
}

static double ranks_per_core(const struct cores *cores)
{
	uint32_t count = 0;

	for (int i = 0; i < TT_CPU_WORDS; i++)
		count += (uint32_t)__builtin_popcountll(cores->cpus[i]);
	if (cores->quota && cores->quota < count)
		count = cores->quota;
	return (double)cores->ranks / (count ? count : 1);
}

static void place_ranks(struct tutti_comm *comm, const struct tt_record *records,
			struct cores *hosts, struct tt_place *places)
{
	struct tt_topology *topology = &comm->topology;

	for (int rank = 0; rank < comm->size; rank++) {
		struct cores *host = &hosts[topology->host[rank]];

		places[rank] = (struct tt_place){ (int)host->ranks, host->ranks ? host->last : -1 };
		add_rank(host, &records[rank]);
		host->last = rank;
	}
	topology->local_rank = places[comm->rank].local_rank;
	topology->local_size = (int)hosts[topology->host[comm->rank]].ranks;
	comm->oversubscribed = ranks_per_core(&hosts[topology->host[comm->rank]]) > 1;
	for (int i = 0; i < topology->hosts; i++)
		if (ranks_per_core(&hosts[i]) > topology->oversubscription)
			topology->oversubscription = ranks_per_core(&hosts[i]);
}

/* By caches, or by NUMA nodes. Gives how many; 0: not all ranks know theirs. */
static int number_domains(struct tutti_comm *comm, const struct tt_record *records, bool by_node)
{
	const int unknown = 0, last = 64 * TT_CPU_WORDS;
	int number[64 * TT_CPU_WORDS + 1], domains = 0;

	memset(number, -1, sizeof(number));
	for (int rank = 0; rank < comm->size; rank++) {
		const struct tt_domain *domain = &records[rank].domain;
		const int lowest = by_node ? domain->node : domain->cache;

		if (lowest == unknown || lowest > last)
			return 0;
		if (number[lowest] < 0)
			number[lowest] = domains++;
		comm->topology.domain[rank] = number[lowest];
	}
	return domains;
}

/* Of ranks of one host. Where caches are many and small, nodes tell more. */
static void find_domains(struct tutti_comm *comm, const struct tt_record *records)
{
	struct tt_topology *topology = &comm->topology;

	for (int by_node = 0; by_node < 2 && topology->hosts == 1; by_node++) {
		const int domains = number_domains(comm, records, by_node);

		topology->domains = domains;
		if (domains <= 1 || 2 * comm->size / domains < domains)
			continue;
		if (comm->rank == 0)
			tt_log(INFO, COMM, "%d ranks on %d %s", comm->size, domains,
			       by_node ? "NUMA nodes" : "last-level caches");
		return;
	}
	memset(topology->domain, 0, (size_t)comm->size * sizeof(*topology->domain));
	topology->domains = 1;
}

tutti_result_t tt_hosts_find(struct tutti_comm *comm, const struct tt_record *records,
			     struct tt_place *places)
{
	struct tt_host_table table = tt_host_table_make(comm->size);
	struct cores *hosts = NULL;

	if (table.number) {
		number_hosts(comm, records, &table);
		hosts = calloc((size_t)comm->topology.hosts, sizeof(*hosts));
	}
	free(table.number);
	if (!hosts)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks", comm->size);
	place_ranks(comm, records, hosts, places);
	find_domains(comm, records);
	comm->topology.level2 = records[0].domain.level2;
	free(hosts);
	return TUTTI_OK;
}
