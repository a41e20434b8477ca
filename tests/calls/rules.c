/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

const struct rule rules[WHATS] = {
	[BROADCAST] = { "broadcast", ONE, ONE, ROOTS, ALLS, ROOTS, false, false },
	[REDUCE] = { "reduce", ONE, ONE, ALLS, ROOTS, ROOTS, true, false },
	[ALL_REDUCE] = { "all_reduce", ONE, ONE, ALLS, ALLS, ALLS, true, false },
	[REDUCE_SCATTER] = { "reduce_scatter", EACH, ONE, ALLS, ALLS, ALLS, true, false },
	[ALL_GATHER] = { "all_gather", ONE, EACH, ALLS, ALLS, ALLS, false, false },
	[GATHER] = { "gather", ONE, EACH, ALLS, ROOTS, ROOTS, false, false },
	[SCATTER] = { "scatter", EACH, ONE, ROOTS, ALLS, ROOTS, false, false },
	[ALL_TO_ALL] = { "all_to_all", EACH, EACH, ALLS, ALLS, ALLS, false, false },
	[REDUCE_SCATTER_V] = { "reduce_scatter_v", EACH, ONE, ALLS, ALLS, ALLS, true, true },
	[ALL_GATHER_V] = { "all_gather_v", ONE, EACH, ALLS, ALLS, ALLS, false, true },
	[GATHER_V] = { "gather_v", ONE, EACH, ALLS, ROOTS, ROOTS, false, true },
	[SCATTER_V] = { "scatter_v", EACH, ONE, ROOTS, ALLS, ROOTS, false, true },
	[ALL_TO_ALL_V] = { "all_to_all_v", EACH, EACH, ALLS, ALLS, NOBODYS, false, true },
	[SCAN] = { "scan", ONE, ONE, ALLS, ALLS, ALLS, true, false },
	[EXSCAN] = { "exscan", ONE, ONE, ALLS, ALLS, ALLS, true, false },
	[BARRIER] = { "barrier", NOTHING, NOTHING, NOBODYS, NOBODYS, NOBODYS, false, false },
	[MESSAGE] = { "message", ONE, ONE, ROOTS, ROOTS, NOBODYS, false, false },
};
