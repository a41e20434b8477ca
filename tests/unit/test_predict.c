/* SPDX-License-Identifier: BSD-3-Clause */
/* What collectives take on clusters that are only described, against what is worked out by hand. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "tutti_asserts.h"
#include "tutti/tutti.h"

/* Figures of which each shows in a sum of them. */
static const tutti_cluster_t plain = {
	.size = sizeof(tutti_cluster_t),
	.ranks_per_host = 1,
	.within = { .latency = 1e-7, .overhead = 2e-8, .byte = 1e-10 },
	.between = { .latency = 5e-6, .overhead = 1e-6, .byte = 1e-9 },
	.network_byte = 6e-10,
	.shared_byte = 2e-10,
	.sync = 3e-7,
	.reduced_byte = 3e-11,
};

static tutti_prediction_t predict(const tutti_cluster_t *cluster, const char *collective, int ranks,
				  double bytes)
{
	tutti_prediction_t p = { .size = sizeof(p) };

	assert_ok(tutti_predict(cluster, collective, ranks, bytes, &p));
	return p;
}

static double seconds(const tutti_prediction_t *p, const char *algorithm)
{
	for (unsigned i = 0; i < p->algorithms; i++)
		if (strcmp(p->algorithm[i], algorithm) == 0)
			return p->seconds[i];
	fail_msg("there is no algorithm %s", algorithm);
	return 0;
}

static void expect(double got, double wanted)
{
	if (fabs(got - wanted) > 1e-9 * wanted)
		fail_msg("%.12g s, expected %.12g", got, wanted);
}

TEST(a_ring_of_hosts_takes_what_its_messages_bytes_and_sums_do)
{
	const double n = 1 << 20;

	for (int p = 2; p <= 1048576; p *= 2) {
		const tutti_prediction_t found = predict(&plain, "all_reduce", p, n);
		const double share = (p - 1.0) / p;

		expect(seconds(&found, "ring"),
		       2 * (p - 1) * 6e-6 + 2 * share * n * 1e-9 + share * n * 3e-11);
	}
}

/* The last of four works when the first segment has passed the two before it. */
TEST(a_pipeline_is_filled_first)
{
	const double segment = 128 * 1024;

	for (double n = segment / 2; n <= 8 * segment; n *= 2) {
		const double segments = n > segment ? n / segment : 1;
		tutti_prediction_t found = predict(&plain, "broadcast", 4, n);

		expect(seconds(&found, "ring"), 3 * 6e-6 + (1 + 2 / segments) * n * 1e-9);
		found = predict(&plain, "scan", 4, n);
		expect(seconds(&found, "chain"),
		       3 * 6e-6 + (1 + 2 / segments) * n * (1e-9 + 3e-11));
	}
}

/* Less than 0: what it cannot. */
TEST(examples_take_what_was_worked_out_by_hand)
{
	/* of the last ones: rounds beside others of a host, its bytes, those of hosts, and sums */
	const double near = 6 * 1.2e-7, inside = 1.5 * 1e-10, across = 2 * 3. / 16,
		     sums = (0.75 + 3. / 16) * 3e-11;
	const struct {
		const char *collective;
		int ranks, of_host;
		double bytes;
		const char *algorithm;
		double seconds;
	} examples[] = {
		/* messages at once take their calls only */
		{ "broadcast", 101, 1, 8, "flat", 6e-6 + 99 * 1e-6 + 100 * 8 * 1e-9 },
		/* what stays in a host costs what hosts do */
		{ "all_reduce", 4, 4, 1e3, "doubling", 2 * (1.2e-7 + 1e3 * (1e-10 + 3e-11)) },
		{ "all_reduce", 4, 4, 1e3, "board", 3e-7 + 4e3 * 2e-10 + 3e3 * 3e-11 },
		{ "all_reduce", 4, 4, 1e3, "hierarchical", -1 },
		/* Every other link of that ring leaves a host, one of each: its rank is slower than
		 * the network. Half of doubling's bytes leave, but its cost says that all may. */
		{ "all_reduce", 4, 2, 1e6, "doubling", 2 * (6e-6 + 1e6 * (2 * 6e-10 + 3e-11)) },
		{ "all_reduce", 4, 2, 1e6, "ring",
		  3 * 1.2e-7 + 6e-6 + 1.5e6 * 1e-9 + 0.75e6 * 3e-11 },
		{ "all_reduce", 4, 2, 1e6, "board", -1 },
		/* Three of six links on a block's way leave a host, and it is short: no other keeps
		 * it waiting there. A chain's vector has nobody to take turns with. */
		{ "all_reduce", 4, 2, 1e3, "ring",
		  3 * 1.2e-7 + 3 * 6e-6 + 0.5 * 1.5e3 * 1e-9 + 0.75e3 * 3e-11 },
		{ "broadcast", 4, 2, 1e3, "ring", 1.5 * 1.2e-7 + 1.5 * 6e-6 + 1.5e3 * 1e-9 },
		/* Four ranks of each of four hosts: rings side by side wait for their own messages,
		 * or for everybody's bytes, as what they send at once shares a network that is not
		 * four times as fast as one of them. */
		{ "all_reduce", 16, 4, 1e6, "hierarchical_split",
		  near + 6e-6 + 1e6 * (inside + across * 4 * 6e-10 + sums) },
		{ "all_reduce", 16, 4, 1e3, "hierarchical_split",
		  near + 6 * 6e-6 + 1e3 * (inside + across * 1e-9 + sums) },
	};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		tutti_cluster_t cluster = plain;

		cluster.ranks_per_host = examples[i].of_host;
		const tutti_prediction_t found = predict(&cluster, examples[i].collective,
							 examples[i].ranks, examples[i].bytes);
		const double took = seconds(&found, examples[i].algorithm);

		if (examples[i].seconds < 0)
			assert_true(took < 0);
		else
			expect(took, examples[i].seconds);
	}
	tutti_cluster_t pairs = plain;

	pairs.ranks_per_host = 2;
	const tutti_prediction_t found = predict(&pairs, "all_reduce", 4, 1e6);
	assert_true(seconds(&found, "hierarchical") > 0);
}

