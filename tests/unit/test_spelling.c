/* SPDX-License-Identifier: BSD-3-Clause */
/* Which name a misspelt one is taken for, and which variables nobody reads. */
#include <string.h>

#include "tests.h"
#include "variables.h"

static const char *const names[] = {
	"all_reduce", "all_gather", "all_to_all", "reduce", "reduce_scatter",
	"scan",	      "exscan",	    "broadcast",  "shm",    "tcp",
	"avg",	      "max",	    "min",	  "sum",    NULL
};

static void means(const char *given, const char *hint)
{
	char text[TT_NEAREST_HINT];

	assert_string_equal(tt_did_you_mean(given, names, text), hint);
}

TEST(slips_of_the_finger_are_recognised)
{
	means("allreduce", " (did you mean all_reduce?)");
	means("all-reduce", " (did you mean all_reduce?)");
	means("AllReduce", " (did you mean all_reduce?)");
	means("alltoall", " (did you mean all_to_all?)");
	means("all_gahter", " (did you mean all_gather?)"); /* a swap is one */
	means("reducescatter", " (did you mean reduce_scatter?)");
	means("brodcast", " (did you mean broadcast?)");
	means("tpc", " (did you mean tcp?)");
	means("SUM", " (did you mean sum?)");
	means("mux", " (did you mean max?)"); /* of equally near ones the first */
}

TEST(other_words_are_not_explained)
{
	char more[256];

	memset(more, 'x', sizeof(more) - 1);
	more[sizeof(more) - 1] = '\0';
	means("", "");
	means("x", "");
	means("pigeon", "");
	means("smoke", "");
	means("tcp", ""); /* right as it is */
	means(more, "");
}

TEST(a_part_of_a_text_is_compared)
{
	struct tt_nearest nearest = tt_nearest_to("shn,tcp", 3);
	char text[TT_NEAREST_HINT];

	tt_nearest_offer(&nearest, "tcp");
	tt_nearest_offer(&nearest, "shm");
	assert_string_equal(tt_nearest_hint(&nearest, text), " (did you mean shm?)");
}

TEST(variables_that_nobody_reads_are_told)
{
	struct tt_variable unknown;

	assert_false(tt_variable_unknown("TUTTI_TIMEOUT=3", &unknown));
	assert_false(tt_variable_unknown("TUTTI_KEY_FILE=", &unknown));
	assert_false(tt_variable_unknown("PATH=/bin", &unknown));
	assert_false(tt_variable_unknown("TUTTICORN=1", &unknown));
	assert_true(tt_variable_unknown("TUTTI_TIMEOOT=3", &unknown));
	assert_int_equal(unknown.length, strlen("TUTTI_TIMEOOT"));
	assert_string_equal(unknown.hint, " (did you mean TUTTI_TIMEOUT?)");
	assert_true(tt_variable_unknown("TUTTI_KEYFILE=x", &unknown));
	assert_string_equal(unknown.hint, " (did you mean TUTTI_KEY_FILE?)");
	assert_true(tt_variable_unknown("TUTTI_RDMA_GIDS=", &unknown));
	assert_string_equal(unknown.hint, " (did you mean TUTTI_RDMA_GID?)");
	assert_true(tt_variable_unknown("TUTTI_HOME=/opt",
					&unknown)); /* as far from all as any other word */
	assert_string_equal(unknown.hint, "");
	assert_true(tt_variable_unknown("TUTTI_", &unknown));
	assert_string_equal(unknown.hint, "");
}
