/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the ranks' memory; see test_schedules_world.h. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/bounds.h"
#include "calls/rules.h"
#include "test_schedules_world.h"

#define SEVERAL UINT32_MAX

static_assert((int)BROADCAST == TT_BROADCAST && (int)BARRIER == TT_BARRIER,
	      "the calls of tests/calls in the order of the collectives");

static const struct rule *rule_of(const struct world *w)
{
	return &rules[w->claim->collective];
}

/* Blocks for each rank and from each; the lengths of some are known to their ranks alone. */
static bool is_all_to_all(const struct world *w)
{
	return rule_of(w)->send == EACH && rule_of(w)->recv == EACH;
}

bool reduces(const struct world *w)
{
	return rule_of(w)->combines;
}

bool is_prefix(const struct world *w)
{
	return w->claim->collective == TT_SCAN || w->claim->collective == TT_EXSCAN;
}

bool refuse(struct world *w, const char *format, ...)
{
	va_list args;
	int n;

	if (w->refused)
		return false;
	w->refused = true;
	n = snprintf(w->why, w->why_capacity, "rank %d, round %u: ", w->rank, w->round);
	va_start(args, format);
	vsnprintf(w->why + n, w->why_capacity - (size_t)n, format, args);
	va_end(args);
	return false;
}

/* Does the rank have this block of send, of recv? */
static bool exists(const struct world *w, int rank, int buffer, uint32_t block)
{
	const struct rule *rule = rule_of(w);
	const bool sent = buffer == TT_BUF_SEND;
	const enum shape here = sent ? rule->send : rule->recv,
			 there = sent ? rule->recv : rule->send;

	if ((sent ? rule->sends : rule->receives) == ROOTS && rank != w->claim->root)
		return false;
	if (here == ONE && there == EACH && block != (uint32_t)rank)
		return false;
	return block < (uint32_t)w->blocks;
}

struct cell *find_cell(const struct world *w, int rank, struct tt_ref ref, uint32_t i)
{
	struct cell *cells = w->cells + w->first_cell[rank];
	const uint32_t place = ref.slot + i;

	if (ref.buffer == TT_BUF_SCRATCH)
		return cells + 2 * (size_t)w->blocks + place;
	if (ref.buffer == TT_BUF_SEND &&
	    !(w->claim->in_place && !is_all_to_all(w) && exists(w, rank, TT_BUF_RECV, place)))
		return cells + w->blocks + place;
	return cells + place;
}

bool check_ref(struct world *w, int rank, struct tt_ref ref, uint32_t i)
{
	w->rank = rank;
	if (ref.buffer > TT_BUF_SCRATCH || ref.block + i >= (uint32_t)w->blocks)
		return refuse(w, "block %u does not exist", ref.block + i);
	if (ref.buffer == TT_BUF_SCRATCH)
		return ref.slot + i < w->sched[rank].scratch_slots ||
		       refuse(w, "slot %u is not counted as used", ref.slot + i);
	if (ref.slot != ref.block)
		return refuse(w, "block %u is looked for in place %u", ref.block, ref.slot);
	return exists(w, rank, ref.buffer, ref.block + i) ||
	       refuse(w, "has no %s block %u", ref.buffer == TT_BUF_SEND ? "send" : "recv",
		      ref.block + i);
}

bool check_straight(struct world *w, struct tt_ref from, struct tt_ref to)
{
	const struct rule *rule = rule_of(w);
	const bool known =
		!rule->tables || rule->combines || w->claim->collective == TT_ALL_GATHER_V;

	return known || (from.buffer == TT_BUF_SEND && to.buffer == TT_BUF_RECV) ||
	       refuse(w, "a block of unknown length does not go straight");
}

/* A block's length is that of the block the ref names; those of all_to_all are alike. */
static bool check_length(struct world *w, struct tt_ref ref, uint32_t i, const struct value *value)
{
	return is_all_to_all(w) || value->block == (int32_t)(ref.block + i) ||
	       refuse(w, "block %d is taken for block %u", value->block, ref.block + i);
}

static bool check_source(struct world *w, struct tt_ref ref, uint32_t i, const struct cell *cell,
			 struct value *value)
{
	if (cell->value == 0)
		return refuse(w, "block %u of buffer %u is read before anything was written",
			      ref.slot + i, ref.buffer);
	*value = value_of(&w->values, cell->value);
	return check_length(w, ref, i, value);
}

