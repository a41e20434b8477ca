/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange of records through a store.
 *
 * The tree is that of a gather with TT_TREE branches at each level: a rank that is a multiple of
 * TT_TREE^k, and of no higher power, gathers the records of the TT_TREE^k ranks from itself on
 * (tt_rendezvous_span()), and sets them under its key. So the store keeps each record once for
 * each level, and the root's answer once, whatever the number of ranks. */
#include "gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "store.h"

/* A value of the store that may be longer than the store allows: its length and its first bytes
 * under the key, the others under KEY/1, KEY/2 …, which are set before. */
#define PART_BYTES (64u << 10)

struct part {
	uint64_t whole;
	uint8_t bytes[PART_BYTES];
};
static_assert(sizeof(struct part) <= TT_STORE_VALUE_MAX, "a part can be set");

static void part_key(const struct tt_rendezvous *rendezvous, int rank, size_t number, char *key)
{
	char name[TT_RANK_KEY_MAX];

	tt_rendezvous_rank_key(rendezvous, rank, name);
	if (number)
		snprintf(key, TT_RANK_KEY_MAX + 24, "%s/%zu", name, number);
	else
		snprintf(key, TT_RANK_KEY_MAX + 24, "%s", name);
}

static tutti_result_t set_bundle(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				 const struct tt_bundle *bundle, struct part *part)
{
	tutti_result_t result = TUTTI_OK;

	for (size_t i = (bundle->length - 1) / PART_BYTES + 1; i-- > 0 && !result;) {
		const size_t at = i * PART_BYTES, left = bundle->length - at,
			     bytes = left < PART_BYTES ? left : PART_BYTES;
		char key[TT_RANK_KEY_MAX + 24];

		part_key(rendezvous, rendezvous->rank, i, key);
		part->whole = bundle->length;
		memcpy(part->bytes, bundle->bytes + at, bytes);
		result = tt_rendezvous_set(store, rendezvous, key, part,
					   offsetof(struct part, bytes) + bytes);
	}
	return result;
}

static tutti_result_t fail_part(int from, size_t length, const char *key)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"rank %d left %zu bytes under %s that are no records of this version of tutti",
		from, length, key);
}

/* Part `number` of what `from` set, behind what has come before. */
static tutti_result_t get_part(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			       int from, int count, size_t number, uint64_t deadline,
			       struct part *part, struct tt_bundle *out)
{
	size_t length = sizeof(*part);
	char key[TT_RANK_KEY_MAX + 24];

	part_key(rendezvous, from, number, key);
	const tutti_result_t result =
		tt_rendezvous_get(store, rendezvous, from, key, part, &length, deadline);
	if (result)
		return result;
	const size_t at = number * PART_BYTES, bytes = length - offsetof(struct part, bytes);
	if (length <= offsetof(struct part, bytes) || part->whole > tt_bundle_capacity(count) ||
	    (number && part->whole != out->length) || part->whole < at + bytes ||
	    (bytes < PART_BYTES && part->whole != at + bytes))
		return fail_part(from, length, key);
	if (!number) {
		*out = (struct tt_bundle){ malloc(part->whole), part->whole };
		if (!out->bytes)
			return tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
				       "no memory for the records of %d ranks", count);
	}
	memcpy(out->bytes + at, part->bytes, bytes);
	return TUTTI_OK;
}

/* A record of the first exchange proves nothing in the second. */
static struct tt_record_from maker_of(const struct tt_rendezvous *rendezvous,
				      const struct tt_key *key, int rank)
{
	return (struct tt_record_from){ key, rendezvous->again ? ~rendezvous->id : rendezvous->id,
					rank };
}

/* The records that `from` gathered, of `count` ranks. */
static tutti_result_t get_records(tutti_store_t store, struct tt_rendezvous *rendezvous,
				  const struct tt_key *key, int from, int count, uint64_t deadline,
				  struct part *part, struct tt_records *out)
{
	const struct tt_record_from maker = maker_of(rendezvous, key, from);
	struct tt_bundle bundle = { 0 };
	tutti_result_t result =
		get_part(store, rendezvous, from, count, 0, deadline, part, &bundle);

	for (size_t i = 1; !result && i * PART_BYTES < bundle.length; i++)
		result = get_part(store, rendezvous, from, count, i, deadline, part, &bundle);
	if (!result)
		result = tt_bundle_unpack(&maker, count, bundle.bytes, bundle.length,
					  rendezvous->rank, out);
	rendezvous->unfit |= result == TUTTI_ERR_INVALID || result == TUTTI_ERR_UNSUPPORTED;
	free(bundle.bytes);
	return result;
}