TEST(the_first_of_those_that_take_least_is_chosen)
{
	static const char *const collectives[] = { "broadcast",	     "reduce",	"all_reduce",
						   "reduce_scatter", "gather",	"all_gather",
						   "all_to_all",     "scatter", "scan",
						   "exscan",	     "barrier" };
	const size_t count = 2 * sizeof(collectives) / sizeof(collectives[0]);

	for (size_t c = 0; c < count; c++) { /* of few ranks, and of as many as there may be */
		const tutti_prediction_t p =
			predict(&plain, collectives[c / 2], c % 2 ? 1048576 : 6, 4096);

		assert_in_range(p.chosen, 0, p.algorithms - 1);
		for (int i = 0; i < (int)p.algorithms; i++) {
			if (p.seconds[i] < 0)
				continue;
			assert_true(p.seconds[i] >= p.seconds[p.chosen]);
			assert_true(i >= p.chosen || p.seconds[i] > p.seconds[p.chosen]);
		}
	}
}

TEST(folds_of_more_sources_than_a_step_counts_are_none)
{
	tutti_prediction_t found = predict(&plain, "all_reduce", 65536, 8);

	assert_true(seconds(&found, "flat") < 0 && seconds(&found, "star") < 0);
	found = predict(&plain, "all_reduce", 65535, 8);
	assert_true(seconds(&found, "flat") > 0 && seconds(&found, "star") > 0);
}

static void refuse(const tutti_cluster_t *cluster, const char *collective, int ranks, double bytes,
		   size_t size, const char *words)
{
	tutti_prediction_t p = { .size = size };

	assert_fails(tutti_predict(cluster, collective, ranks, bytes, &p), TUTTI_ERR_INVALID,
		     words);
}

TEST(wrong_arguments_are_named)
{
	const size_t size = sizeof(tutti_prediction_t);
	tutti_cluster_t cluster = plain;

	refuse(NULL, "all_reduce", 2, 8, size, "NULL");
	refuse(&plain, NULL, 2, 8, size, "NULL");
	refuse(&plain, "all_reduce", 2, 8, 1, "out->size is 1");
	refuse(&plain, "all_reduce", 1, 8, size, "1 ranks, expected 2 to 1048576");
	refuse(&plain, "all_reduce", 1048577, 8, size, "1048577 ranks, expected 2 to 1048576");
	refuse(&plain, "all_reduce", INT_MAX, 8, size, "2147483647 ranks, expected 2 to 1048576");
	refuse(&plain, "all_reduce", 2, -8, size, "-8 bytes");
	refuse(&plain, "all_refuse", 2, 8, size, "\"all_refuse\"");
	refuse(&plain, "send/recv", 2, 8, size, "\"send/recv\"");
	cluster.size = 0;
	refuse(&cluster, "all_reduce", 2, 8, size, "cluster->size is 0");
	cluster = plain;
	cluster.ranks_per_host = 0;
	refuse(&cluster, "all_reduce", 2, 8, size, "0 ranks per host");
	cluster = plain;
	cluster.between.overhead = -1;
	refuse(&cluster, "all_reduce", 2, 8, size, "negative or not finite");
	cluster = plain;
	cluster.sync = NAN;
	refuse(&cluster, "all_reduce", 2, 8, size, "negative or not finite");
}