bool read_own(struct world *w, struct tt_ref ref, uint32_t i, struct value *value)
{
	const struct tt_ref recv = { TT_BUF_RECV, ref.slot, ref.block };
	const struct cell *cell;

	if (!check_ref(w, w->rank, ref, i))
		return false;
	cell = find_cell(w, w->rank, ref, i);
	if (cell->writer == w->step)
		return refuse(w, "a step reads what it wrote");
	if (ref.buffer == TT_BUF_SEND && !is_all_to_all(w) &&
	    exists(w, w->rank, TT_BUF_RECV, ref.slot + i) && find_cell(w, w->rank, recv, i)->writer)
		return refuse(w, "send block %u is read after recv block %u was written",
			      ref.slot + i, ref.slot + i);
	return check_source(w, ref, i, cell, value);
}

static void note_reader(struct world *w, int owner, struct cell *cell)
{
	if (w->reader_count == w->reader_capacity) {
		w->reader_capacity = w->reader_capacity ? 2 * w->reader_capacity : 1024;
		w->readers = realloc(w->readers, (size_t)w->reader_capacity * sizeof(*w->readers));
		if (!w->readers)
			abort();
	}
	w->readers[w->reader_count] =
		(struct reader){ cell->readers, owner, w->rank, w->round + 1 };
	cell->readers = w->reader_count++;
}

bool read_peer(struct world *w, int peer, struct tt_ref ref, uint32_t i, struct value *value)
{
	const int rank = w->rank;
	struct cell *cell;

	if (!w->claim->algorithm->shared)
		return refuse(w, "reads of rank %d, but is not shared", peer);
	if (!check_ref(w, peer, ref, i))
		return false;
	w->rank = rank;
	cell = find_cell(w, peer, ref, i);
	if (!cell->exposed || cell->exposed > w->round || cell->exposed_as != ref.buffer)
		return refuse(w, "block %u of rank %d was not exposed in a round before",
			      ref.slot + i, peer);
	if (cell->write_round > w->round)
		return refuse(w, "block %u of rank %d may be written meanwhile", ref.slot + i,
			      peer);
	note_reader(w, peer, cell);
	return await_peer(w, peer) && check_source(w, ref, i, cell, value);
}

/* Has every peer who read the cell ended that round, as far as its owner knows? */
static bool check_readers_of(struct world *w, int32_t reader)
{
	for (; reader >= 0; reader = w->readers[reader].next) {
		const struct reader *r = &w->readers[reader];

		if (w->synced[(size_t)r->owner * (size_t)w->claim->size + (size_t)r->rank] <=
		    r->round)
			return refuse(w, "rank %d may still be reading, of its round %u", r->rank,
				      r->round - 1);
	}
	return true;
}

bool write_own(struct world *w, struct tt_ref ref, uint32_t i, const struct value *value)
{
	struct cell *cell;

	if (!check_ref(w, w->rank, ref, i) || !check_length(w, ref, i, value))
		return false;
	cell = find_cell(w, w->rank, ref, i);
	if (ref.buffer == TT_BUF_SEND)
		return refuse(w, "send block %u is written", ref.slot + i);
	if (cell->exposed && cell->exposed_as == ref.buffer)
		return refuse(w, "an exposed block %u is written again", ref.slot + i);
	if (!check_readers_of(w, cell->readers))
		return false;
	cell->value = value_keep(&w->values, value);
	cell->writer = w->step;
	cell->write_round = w->round + 1;
	cell->exposed = 0;
	return true;
}

bool expose_own(struct world *w, struct tt_ref ref, uint32_t i)
{
	struct cell *cell;

	if (!check_ref(w, w->rank, ref, i))
		return false;
	cell = find_cell(w, w->rank, ref, i);
	if (!cell->value)
		return refuse(w, "block %u is exposed before it was written", ref.slot + i);
	cell->exposed = w->round + 1;
	cell->exposed_as = ref.buffer;
	return true;
}

bool await_peer(struct world *w, int peer)
{
	if (w->round == 0 || peer == w->rank)
		return refuse(w, "awaits rank %d, which has nothing to end", peer);
	if (w->sched[peer].nrounds < w->round)
		return refuse(w, "awaits a round that rank %d does not have", peer);
	w->synced[(size_t)w->rank * (size_t)w->claim->size + (size_t)peer] = w->round + 1;
	learn(w, w->rank, peer);
	return true;
}