/* ---- the tree */

/* Behind those that are known, which are from this rank on. */
static tutti_result_t add_gathered(tutti_store_t store, struct tt_rendezvous *rendezvous,
				   const struct tt_key *key, int from, int count, uint64_t deadline,
				   struct part *part, struct tt_records *known)
{
	struct tt_records records = { 0 };
	const tutti_result_t result =
		get_records(store, rendezvous, key, from, count, deadline, part, &records);

	for (int i = 0; i < count && !result; i++)
		tt_records_add(known, records.bytes + records.offset[i], records.length[i]);
	tt_records_free(&records);
	return result;
}

/* Of the ranks below, level by level: those that have the fewest to wait for come first. */
static tutti_result_t gather(tutti_store_t store, struct tt_rendezvous *rendezvous,
			     const struct tt_key *key, int span, uint64_t deadline,
			     struct part *part, struct tt_records *known)
{
	tutti_result_t result = TUTTI_OK;

	for (int stride = 1; stride < span && !result; stride *= TT_TREE) {
		for (int branch = 1; branch < TT_TREE && !result; branch++) {
			const int from = rendezvous->rank + branch * stride,
				  left = rendezvous->size - from;

			if (left <= 0)
				break;
			result = add_gathered(store, rendezvous, key, from,
					      left < stride ? left : stride, deadline, part, known);
		}
	}
	return result;
}

static struct part *make_part(tutti_result_t *result)
{
	struct part *part = malloc(sizeof(*part));

	*result = part ? TUTTI_OK
		       : tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for the rendezvous");
	return part;
}

tutti_result_t tt_gather_up(tutti_store_t store, struct tt_rendezvous *rendezvous,
			    const struct tt_key *key, const void *mine, size_t length,
			    uint64_t deadline, struct tt_records *all)
{
	const struct tt_record_from maker = maker_of(rendezvous, key, rendezvous->rank);
	const int span = tt_rendezvous_span(rendezvous, rendezvous->rank);
	struct tt_records known = { 0 };
	struct tt_bundle bundle = { 0 };
	tutti_result_t result;
	struct part *part = make_part(&result);

	if (!result)
		result = tt_records_make(span, (size_t)span * TT_RECORD_MAX, &known);
	if (!result) {
		tt_records_add(&known, mine, length);
		result = gather(store, rendezvous, key, span, deadline, part, &known);
	}
	if (!result)
		result = tt_bundle_pack(&maker, known.count, &known, &bundle);
	if (!result && rendezvous->rank == 0)
		result = tt_rendezvous_met(store, rendezvous);
	if (!result)
		result = set_bundle(store, rendezvous, &bundle, part);
	known.proven = true;
	if (rendezvous->rank == 0 && !result)
		*all = known;
	else
		tt_records_free(&known);
	free(bundle.bytes);
	free(part);
	return result;
}

tutti_result_t tt_gather_down(tutti_store_t store, struct tt_rendezvous *rendezvous,
			      const struct tt_key *key, uint64_t deadline, struct tt_records *all)
{
	tutti_result_t result;
	struct part *part = make_part(&result);

	if (!result)
		result = get_records(store, rendezvous, key, 0, rendezvous->size, deadline, part,
				     all);
	free(part);
	return result;
}

/* Has rank 0 taken this process's record? */
static bool is_member(const struct tt_rendezvous *rendezvous, const struct tt_records *all,
		      const void *mine, size_t length)
{
	uint8_t own[TT_RECORD_MAX];

	memcpy(own, mine, length);
	tt_record_forget_proof(own, length);
	return all->length[rendezvous->rank] == length &&
	       memcmp(all->bytes + all->offset[rendezvous->rank], own, length) == 0;
}

tutti_result_t tt_gather(tutti_store_t store, struct tt_rendezvous *rendezvous,
			 const struct tt_key *key, const void *mine, size_t length,
			 uint64_t deadline, struct tt_records *out)
{
	tutti_result_t result = tt_gather_up(store, rendezvous, key, mine, length, deadline, out);

	if (result || rendezvous->rank == 0)
		return result;
	result = tt_gather_down(store, rendezvous, key, deadline, out);
	if (result || is_member(rendezvous, out, mine, length))
		return result;
	tt_records_free(out);
	return tt_fail(TT_SUPERSEDED, COMM, "another process has come as rank %d, and died",
		       rendezvous->rank);
}
