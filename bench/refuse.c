/* SPDX-License-Identifier: BSD-3-Clause */
/* Launchers give all ranks the same options and end a job when the first rank fails. So the ranks
 * join and compare their errors before any of them exits. If they do not join soon, each prints its
 * own. */
#include "refuse.h"

#include <stdbool.h>
#include <stdint.h>

#include "local.h"
#include "options.h"
#include "tutti/tutti.h"

#define SOON_S 3.0

/* FNV-1a */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

static bool all_have_the_same(tutti_comm_t comm)
{
	const uint64_t hash = hash_of(bench_options_complaint());
	uint64_t ends[2] = { hash, ~hash }; /* the smallest, and the complement of the largest */

	return tutti_all_reduce(comm, ends, ends, 2, TUTTI_UINT64, TUTTI_MIN, NULL) == TUTTI_OK &&
	       ends[0] == ~ends[1];
}

void bench_refuse(void)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;

	config.timeout_s = SOON_S;
	if (!bench_launched() || tutti_init(&config, &comm) != TUTTI_OK) {
		bench_options_complain();
		return;
	}
	if (!all_have_the_same(comm) || tutti_comm_rank(comm) == 0)
		bench_options_complain();
	tutti_barrier(comm, NULL);
	tutti_comm_destroy(comm);
}
