/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairwise covering: most defects of a table with several axes show in some pair of values, and
 * few cases hold all pairs. Greedy: the case that holds most pairs not yet seen comes next. */
#include "select.h"

#include <string.h>

#define VALUES 32 /* of an axis, at most */

struct pairs {
	bool wanted[CASE_AXES][CASE_AXES][VALUES][VALUES];
};

/* How many pairs of the case are wanted; if `take`, they no longer are. */
static int count_pairs(struct pairs *p, const struct fault_case *c, bool take)
{
	int n = 0;

	for (int a = 0; a < CASE_AXES; a++)
		for (int b = a + 1; b < CASE_AXES; b++) {
			bool *wanted = &p->wanted[a][b][c->axis[a]][c->axis[b]];

			n += *wanted;
			*wanted = *wanted && !take;
		}
	return n;
}

size_t select_pairs(const struct fault_case *all, size_t count, uint64_t seed,
		    struct fault_case *out)
{
	static struct pairs p;
	size_t n = 0;

	memset(&p, 0, sizeof(p));
	for (size_t i = 0; i < count; i++)
		for (int a = 0; a < CASE_AXES; a++)
			for (int b = a + 1; b < CASE_AXES; b++)
				p.wanted[a][b][all[i].axis[a]][all[i].axis[b]] = true;
	for (;;) {
		const struct fault_case *best = NULL;
		int most = 0;

		for (size_t i = 0; i < count; i++) {
			const int pairs = count_pairs(&p, &all[i], false);

			/* among equals the seed decides */
			if (pairs > most ||
			    (pairs == most && best &&
			     case_random(&all[i], seed, 0) < case_random(best, seed, 0))) {
				most = pairs;
				best = &all[i];
			}
		}
		if (!most)
			return n;
		count_pairs(&p, best, true);
		out[n++] = *best;
	}
}
