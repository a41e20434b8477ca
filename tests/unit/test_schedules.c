/* SPDX-License-Identifier: BSD-3-Clause */
/* Proves every algorithm for every collective it offers: 1 … 33 ranks with every root, powers of
 * two up to 1024 with some, in place and out of place, and layouts of hosts where they matter. What it
 * promises of the roundings of a result holds, too; of its costs it does by test_schedules_costs.c.
 *
 *   test_schedules [CLAIMS]      CLAIMS: a pattern of their names, such as "ring_*" */
#include <malloc.h>
#include <string.h>

#include "tests.h"
#include "calls/bounds.h"
#include "calls/rules.h"
#include "registry.h"
#include "test_schedules_prover.h"

enum { SMALL = 33, MIDDLE = 128, LARGE = 512, LARGEST = 1024, LAYOUTS = 6 };

/* The host, or domain, of a rank before they are numbered by first appearance. */
static int place(int layout, int rank, int size)
{
	switch (layout) {
	case 0: return 0;			  /* one host */
	case 1: return rank / ((size + 1) / 2);	  /* two halves */
	case 2: return rank % 3;		  /* dealt to three in turn */
	case 3: return rank == 0 ? 0 : 1;	  /* one rank and the rest */
	case 4: return (rank * 7 + rank / 3) % 5; /* five of unequal number, mixed */
	default: return rank / 4;		  /* many of four, the last perhaps of fewer */
	}
}

static int lay_out(int *place_of, int layout, int size)
{
	int number[LARGEST], places = 0;

	memset(number, -1, sizeof(number));
	for (int r = 0; r < size; r++) {
		int *n = &number[place(layout, r, size)];

		if (*n < 0)
			*n = places++;
		place_of[r] = *n;
	}
	return places;
}

/* Prove one case, if the algorithm takes it; false if not. */
static bool check(const struct claim *claim)
{
	const struct tt_group group = { 0,
					claim->size,
					claim->root,
					claim->host,
					claim->hosts,
					claim->domain,
					claim->domains };
	char why[256];

	if (!claim->algorithm->fits(&group, claim->collective))
		return false;
	if (!prove(claim, why, sizeof(why)))
		fail_msg("%s, collective %d, %d ranks on %d hosts, root %d, %s: %s",
			 claim->algorithm->name, claim->collective, claim->size, claim->hosts,
			 claim->root, claim->in_place ? "in place" : "out of place", why);
	return true;
}

/* Every `step`-th root and the last one. Returns how many cases were proved. */
static int check_roots(struct claim claim, int step)
{
	const struct rule *rule = &rules[claim.collective];
	int proved = 0;

	if (rule->sends != ROOTS && rule->receives != ROOTS) {
		claim.root = -1;
		return check(&claim);
	}
	for (claim.root = 0; claim.root < claim.size; claim.root += step)
		proved += check(&claim);
	claim.root = claim.size - 1;
	return proved + check(&claim);
}

static int check_sizes(const struct tt_algorithm *algorithm, int first, int last, int factor)
{
	const bool by_domain = strcmp(algorithm->name, "two_level") == 0,
		   by_host = strstr(algorithm->name, "hierarchical");
	const int one_host[LARGEST] = { 0 };
	int proved = 0, place_of[LARGEST];

	for (int size = first; size <= last; size = factor ? size * factor : size + 1) {
		const int step = size <= SMALL ? 1 : size / 2 + 1;

		for (int bits = 0; bits < TT_COLLECTIVE_COUNT * LAYOUTS * 2; bits++) {
			struct claim claim = { .algorithm = algorithm, .size = size };
			const int layout = bits / 2 % LAYOUTS;

			claim.in_place = bits % 2;
			claim.collective = (enum tt_collective)(bits / 2 / LAYOUTS);
			if (!tt_algorithm_can(algorithm, claim.collective) ||
			    (layout > 0 && !by_host && !by_domain))
				continue;
			if (size > MIDDLE && (!claim.in_place || rules[claim.collective].tables))
				continue; /* the harder one of each is left */
			const int places = lay_out(place_of, layout, size);
			claim.host = by_host ? place_of : one_host;
			claim.hosts = by_host ? places : 1;
			claim.domain = by_domain ? place_of : NULL;
			claim.domains = places;
			proved += check_roots(claim, step);
		}
	}
	return proved;
}

TEST_OF(every_rank_counts_once_up_to_33_ranks,
	assert_int_not_equal(check_sizes(*state, 1, SMALL, 0), 0))

TEST(one_fold_is_what_the_documents_say_of_all_ranks)
{
	const struct tt_algorithm *algorithm = *state;

	assert_int_equal(algorithm->one_fold, value_is_one_fold(algorithm->name));
}

TEST_OF(every_rank_counts_once_up_to_512_ranks,
	assert_int_not_equal(check_sizes(*state, 64, LARGE, 2), 0))
TEST_OF(every_rank_counts_once_of_1024,
	assert_int_not_equal(check_sizes(*state, LARGEST, LARGEST, 2), 0))

int main(int argc, char **argv)
{
	struct subject algorithms[32];
	size_t n = 0;

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	mallopt(M_MMAP_THRESHOLD, 1 << 30); /* memory once faulted in is used again */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (; tt_algorithms[n]; n++)
		algorithms[n] = (struct subject){ tt_algorithms[n]->name, tt_algorithms[n] };
	return run_claims_about(algorithms, n);
}