void mark_read(struct world *w, int rank, struct tt_ref ref, uint32_t i, uint32_t step)
{
	struct cell *cell = find_cell(w, rank, ref, i);

	if (cell->marked_round == w->round + 1 && cell->marked_by != step)
		step = SEVERAL;
	cell->marked_round = w->round + 1;
	cell->marked_by = step;
}

bool mark_write(struct world *w, int rank, struct tt_ref ref, uint32_t i, uint32_t step)
{
	struct cell *cell = find_cell(w, rank, ref, i);

	if (cell->marked_round == w->round + 1 && cell->marked_by != step)
		return refuse(w, "block %u of buffer %u is read and written at once", ref.slot + i,
			      ref.buffer);
	if (cell->writing_round == w->round + 1)
		return refuse(w, "block %u of buffer %u is written twice at once", ref.slot + i,
			      ref.buffer);
	cell->writing_round = w->round + 1;
	return true;
}

static size_t words(const struct world *w)
{
	return ((size_t)w->claim->size + 63) / 64;
}

void learn(struct world *w, int rank, int peer)
{
	for (size_t i = 0; w->known && i < words(w); i++)
		w->known[(size_t)rank * words(w) + i] |= w->knew[(size_t)peer * words(w) + i];
}

void begin_round(struct world *w)
{
	if (w->known)
		memcpy(w->knew, w->known, (size_t)w->claim->size * words(w) * sizeof(*w->known));
}

static bool check_barrier(struct world *w)
{
	for (w->rank = 0; w->rank < w->claim->size; w->rank++)
		for (int r = 0; r < w->claim->size; r++)
			if (!(w->known[(size_t)w->rank * words(w) + (size_t)r / 64] >> (r % 64) &
			      1))
				return refuse(w, "ends without knowing that rank %d began", r);
	return true;
}

static void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		abort();
	return memory;
}

/* How often a contribution may be combined on its way: docs/algorithms.md, "Error bounds". */
static int height_promised(const struct claim *c)
{
	int *ranks = zeroed((size_t)c->hosts, sizeof(*ranks));
	struct value_way way = { .algorithm = c->algorithm->name,
				 .what = (enum what)c->collective,
				 .ranks = c->size,
				 .hosts = c->hosts };

	for (int r = 0; r < c->size; r++) {
		const int most = ++ranks[c->host[r]];

		way.most = most > way.most ? most : way.most;
	}
	free(ranks);
	return c->algorithm->one_fold ? 1 : value_height(&way);
}

/* What a rank's recv block is to hold: contributions 0 … count - 1, or the input of a rank. */
static bool check_reduced(struct world *w, int block, const struct value *value)
{
	const bool prefix = is_prefix(w);
	const int count = w->claim->collective == TT_SCAN     ? w->rank + 1
			  : w->claim->collective == TT_EXSCAN ? w->rank
							      : w->claim->size;

	if (value->block != block || !value_is_total(&w->values, value, count))
		return refuse(w, "recv block %d ends with %d contributions to block %d, not %d",
			      block, value->count, value->block, count);
	if (value->finals != !prefix)
		return refuse(w, "recv block %d was completed %u times", block, value->finals);
	if (prefix && !value->in_order)
		return refuse(w, "the prefix is not combined in the order of ranks");
	if (value->steps > w->height)
		return refuse(w, "recv block %d is combined in %d steps, %d were promised", block,
			      value->steps, w->height);
	if (w->claim->algorithm->ordered && !value->fold)
		return refuse(w, "recv block %d is not folded in the order of ranks", block);
	return true;
}

static bool check_moved(struct world *w, int block, const struct value *value)
{
	const bool from_root = rule_of(w)->sends == ROOTS;
	const int source = from_root ? w->claim->root : block;
	const int theirs = is_all_to_all(w) ? w->rank : block;

	return (value->count == 1 && value->first == source && value->block == theirs) ||
	       refuse(w, "recv block %d ends with block %d of rank %d", block, value->block,
		      value->first);
}

/* All ranks must hold the same term, or rounding would differ. */
static bool check_terms(struct world *w)
{
	for (int b = 0; b < w->blocks; b++) {
		const struct cell *cell = find_cell(w, 0, tt_out(b), 0);
		const uint64_t term = value_of(&w->values, cell->value).term;

		for (w->rank = 1; w->rank < w->claim->size; w->rank++) {
			cell = find_cell(w, w->rank, tt_out(b), 0);
			if (value_of(&w->values, cell->value).term != term)
				return refuse(w, "block %d is combined unlike that of rank 0", b);
		}
	}
	return true;
}

