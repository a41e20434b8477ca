/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a call means for a rank: its blocks, what it sends, and what must come of it. */
#include "call.h"

#include <string.h>

#include "rules.h"
#include "values.h"

/* ---- who has a part in it */

const char *call_name(enum what what)
{
	return rules[what].name;
}

bool call_combines(enum what what)
{
	return rules[what].combines;
}

bool call_is_defined(enum what what, tutti_dtype_t dtype, int combine)
{
	const bool prefix = what == SCAN || what == EXSCAN;

	if (!rules[what].combines)
		return combine == COMBINE_NONE;
	return combine >= 0 && combine_is_defined(combine, dtype) &&
	       !(prefix && combine == TUTTI_AVG);
}

static bool has(const struct call *c, enum whose whose)
{
	return whose == ALLS || (whose == ROOTS && c->rank == c->root);
}

bool call_sends(const struct call *c)
{
	return has(c, rules[c->what].sends);
}

bool call_receives(const struct call *c)
{
	return c->what == MESSAGE ? c->rank == c->to : has(c, rules[c->what].receives);
}

bool call_concerns(const struct call *c)
{
	return c->what != MESSAGE || call_sends(c) || call_receives(c);
}

bool call_may_be_in_place(const struct call *c)
{
	return has(c, rules[c->what].in_place);
}

size_t call_sent(const struct call *c, int to)
{
	return c->counts[c->rank][to];
}

size_t call_received(const struct call *c, int from)
{
	return c->counts[from][c->rank];
}

/* ---- described */

void call_init(struct call *c, enum what what, int rank, int size, tutti_dtype_t dtype, int combine,
	       size_t count)
{
	memset(c, 0, sizeof(*c));
	c->what = what;
	c->rank = rank;
	c->size = size;
	c->to = size > 1;
	c->dtype = dtype;
	c->combine = rules[what].combines ? combine : COMBINE_NONE;
	c->op = c->combine < TUTTI_OP_COUNT ? c->combine : -1;
	c->count = count;
	for (int from = 0; from < size; from++)
		for (int to = 0; to < size; to++)
			c->counts[from][to] = count;
}

/* Both directions of a pair are alike in all_to_all_v. */
void call_set_uneven(struct call *c)
{
	for (int from = 0; from < c->size && rules[c->what].tables; from++)
		for (int to = 0; to < c->size; to++) {
			const int which = c->what == ALL_TO_ALL_V      ? (from + to) % c->size
					  : rules[c->what].send == ONE ? from
								       : to;

			c->counts[from][to] =
				which % 3 == 1 ? 0 : c->count / (size_t)(which + 1) + (size_t)which;
		}
}

typedef size_t length_fn(const struct call *c, int rank);

static void lay_out(const struct call *c, struct layout *layout, length_fn *length, size_t gap,
		    bool backwards)
{
	layout->span = gap;
	for (int i = 0; i < c->size; i++) {
		const int rank = backwards ? c->size - 1 - i : i;

		layout->at[rank] = layout->span + gap * (size_t)(i % 3);
		layout->span = layout->at[rank] + length(c, rank);
	}
}

void call_spread(struct call *c, size_t gap, bool backwards)
{
	const bool takes = rules[c->what].tables && c->what != REDUCE_SCATTER_V;

	c->send_layout.given = takes && rules[c->what].send == EACH;
	c->recv_layout.given = takes && rules[c->what].recv == EACH;
	if (c->send_layout.given)
		lay_out(c, &c->send_layout, call_sent, gap, backwards);
	if (c->recv_layout.given)
		lay_out(c, &c->recv_layout, call_received, gap, backwards);
}

const char *call_any_algorithm(struct random *random)
{
	int n = 0;

	while (tutti_algorithm_name(n))
		n++;
	return tutti_algorithm_name((int)random_below(random, (uint64_t)n));
}

/* ---- what follows */

