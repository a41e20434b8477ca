/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns tutti_comm_split. Three exchanges by the parent: what each rank chose, its record, and
 * whether it has its part, or why not. A rank that fails takes part in all of them, so that nobody
 * waits for it and all return the same. What came is checked before it is used; a rank that finds
 * nonsense which the others may not have seen revokes the parent. */
#include "split.h"

#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"
#include "fault.h"
#include "group.h"
#include "parts.h"

/* ---- what came from the others */

struct member {
	int32_t key, rank;
};

static int by_key(const void *a, const void *b)
{
	const struct member *one = a, *other = b;

	if (one->key != other->key)
		return one->key < other->key ? -1 : 1;
	return one->rank < other->rank ? -1 : 1;
}

tutti_result_t tt_split_select(const struct tt_split_choice *choices, int size, int rank,
			       struct tt_split_choice mine, struct tt_split_part *part)
{
	struct member *sorted;
	int count = 0;

	if (choices[rank].color != mine.color || choices[rank].key != mine.key)
		return tt_fail(TUTTI_ERR_UNSUPPORTED, COMM,
			       "tutti_comm_split: color %d and key %d of rank %d came back as %d "
			       "and %d: another rank does not do "
			       "what this version of tutti does: all ranks must use the same one",
			       (int)mine.color, (int)mine.key, rank, (int)choices[rank].color,
			       (int)choices[rank].key);
	part->count = part->place = 0;
	if (mine.color < 0)
		return TUTTI_OK;
	sorted = malloc((size_t)size * sizeof(*sorted));
	if (!sorted)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
			       "tutti_comm_split: no memory for %d ranks", size);
	for (int i = 0; i < size; i++)
		if (choices[i].color == mine.color)
			sorted[count++] = (struct member){ choices[i].key, i };
	qsort(sorted, (size_t)count, sizeof(*sorted), by_key);
	for (int i = 0; i < count; i++) {
		part->members[i] = sorted[i].rank;
		if (sorted[i].rank == rank)
			part->place = i;
	}
	part->count = count;
	free(sorted);
	return TUTTI_OK;
}

/* ---- together */

/* Nonsense that came from a rank, or a want of memory, in the middle: nobody is to wait for this
 * one. */
static tutti_result_t end_parent(struct tutti_comm *parent, tutti_result_t result)
{
	return result ? tt_comm_fail(parent, result) : TUTTI_OK;
}

static tutti_result_t choose(struct tutti_comm *parent, enum tt_part function,
			     struct tt_split_choice mine, struct tt_split_part *part)
{
	struct tt_split_choice *all = malloc((size_t)parent->size * sizeof(*all));
	tutti_result_t result;

	if (!all)
		return end_parent(parent, tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
						  "tutti_comm_split: no memory for %d ranks",
						  parent->size));
	result = tt_part_all_gather(parent, function, &mine, all, sizeof(mine));
	if (!result)
		result = end_parent(parent,
				    tt_split_select(all, parent->size, parent->rank, mine, part));
	free(all);
	return result;
}

/* Another for each word. */
static uint64_t mix(uint64_t word)
{
	word *= 0x9e3779b97f4a7c15ull;
	return word ^ (word >> 32);
}

/* The same on all members, and another for every split and color: reports and what ranks say of
 * themselves when they connect have it. */
static uint64_t split_id(struct tutti_comm *parent, int color)
{
	return mix(mix(parent->id ^ parent->next_seq) ^ (uint64_t)(uint32_t)color);
}

/* With the records of its part, in the order of that, from those of all. */
static tutti_result_t join_part(struct tutti_comm *comm, const struct tt_records *all,
				const int *members, uint64_t deadline)
{
	struct tt_records records;
	tutti_result_t result =
		tt_records_make(comm->size, (size_t)comm->size * TT_EXCHANGED_MAX, &records);

	for (int i = 0; i < comm->size && !result; i++)
		tt_records_add(&records, all->bytes + all->offset[members[i]],
			       all->length[members[i]]);
	if (!result)
		result = tt_bootstrap_join(comm, &records, deadline);
	tt_records_free(&records);
	return result;
}

static tutti_result_t join(struct tutti_comm *parent, enum tt_part function, int color,
			   const struct tt_split_part *part, struct tutti_comm **out)
{
	const uint64_t deadline = tt_now() + parent->settings.timeout_ns;
	const struct tt_join_hooks hooks = { .should_abort = tt_exchange_is_hopeless,
					     .context = parent };
	struct tt_records records = { 0 };
	uint8_t record[TT_RECORD_MAX];
	size_t length = 0;
	tutti_result_t result = TUTTI_OK;

	if (part->count > 0) {
		result = tt_comm_new(&parent->settings, part->place, part->count,
				     split_id(parent, color), out);
		if (!result) {
			(*out)->joining.hooks = &hooks;
			result = tt_bootstrap_open(*out, parent, record, &length);
		}
	}
	/* a rank that failed still takes part, with a record that says why */
	if (result && *out)
		tt_bootstrap_fail(*out, record, &length);
	const tutti_result_t met =
		tt_exchange_by_parent(parent, function, record, length, &records);
	if (!result)
		result = met;
	if (!result && *out)
		result = join_part(*out, &records, part->members, deadline);
	if (*out)
		(*out)->joining.hooks = NULL;
	tt_records_free(&records);
	return result;
}

/* Ranks of other colors, and those that had joined, are told: either all have their part or none,
 * and the parent is as before. */
static tutti_result_t agree(struct tutti_comm *parent, enum tt_part function, tutti_result_t result,
			    struct tutti_comm **out)
{
	struct tt_report mine = { 0 };
	struct tt_records all = { 0 };

	tt_report_fill(&mine, result);
	if (result) {
		tutti_comm_destroy(*out); /* by which those learn of it that wait for this rank
					   * there */
		*out = NULL;
	}
	result = tt_exchange_reports(parent, function, &mine, &all);
	tt_records_free(&all);
	return result;
}

tutti_result_t tt_part_split(struct tutti_comm *comm, enum tt_part function, int color, int key,
			     struct tutti_comm **out)
{
	struct tt_split_part part = { 0 };

	*out = NULL;
	part.members = malloc((size_t)comm->size * sizeof(*part.members));
	if (!part.members)
		return tt_comm_fail(comm, tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
						  "tutti_comm_split: no memory for %d ranks",
						  comm->size));
	tutti_result_t result =
		choose(comm, function, (struct tt_split_choice){ color, key }, &part);
	if (!result)
		result = agree(comm, function, join(comm, function, color, &part, out), out);
	free(part.members);
	if (result) {
		tutti_comm_destroy(*out);
		*out = NULL;
	}
	return result;
}

static tutti_result_t make(struct tutti_comm *comm, enum tt_part function, int color, int key,
			   struct tutti_comm **out)
{
	if (out)
		*out = NULL;
	const tutti_result_t refused = tt_group_refuse(comm, tt_part_name(function));
	if (refused)
		return refused;
	if (!out)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "%s: out is NULL", tt_part_name(function));
	return tt_part_split(comm, function, color, key, out);
}

TUTTI_API tutti_result_t tutti_comm_split(tutti_comm_t comm, int color, int key, tutti_comm_t *out)
{
	return make(comm, TT_PART_SPLIT, color, key, out);
}

TUTTI_API tutti_result_t tutti_comm_dup(tutti_comm_t comm, tutti_comm_t *out)
{
	return make(comm, TT_PART_DUP, 0, 0, out);
}