static bool check_output(struct world *w, int block)
{
	const struct cell *cell = find_cell(w, w->rank, tt_out(block), 0);
	struct value value;

	if (!exists(w, w->rank, TT_BUF_RECV, (uint32_t)block))
		return true;
	if (w->claim->collective == TT_EXSCAN && w->rank == 0)
		return !cell->writer || refuse(w, "an output that is left alone is written");
	if (cell->value == 0)
		return refuse(w, "recv block %d is never written", block);
	value = value_of(&w->values, cell->value);
	return reduces(w) ? check_reduced(w, block, &value) : check_moved(w, block, &value);
}

bool check_outputs(struct world *w)
{
	if (w->claim->collective == TT_BARRIER)
		return check_barrier(w);
	for (w->rank = 0; w->rank < w->claim->size; w->rank++)
		for (int b = 0; b < w->blocks; b++)
			if (!check_output(w, b))
				return false;
	return w->claim->collective != TT_ALL_REDUCE || check_terms(w);
}

static bool build_all(struct world *w)
{
	const struct claim *c = w->claim;

	for (int r = 0; r < c->size; r++) {
		const struct tt_group group = { r,	  c->size,   c->root,	c->host,
						c->hosts, c->domain, c->domains };

		w->rank = r;
		if (tt_sched_build(&w->sched[r], c->algorithm, &group, c->collective))
			return refuse(w, "the schedule is not built: error %d", w->sched[r].error);
		if (w->sched[r].blocks != w->sched[0].blocks)
			return refuse(w, "cuts the vector into %u, rank 0 into %u",
				      w->sched[r].blocks, w->sched[0].blocks);
		w->first_step[r] = (uint32_t)w->steps + 1;
		w->steps += w->sched[r].nsteps;
	}
	w->blocks = rule_of(w)->send == EACH || rule_of(w)->recv == EACH ? c->size
									 : (int)w->sched[0].blocks;
	return true;
}

static void fill_inputs(struct world *w)
{
	for (int r = 0; r < w->claim->size; r++) {
		struct cell *cells = w->cells + w->first_cell[r];
		const size_t count = 2 * (size_t)w->blocks + w->sched[r].scratch_slots;

		for (size_t i = 0; i < count; i++)
			cells[i].readers = -1;
		for (int b = 0; b < w->blocks; b++)
			if (exists(w, r, TT_BUF_SEND, (uint32_t)b))
				find_cell(w, r, tt_in(b), 0)->value = value_input(&w->values, r, b);
	}
}

bool world_init(struct world *w, const struct claim *claim, char *why, size_t capacity)
{
	const size_t size = (size_t)claim->size;
	size_t cells = 0;

	*w = (struct world){ .claim = claim,
			     .why = why,
			     .why_capacity = capacity,
			     .height = height_promised(claim) };
	w->sched = zeroed(size, sizeof(*w->sched));
	w->first_step = zeroed(size, sizeof(*w->first_step));
	w->first_cell = zeroed(size, sizeof(*w->first_cell));
	if (!build_all(w))
		return false;
	for (size_t r = 0; r < size; r++) {
		w->first_cell[r] = cells;
		cells += 2 * (size_t)w->blocks + w->sched[r].scratch_slots;
	}
	w->cells = zeroed(cells, sizeof(*w->cells));
	values_init(&w->values, claim->size, w->blocks);
	fill_inputs(w);
	if (claim->algorithm->shared)
		w->synced = zeroed(size * size, sizeof(*w->synced));
	if (claim->collective != TT_BARRIER)
		return true;
	w->known = zeroed(size * words(w), sizeof(*w->known));
	w->knew = zeroed(size * words(w), sizeof(*w->knew));
	for (size_t r = 0; r < size; r++)
		w->known[r * words(w) + r / 64] = (uint64_t)1 << (r % 64);
	return true;
}

void world_fini(struct world *w)
{
	for (int r = 0; r < w->claim->size; r++)
		tt_sched_fini(&w->sched[r]);
	free(w->sched);
	free(w->first_step);
	free(w->first_cell);
	free(w->cells);
	values_fini(&w->values);
	free(w->readers);
	free(w->synced);
	free(w->known);
	free(w->knew);
}
