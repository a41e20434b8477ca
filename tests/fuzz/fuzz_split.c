/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks send each other while they split a communicator. The input: size:1 rank:1 mine, then
 * choices of all as far as they go, the lengths of their records, a vote and a failure. */
#include <string.h>

#include "exchange.h"
#include "fuzz.h"
#include "split.h"

#define RANKS 16

static const uint8_t *at;
static size_t left;

/* The next bytes of the input, and zeros behind it. */
static void take(void *out, size_t bytes)
{
	const size_t there = bytes < left ? bytes : left;

	memset(out, 0, bytes);
	if (there)
		memcpy(out, at, there);
	at += there;
	left -= there;
}

static void check_choices(int size, int rank)
{
	struct tt_split_choice *choices = malloc((size_t)size * sizeof(*choices)), mine;
	int *members = malloc((size_t)size * sizeof(*members));
	struct tt_split_part part = { members, 0, 0 };
	bool seen[RANKS] = { false };

	FUZZ_PROMISE(choices && members);
	take(choices, (size_t)size * sizeof(*choices));
	take(&mine, sizeof(mine));
	if (left % 2) /* as it is where nobody has changed it */
		mine = choices[rank];
	if (tt_split_select(choices, size, rank, mine, &part) == TUTTI_OK) {
		FUZZ_PROMISE(mine.color < 0 ? part.count == 0
					    : part.count >= 1 && part.count <= size &&
						      members[part.place] == rank);
		for (int i = 0; i < part.count; i++) {
			const int member = members[i];

			FUZZ_PROMISE(member >= 0 && member < size && !seen[member] &&
				     choices[member].color == mine.color);
			FUZZ_PROMISE(i == 0 || choices[members[i - 1]].key < choices[member].key ||
				     (choices[members[i - 1]].key == choices[member].key &&
				      members[i - 1] < member));
			seen[member] = true;
		}
	}
	free(choices);
	free(members);
}

static void check_lengths(int size, int rank)
{
	size_t lengths[RANKS], offsets[RANKS], bytes;
	struct tt_records records = { NULL, offsets, lengths };

	take(lengths, (size_t)size * sizeof(*lengths));
	if (tt_records_arrange(&records, size, rank, lengths[rank], &bytes) != TUTTI_OK)
		return;
	FUZZ_PROMISE(bytes <= (size_t)size * TT_EXCHANGED_MAX);
	for (int i = 0; i < size; i++)
		FUZZ_PROMISE(offsets[i] + lengths[i] <= bytes &&
			     offsets[i] + lengths[i] == (i + 1 < size ? offsets[i + 1] : bytes));
}

static void check_failure(int size, int rank)
{
	struct tt_split_failure *failure = malloc(sizeof(*failure));
	int64_t least;
	int32_t own;
	int failed;

	FUZZ_PROMISE(failure);
	take(&least, sizeof(least));
	take(&own, sizeof(own));
	const int64_t mine =
		tt_split_vote(own % 9 > 0 ? TUTTI_OK : (tutti_result_t)(own % 9), rank);
	if (tt_split_read_vote(least, mine, size, &failed) == TUTTI_OK)
		FUZZ_PROMISE(failed < size && (failed >= 0 || mine == TT_SPLIT_FINE));
	take(failure, sizeof(*failure));
	const tutti_result_t result = tt_split_read_failure(failure, rank);
	FUZZ_PROMISE(result < 0 && result >= TUTTI_ERR_UNSUPPORTED);
	for (const char *c = tt_thread_error(); *c; c++)
		FUZZ_PROMISE((unsigned char)*c >= ' ' && *c != 0x7f);
	free(failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t head[2];

	at = data;
	left = size;
	take(head, sizeof(head));
	const int ranks = 1 + head[0] % RANKS, rank = head[1] % ranks;

	check_choices(ranks, rank);
	check_lengths(ranks, rank);
	check_failure(ranks, rank);
	return 0;
}