static void set_contents(struct call *c)
{
	const size_t size = (size_t)c->size;
	size_t longest = 0;

	for (size_t i = 0; i < size * size; i++)
		if (c->counts[i / size][i % size] > longest)
			longest = c->counts[i / size][i % size];
	c->stride = longest < PERIOD ? longest : PERIOD + 108;
	c->contents = (struct contents){ .dtype = c->dtype,
					 .combine = c->combine,
					 .size = c->size,
					 .rounds = (c->rough &&
						    combine_may_round(c->combine, c->dtype)) ||
						   combine_must_round(c->combine, c->dtype),
					 .in_order = c->in_order,
					 .salt = c->salt };
	c->contents.n = longest + (rules[c->what].send == EACH ? (size - 1) * c->stride : 0);
	if (c->contents.n > PERIOD)
		c->contents.n = PERIOD;
	if (c->contents.n == 0)
		c->contents.n = 1;
}

static void set_layout(const struct call *c, struct layout *layout, enum shape shape,
		       length_fn *length)
{
	if (shape == ONE)
		layout->span = length(c, c->rank);
	else if (shape == EACH && !layout->given)
		lay_out(c, layout, length, 0, false);
}

/* Keeps the order of offsets. */
static void add_piece(struct pieces *pieces, const struct piece *piece)
{
	int i = pieces->n++;

	for (; i > 0 && pieces->piece[i - 1].at > piece->at; i--)
		pieces->piece[i] = pieces->piece[i - 1];
	pieces->piece[i] = *piece;
}

/* The last rank whose contribution is in this one's result; -1: there is no result. */
static int last_combined(const struct call *c)
{
	return c->what == SCAN ? c->rank : c->what == EXSCAN ? c->rank - 1 : c->size - 1;
}

static void place_sent(struct call *c)
{
	for (int to = 0; to < c->size; to++) {
		const bool each = rules[c->what].send == EACH;
		const struct piece piece = { c->send_layout.at[to],
					     call_sent(c, each ? to : c->rank), &c->own,
					     each ? (size_t)to * c->stride : 0, c->rank };

		if (each || to == 0)
			add_piece(&c->sent, &piece);
	}
}

static void place_received(struct call *c)
{
	const size_t start = rules[c->what].send == EACH ? (size_t)c->rank * c->stride : 0;

	if (c->what == EXSCAN && c->rank == 0)
		return;
	for (int from = 0; from < c->size; from++) {
		const bool each = rules[c->what].recv == EACH;
		const int rank = each ? from : c->root;
		const struct table *table = rules[c->what].combines ? &c->combined : &c->from[rank];
		const struct piece piece = { c->recv_layout.at[from],
					     call_received(c, each ? from : c->rank), table, start,
					     rules[c->what].combines ? -1 : rank };

		if (each || from == 0)
			add_piece(&c->received, &piece);
	}
}

/* ---- in place: one buffer, that of the blocks if there is one */

/* What `send` holds after the call: the result, and of the input what it does not replace. */
static void merge_pieces(struct call *c)
{
	const struct pieces sent = c->sent;

	c->left = c->received;
	for (int i = 0; i < sent.n; i++) {
		bool replaced = false;

		for (int k = 0; k < c->received.n; k++)
			replaced |= sent.piece[i].at == c->received.piece[k].at &&
				    c->received.piece[k].n > 0;
		if (!replaced && sent.piece[i].n > 0)
			add_piece(&c->left, &sent.piece[i]);
	}
}

/* Elements before what is sent, and before what is received. */
static void find_own_block(const struct call *c, size_t *send_at, size_t *recv_at)
{
	const struct rule *rule = &rules[c->what];

	*send_at = *recv_at = 0;
	if (c->in_place && rule->send == EACH && rule->recv == ONE)
		*recv_at = c->send_layout.at[c->rank];
	if (c->in_place && rule->send == ONE && rule->recv == EACH)
		*send_at = c->recv_layout.at[c->rank];
}

static void share_buffer(struct call *c)
{
	size_t send_at, recv_at;

	find_own_block(c, &send_at, &recv_at);
	for (int i = 0; i < c->sent.n; i++)
		c->sent.piece[i].at += send_at;
	for (int i = 0; i < c->received.n; i++)
		c->received.piece[i].at += recv_at;
	merge_pieces(c);
}

