/* SPDX-License-Identifier: BSD-3-Clause */
/* The one place that names plug-ins. */
#include "registry.h"

#include <string.h>

#include "algorithms.h"
#include "cuda/table.h"
#ifdef TT_LOOP /* the tests' */
#include "loop.h"
#endif
#ifdef TT_RDMA
#include "rdma.h"
#endif
#include "shm.h"
#include "tcp.h"

/* Of those that cost the same the first is taken: reductions on arrival come before those out of
 * scratch. */
const struct tt_algorithm *const tt_algorithms[] = {
	&tt_algorithm_board,
	&tt_algorithm_two_level,
	&tt_algorithm_direct,
	&tt_algorithm_flat,
	&tt_algorithm_star,
	&tt_algorithm_doubling,
	&tt_algorithm_bruck,
	&tt_algorithm_tree,
	&tt_algorithm_halving_doubling,
	&tt_algorithm_ring,
	&tt_algorithm_pairwise,
	&tt_algorithm_two_shot,
	&tt_algorithm_double_tree,
	&tt_algorithm_chain,
	&tt_algorithm_hierarchical,
	&tt_algorithm_hierarchical_split,
	&tt_algorithm_hierarchical_shots,
	NULL,
};

const struct tt_transport *const tt_transports[] = {
	&tt_transport_shm,
#ifdef TT_RDMA
	&tt_transport_rdma,
#endif
	&tt_transport_tcp,
#ifdef TT_LOOP
	&tt_transport_loop,
#endif
	NULL,
};

const struct tt_transport *const tt_transport_of_hosts = &tt_transport_tcp;

const struct tt_device *const tt_device = &tt_device_cuda;

const struct tt_algorithm *tt_algorithm_by_name(const char *name)
{
	for (int i = 0; tt_algorithms[i]; i++)
		if (strcmp(tt_algorithms[i]->name, name) == 0)
			return tt_algorithms[i];
	return NULL;
}

TUTTI_API const char *tutti_algorithm_name(int number)
{
	const int count = sizeof(tt_algorithms) / sizeof(tt_algorithms[0]) - 1;

	return number >= 0 && number < count ? tt_algorithms[number]->name : NULL;
}

int tt_algorithm_number(const struct tt_algorithm *algorithm)
{
	int number = 0;

	while (tt_algorithms[number] && tt_algorithms[number] != algorithm)
		number++;
	return number;
}
