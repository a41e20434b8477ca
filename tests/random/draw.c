/* SPDX-License-Identifier: BSD-3-Clause */
#include "draw.h"

#include "calls/rules.h"

#define NOWHERE ((void *)64) /* for a pointer that does not matter */
#define PAGE	4096u

/* ---- what all ranks draw alike */

/* Counts of several blocks, `most` elements at most together: alike, skewed, all of one, none here
 * and there. */
static void draw_counts(struct random *all, int size, size_t most, size_t counts[])
{
	const uint64_t way = random_below(all, 5), chosen = random_below(all, (uint64_t)size);
	const size_t total = random_any_size(all, most);

	for (int i = 0; i < size; i++)
		switch (way) {
		case 0: counts[i] = total / (size_t)size; break;
		case 1: counts[i] = (uint64_t)i == chosen ? total : 0; break;
		case 2: counts[i] = total >> ((uint64_t)i + chosen) % (uint64_t)size >> 1; break;
		case 3: counts[i] = random_below(all, total / (size_t)size + 1); break;
		default:
			counts[i] = random_one_in(all, 2)
					    ? 0
					    : random_any_size(all, total / (size_t)size);
			break;
		}
}

static void draw_tables(struct call *c, struct random *all, size_t most)
{
	size_t counts[CALL_RANKS];
	const bool by_source = rules[c->what].send == ONE;

	draw_counts(all, c->size, most, counts);
	for (int from = 0; from < c->size; from++) {
		if (c->what == ALL_TO_ALL_V)
			draw_counts(all, c->size, most / (size_t)c->size, counts);
		for (int to = 0; to < c->size; to++)
			c->counts[from][to] = counts[by_source ? from : to];
	}
}

/* Of all magnitudes, and often what fills pages. */
static size_t draw_count(struct random *all, size_t most, size_t element)
{
	const size_t count = random_any_size(all, most), page = 4096 / element;

	return random_one_in(all, 6) && most >= page ? (count + page - 1) / page * page % (most + 1)
						     : count;
}

static void draw_lengths(struct call *c, struct random *all, size_t bytes)
{
	const size_t element = tutti_dtype_size(c->dtype), size = (size_t)c->size;
	const bool blocks = rules[c->what].send == EACH || rules[c->what].recv == EACH;

	c->count = draw_count(all, bytes / element / (blocks ? size : 1), element);
	for (size_t i = 0; i < size * size; i++)
		c->counts[i / size][i % size] = c->count;
	if (rules[c->what].tables)
		draw_tables(c, all, bytes / element);
}

static void draw_combination(struct call *c, struct random *all)
{
	do
		c->combine = (int)random_below(all, COMBINE_KINDS);
	while (!call_is_defined(c->what, c->dtype, c->combine));
	c->op = -1;
}

static enum what draw_what(struct random *all, const struct situation *in)
{
	enum what what;

	do
		what = (enum what)random_below(all, WHATS);
	while (what == MESSAGE && in->size == 1 && !in->grouped);
	return what;
}

void draw_call(struct call *c, const struct situation *in, struct random *all,
	       const struct call *like)
{
	const enum what what = draw_what(all, in);
	const tutti_dtype_t dtype = (tutti_dtype_t)random_below(all, TUTTI_DTYPE_COUNT);

	if (like) {
		call_init(c, ALL_REDUCE, in->rank, in->size, like->dtype, like->combine, 0);
	} else {
		call_init(c, what, in->rank, in->size, dtype, COMBINE_NONE, 0);
		if (rules[what].combines)
			draw_combination(c, all);
	}
	c->root = (int)random_below(all, (uint64_t)c->size);
	do
		c->to = (int)random_below(all, (uint64_t)c->size);
	while (c->to == c->root && !in->grouped && c->what == MESSAGE);
	draw_lengths(c, all, like ? 5000 : in->bytes);
	c->salt = random_next(all);
	c->rough = random_one_in(all, 4);
	c->in_order = in->reproducible;
	c->way.hosts = in->hosts;
	c->way.most = in->fullest;
}

/* ---- what is each rank's own */

static void draw_layouts(struct call *c, struct random *own)
{
	const size_t gaps = random_one_in(own, 8) ? 3000 : 20;

	if (!random_one_in(own, 3)) /* otherwise without displacements */
		call_spread(c, random_below(own, gaps), random_one_in(own, 2));
}

/* Half of the buffers begin anywhere, also at odd addresses; of memory that peers can map some fill
 * whole pages, or all of an allocation: they may be written to by peers. */
static bool draw_memory(struct buffer *b, struct random *own)
{
	b->mapped = random_one_in(own, 2);
	b->before = 64 + (random_one_in(own, 2) ? random_below(own, 64) : 0);
	b->after = 64 + random_below(own, 64);
	b->salt = (unsigned)random_below(own, 256);
	if (b->mapped && random_one_in(own, 2)) {
		b->before = random_one_in(own, 2) ? 0 : PAGE;
		b->after = random_one_in(own, 2) ? 0 : PAGE;
	}
	if (buffer_size(b) == 0)
		b->after = PAGE;
	return buffer_take(b);
}

/* Instead of a buffer that does not matter. */
static void *nothing(struct random *own)
{
	return random_one_in(own, 2) ? NOWHERE : NULL;
}

static void draw_pointers(struct call *c, struct random *own)
{
	if (!call_sends(c))
		c->send_at = nothing(own);
	if (!call_receives(c))
		c->recv_at = nothing(own);
	if (c->send_layout.span == 0 && random_one_in(own, 2))
		c->send_at = NULL;
	if (c->recv_layout.span == 0 && random_one_in(own, 2))
		c->recv_at = NULL;
}

bool draw_buffers(struct call *c, struct random *own)
{
	c->in_place = call_may_be_in_place(c) && random_one_in(own, 3);
	c->turned = random_one_in(own, 2);
	draw_layouts(c, own);
	call_lay_out(c);
	if ((c->in_place || call_sends(c)) && !draw_memory(&c->send, own))
		return false;
	if (!c->in_place && call_receives(c) && !draw_memory(&c->recv, own))
		return false;
	call_fill(c);
	if (!c->in_place)
		draw_pointers(c, own);
	return true;
}
