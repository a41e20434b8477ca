/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the exchange of records through a store.
 *
 * The tree is that of a gather with TT_TREE branches at each level: a rank that is a multiple of
 * TT_TREE^k, and of no higher power, gathers the records of the TT_TREE^k ranks from itself on
 * (tt_rendezvous_span()), and sets them under its key. So the store keeps each record once for
 * each level, and the root's answer once, whatever the number of ranks. */
#include "gather.h"

#include <stdlib.h>
#include <string.h>

#include "late.h"
#include "log.h"
#include "store.h"

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
				  struct tt_records *out)
{
	const struct tt_record_from maker = maker_of(rendezvous, key, from);
	/* also who comes late waits, and so is told of an end */
	const uint64_t patience = tt_left(deadline) + 1;
	struct tt_bundle bundle;
	char name[TT_RANK_KEY_MAX];

	tt_rendezvous_rank_key(rendezvous, from, name);
	tutti_result_t result = tt_bundle_get(store, name, from, count, patience, &bundle);
	if (result == TUTTI_IN_PROGRESS)
		return tt_rendezvous_fail_late(store, rendezvous, from);
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
				   struct tt_records *known)
{
	struct tt_records records = { 0 };
	const tutti_result_t result =
		get_records(store, rendezvous, key, from, count, deadline, &records);

	for (int i = 0; i < count && !result; i++)
		tt_records_add(known, records.bytes + records.offset[i], records.length[i]);
	tt_records_free(&records);
	return result;
}

/* Of the ranks below, level by level: those that have the fewest to wait for come first. */
static tutti_result_t gather(tutti_store_t store, struct tt_rendezvous *rendezvous,
			     const struct tt_key *key, int span, uint64_t deadline,
			     struct tt_records *known)
{
	tutti_result_t result = TUTTI_OK;

	for (int stride = 1; stride < span && !result; stride *= TT_TREE) {
		for (int branch = 1; branch < TT_TREE && !result; branch++) {
			const int from = rendezvous->rank + branch * stride,
				  left = rendezvous->size - from;

			if (left <= 0)
				break;
			result = add_gathered(store, rendezvous, key, from,
					      left < stride ? left : stride, deadline, known);
		}
	}
	return result;
}

tutti_result_t tt_gather_up(tutti_store_t store, struct tt_rendezvous *rendezvous,
			    const struct tt_key *key, const void *mine, size_t length,
			    uint64_t deadline, struct tt_records *all)
{
	const struct tt_record_from maker = maker_of(rendezvous, key, rendezvous->rank);
	const int span = tt_rendezvous_span(rendezvous, rendezvous->rank);
	struct tt_records known = { 0 };
	struct tt_bundle bundle = { 0 };
	char name[TT_RANK_KEY_MAX];
	tutti_result_t result = tt_records_make(span, (size_t)span * TT_RECORD_MAX, &known);

	if (!result) {
		tt_records_add(&known, mine, length);
		result = gather(store, rendezvous, key, span, deadline, &known);
	}
	if (!result)
		result = tt_bundle_pack(&maker, known.count, &known, &bundle);
	if (!result && rendezvous->rank == 0)
		result = tt_rendezvous_met(store, rendezvous);
	tt_rendezvous_rank_key(rendezvous, rendezvous->rank, name);
	if (!result)
		result = tt_bundle_set(store, name, &bundle, tt_rendezvous_patience(rendezvous));
	known.proven = true;
	if (rendezvous->rank == 0 && !result)
		*all = known;
	else
		tt_records_free(&known);
	free(bundle.bytes);
	return result;
}

tutti_result_t tt_gather_down(tutti_store_t store, struct tt_rendezvous *rendezvous,
			      const struct tt_key *key, uint64_t deadline, struct tt_records *all)
{
	return get_records(store, rendezvous, key, 0, rendezvous->size, deadline, all);
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