void call_lay_out(struct call *c)
{
	const size_t element = tutti_dtype_size(c->dtype);

	c->in_place = c->in_place && call_may_be_in_place(c);
	set_contents(c);
	set_layout(c, &c->send_layout, rules[c->what].send, call_sent);
	set_layout(c, &c->recv_layout, rules[c->what].recv, call_received);
	c->way.what = c->what;
	c->way.dtype = c->dtype;
	c->way.op = c->combine;
	c->way.ranks = last_combined(c) + 1;
	if (call_sends(c))
		place_sent(c);
	if (call_receives(c))
		place_received(c);
	c->left = c->sent;
	size_t send = call_sends(c) ? c->send_layout.span : 0,
	       recv = call_receives(c) ? c->recv_layout.span : 0;
	if (c->in_place) {
		share_buffer(c);
		send = send > recv ? send : recv;
		recv = 0;
	}
	c->send = (struct buffer){ .bytes = send * element, .element = element };
	c->recv = (struct buffer){ .bytes = recv * element, .element = element };
}

/* ---- buffers */

#define FRINGE 64 /* guard bytes before and behind a buffer */

static bool take(struct buffer *b, bool needed)
{
	b->before = b->after = FRINGE;
	return !needed || buffer_take(b);
}

bool call_take_memory(struct call *c)
{
	return take(&c->send, c->in_place || call_sends(c)) &&
	       take(&c->recv, !c->in_place && call_receives(c));
}

/* What is passed: the buffers, which begin there. */
static void pass(struct call *c, unsigned char *send, unsigned char *recv)
{
	const size_t element = c->send.element;
	size_t send_at, recv_at;

	find_own_block(c, &send_at, &recv_at);
	c->send_at = send ? send + send_at * element : NULL;
	c->recv_at = recv ? recv + recv_at * element : NULL;
}

void call_move(struct call *c, void *send, void *recv)
{
	unsigned char *const first = send, *const second = recv;

	pass(c, c->send.memory ? first + c->send.before : NULL,
	     c->in_place      ? first + c->send.before
	     : c->recv.memory ? second + c->recv.before
			      : NULL);
}

void call_fill(struct call *c)
{
	static const struct pieces none;

	if (c->send.memory && call_sends(c) && !c->own.bytes)
		c->own = contents_of(&c->contents, c->rank);
	if (c->send.memory)
		buffer_fill(&c->send, &c->sent);
	if (c->recv.memory)
		buffer_fill(&c->recv, &none);
	pass(c, c->send.data, c->in_place ? c->send.data : c->recv.data);
}

void call_finish(struct call *c)
{
	buffer_finish(&c->send);
	buffer_finish(&c->recv);
	table_finish(&c->own);
	table_finish(&c->combined);
	for (int rank = 0; rank < c->size; rank++)
		table_finish(&c->from[rank]);
	c->expected = false;
}

void call_spoil(struct call *c)
{
	if (c->send.memory && !c->in_place)
		buffer_spoil(&c->send);
}

/* ---- the result */

static void expect(struct call *c)
{
	const struct rule *rule = &rules[c->what];
	const int last = last_combined(c);

	if (c->expected || !call_receives(c))
		return;
	c->expected = true;
	if (rule->combines && last >= 0) {
		c->combined = contents_combined(&c->contents, last);
		contents_allow(&c->way, &c->combined);
	}
	for (int rank = 0; rank < c->size && !rule->combines; rank++)
		if (rule->recv == EACH || (rule->recv == ONE && rank == c->root))
			c->from[rank] = contents_of(&c->contents, rank);
}

bool call_check(struct call *c, struct wrong *wrong)
{
	expect(c);
	return (!c->recv.memory || buffer_check(&c->recv, &c->received, wrong)) &&
	       (!c->send.memory || buffer_check(&c->send, &c->left, wrong));
}

size_t call_elements(const struct call *c)
{
	size_t elements = 0;

	for (int i = 0; i < c->received.n; i++)
		elements += c->received.piece[i].n;
	return elements;
}
