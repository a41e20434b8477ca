/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the digest of tables of counts, and the search for a table by its digest. */
#include "counts.h"

#include <string.h>

#define PAIRS_MOST                                                                                 \
	2048 /* longest table of which all pairs of places are tried: some ten milliseconds */

/* Each count adds a word of its own to the hash, so that a change in one place needs no other. */
static uint64_t word_of(size_t place, size_t count)
{
	uint64_t word = (uint64_t)count * 0x9e3779b97f4a7c15ull;

	if (count == 0)
		return 0;
	word = (word ^ (word >> 32) ^ ((uint64_t)place + 1) * 0xd6e8feb86659fd93ull) *
	       0xff51afd7ed558ccdull;
	word = (word ^ (word >> 29)) * 0xc4ceb9fe1a85ec53ull;
	return word ^ (word >> 32);
}

struct tt_counts_digest tt_counts_digest(const struct tt_counts *counts)
{
	struct tt_counts_digest digest = { 0, 0, 0 };

	for (size_t i = 0; i < counts->n; i++) {
		digest.sum += counts->at[i];
		digest.moment += (uint64_t)(i + 1) * counts->at[i];
		digest.hash += word_of(i, counts->at[i]);
	}
	return digest;
}

/* The change of the hash if the count in that place grows by `by`. */
static uint64_t change(const struct tt_counts *own, size_t place, uint64_t by)
{
	return word_of(place, own->at[place] + (size_t)by) - word_of(place, own->at[place]);
}

static bool differs_in_one(const struct tt_counts *own, const struct tt_counts_digest *by,
			   size_t *out)
{
	for (size_t i = 0; i < own->n; i++) {
		if ((uint64_t)(i + 1) * by->sum != by->moment ||
		    change(own, i, by->sum) != by->hash)
			continue;
		out[i] = own->at[i] + (size_t)by->sum;
		return true;
	}
	return false;
}

/* With `low` places behind the first and `high` behind that: their changes add up to the sum's,
 * weighed by place to the moment's. */
static bool differs_in_two(const struct tt_counts *own, const struct tt_counts_digest *by,
			   size_t *out)
{
	for (size_t low = 0; low < own->n && own->n <= PAIRS_MOST; low++) {
		for (size_t high = low + 1; high < own->n; high++) {
			const int64_t weighed =
				(int64_t)(by->moment - (uint64_t)(low + 1) * by->sum);
			const int64_t places = (int64_t)(high - low);

			if (weighed % places != 0)
				continue;
			const uint64_t of_high = (uint64_t)(weighed / places),
				       of_low = by->sum - of_high;
			if (change(own, low, of_low) + change(own, high, of_high) != by->hash)
				continue;
			out[low] = own->at[low] + (size_t)of_low;
			out[high] = own->at[high] + (size_t)of_high;
			return true;
		}
	}
	return false;
}

static bool has_digest(const size_t *counts, size_t n, const struct tt_counts_digest *digest)
{
	const struct tt_counts table = { counts, n };
	const struct tt_counts_digest found = tt_counts_digest(&table);

	return found.sum == digest->sum && found.moment == digest->moment &&
	       found.hash == digest->hash;
}

static bool is_even(const struct tt_counts *own, const struct tt_counts_digest *digest, size_t *out)
{
	for (size_t i = 0; i < own->n; i++)
		out[i] = (size_t)(digest->sum / own->n);
	return own->n > 0 && has_digest(out, own->n, digest);
}

/* Bytes for elements, or the other way round. */
static bool is_multiple(const struct tt_counts *own, uint64_t sum,
			const struct tt_counts_digest *digest, size_t *out)
{
	const bool larger = digest->sum >= sum;

	if (sum == 0 || digest->sum == 0)
		return false;
	for (size_t i = 0; i < own->n; i++)
		out[i] = larger ? own->at[i] * (size_t)(digest->sum / sum)
				: own->at[i] / (size_t)(sum / digest->sum);
	return has_digest(out, own->n, digest);
}

bool tt_counts_find(const struct tt_counts *own, const struct tt_counts_digest *digest, size_t *out)
{
	const struct tt_counts_digest mine = tt_counts_digest(own);
	const struct tt_counts_digest by = { digest->sum - mine.sum, digest->moment - mine.moment,
					     digest->hash - mine.hash };

	if (is_even(own, digest, out) || is_multiple(own, mine.sum, digest, out))
		return true;
	memcpy(out, own->at, own->n * sizeof(*out));
	return differs_in_one(own, &by, out) || differs_in_two(own, &by, out);
}
