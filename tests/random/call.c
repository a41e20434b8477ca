/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include <stdint.h>
#include <string.h>

#include "values.h"

#define NOWHERE ((void *)64) /* for a pointer that does not matter */

enum shape {
	NOTHING,
	ONE,  /* a block */
	EACH, /* a block of or for each rank */
};

enum whose {
	NOBODYS,
	ROOTS,
	ALLS,
};

static const struct {
	const char *name;
	enum shape send, recv;
	enum whose sends, receives; /* for whom the buffer matters */
	enum whose in_place;	    /* who may call it so */
	bool combines, tables;
} kinds[KINDS] = {
	[BROADCAST] = { "broadcast", ONE, ONE, ROOTS, ALLS, ROOTS, false, false },
	[REDUCE] = { "reduce", ONE, ONE, ALLS, ROOTS, ROOTS, true, false },
	[ALL_REDUCE] = { "all_reduce", ONE, ONE, ALLS, ALLS, ALLS, true, false },
	[REDUCE_SCATTER] = { "reduce_scatter", EACH, ONE, ALLS, ALLS, ALLS, true, false },
	[ALL_GATHER] = { "all_gather", ONE, EACH, ALLS, ALLS, ALLS, false, false },
	[GATHER] = { "gather", ONE, EACH, ALLS, ROOTS, ROOTS, false, false },
	[SCATTER] = { "scatter", EACH, ONE, ROOTS, ALLS, ROOTS, false, false },
	[ALL_TO_ALL] = { "all_to_all", EACH, EACH, ALLS, ALLS, ALLS, false, false },
	[REDUCE_SCATTER_V] = { "reduce_scatter_v", EACH, ONE, ALLS, ALLS, ALLS, true, true },
	[ALL_GATHER_V] = { "all_gather_v", ONE, EACH, ALLS, ALLS, ALLS, false, true },
	[GATHER_V] = { "gather_v", ONE, EACH, ALLS, ROOTS, ROOTS, false, true },
	[SCATTER_V] = { "scatter_v", EACH, ONE, ROOTS, ALLS, ROOTS, false, true },
	[ALL_TO_ALL_V] = { "all_to_all_v", EACH, EACH, ALLS, ALLS, NOBODYS, false, true },
	[SCAN] = { "scan", ONE, ONE, ALLS, ALLS, ALLS, true, false },
	[EXSCAN] = { "exscan", ONE, ONE, ALLS, ALLS, ALLS, true, false },
	[BARRIER] = { "barrier", NOTHING, NOTHING, NOBODYS, NOBODYS, NOBODYS, false, false },
	[MESSAGE] = { "message", ONE, ONE, ROOTS, ROOTS, NOBODYS, false, false },
};

const char *kind_name(enum kind kind)
{
	return kinds[kind].name;
}

bool kind_combines(enum kind kind)
{
	return kinds[kind].combines;
}

static bool has(const struct call *c, enum whose whose)
{
	return whose == ALLS || (whose == ROOTS && c->rank == c->root);
}

static bool sends(const struct call *c)
{
	return has(c, kinds[c->kind].sends);
}

static bool receives(const struct call *c)
{
	return c->kind == MESSAGE ? c->rank == c->to : has(c, kinds[c->kind].receives);
}

bool call_concerns(const struct call *c)
{
	return c->kind != MESSAGE || sends(c) || receives(c);
}

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
	size_t counts[RANKS_MAX];
	const bool by_source = kinds[c->kind].send == ONE;

	draw_counts(all, c->size, most, counts);
	for (int from = 0; from < c->size; from++) {
		if (c->kind == ALL_TO_ALL_V)
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
	const bool blocks = kinds[c->kind].send == EACH || kinds[c->kind].recv == EACH;
	size_t longest = 0;

	c->count = draw_count(all, bytes / element / (blocks ? size : 1), element);
	for (size_t i = 0; i < size * size; i++)
		c->counts[i / size][i % size] = c->count;
	if (kinds[c->kind].tables)
		draw_tables(c, all, bytes / element);
	for (size_t i = 0; i < size * size; i++)
		if (c->counts[i / size][i % size] > longest)
			longest = c->counts[i / size][i % size];
	c->stride = longest < PERIOD ? longest : PERIOD + 108;
	c->contents.n = longest + (kinds[c->kind].send == EACH ? (size - 1) * c->stride : 0);
	if (c->contents.n > PERIOD)
		c->contents.n = PERIOD;
	if (c->contents.n == 0)
		c->contents.n = 1;
}

static void draw_combination(struct call *c, struct random *all)
{
	const bool scans = c->kind == SCAN || c->kind == EXSCAN;

	do
		c->combine = (int)random_below(all, COMBINE_KINDS);
	while (!combine_is_defined(c->combine, c->dtype) || (scans && c->combine == TUTTI_AVG));
}

static bool may_round(const struct call *c)
{
	const bool adds =
		c->combine <= TUTTI_PROD || c->combine == TUTTI_AVG || c->combine == COMBINE_PREMUL;

	return value_is_float(c->dtype) && adds;
}

/* Averages of 16- and 8-bit floats may be rounded on the way whatever the numbers. */
static bool must_round(const struct call *c)
{
	return c->combine == TUTTI_AVG && value_is_float(c->dtype) &&
	       tutti_dtype_size(c->dtype) <= 2;
}

static enum value_reduction reduction_of(enum kind kind)
{
	switch (kind) {
	case REDUCE: return VALUE_REDUCE;
	case REDUCE_SCATTER:
	case REDUCE_SCATTER_V: return VALUE_REDUCE_SCATTER;
	case SCAN: return VALUE_SCAN;
	case EXSCAN: return VALUE_EXSCAN;
	default: return VALUE_ALL_REDUCE;
	}
}

static void set_contents(struct call *c, const struct situation *in, struct random *all)
{
	c->contents.salt = random_next(all);
	c->contents.dtype = c->dtype;
	c->contents.combine = c->combine;
	c->contents.size = c->size;
	c->contents.rounds = (random_one_in(all, 4) && may_round(c)) || must_round(c);
	c->contents.in_order = in->reproducible;
	c->way = (struct value_way){ .reduction = reduction_of(c->kind),
				     .dtype = c->dtype,
				     .op = c->combine,
				     .ranks = c->size,
				     .hosts = in->hosts,
				     .most = in->fullest };
}

void call_draw(struct call *c, const struct situation *in, struct random *all,
	       const struct call *like)
{
	memset(c, 0, sizeof(*c));
	c->rank = in->rank;
	c->size = in->size;
	do
		c->kind = (enum kind)random_below(all, KINDS);
	while (c->kind == MESSAGE && c->size == 1 && !in->grouped);
	c->dtype = (tutti_dtype_t)random_below(all, TUTTI_DTYPE_COUNT);
	c->combine = COMBINE_NONE;
	if (like) {
		c->kind = ALL_REDUCE;
		c->dtype = like->dtype;
		c->combine = like->combine;
	} else if (kinds[c->kind].combines) {
		draw_combination(c, all);
	}
	c->root = (int)random_below(all, (uint64_t)c->size);
	do
		c->to = (int)random_below(all, (uint64_t)c->size);
	while (c->to == c->root && !in->grouped && c->kind == MESSAGE);
	draw_lengths(c, all, like ? 5000 : in->bytes);
	set_contents(c, in, all);
}

/* ---- where blocks are */

static size_t block_sent(const struct call *c, int to)
{
	return c->counts[c->rank][to];
}

static size_t block_received(const struct call *c, int from)
{
	return c->counts[from][c->rank];
}

static void lay_out(struct layout *layout, const struct call *c,
		    size_t (*length)(const struct call *c, int rank), struct random *own,
		    bool may_be_given)
{
	const uint64_t way = may_be_given ? random_below(own, 3) : 0;
	const int first = way == 2 ? (int)random_below(own, (uint64_t)c->size) : 0;
	const size_t gaps = random_one_in(own, 8) ? 3000 : 20;

	layout->given = way > 0;
	for (int i = 0; i < c->size; i++) {
		const int rank = way == 2 && first % 2 ? (first + c->size - i) % c->size
						       : (first + i) % c->size;

		layout->span += way == 2 ? random_below(own, gaps) : 0;
		layout->at[rank] = layout->span;
		layout->span += length(c, rank);
	}
}

static void draw_layouts(struct call *c, struct random *own)
{
	const bool given = kinds[c->kind].tables && c->kind != REDUCE_SCATTER_V;

	if (kinds[c->kind].send == EACH)
		lay_out(&c->send_layout, c, block_sent, own, given);
	else if (kinds[c->kind].send == ONE)
		c->send_layout.span = block_sent(c, c->rank);
	if (kinds[c->kind].recv == EACH)
		lay_out(&c->recv_layout, c, block_received, own, given);
	else if (kinds[c->kind].recv == ONE)
		c->recv_layout.span = block_received(c, c->rank);
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
	return c->kind == SCAN ? c->rank : c->kind == EXSCAN ? c->rank - 1 : c->size - 1;
}

static void make_tables(struct call *c)
{
	const bool one = kinds[c->kind].recv == ONE && !kinds[c->kind].combines;

	if (sends(c))
		c->own = contents_of(&c->contents, c->rank);
	if (!receives(c))
		return;
	if (kinds[c->kind].combines && last_combined(c) >= 0)
		c->combined = contents_combined(&c->contents, last_combined(c));
	for (int rank = 0; rank < c->size; rank++)
		if (kinds[c->kind].recv == EACH || (one && rank == c->root))
			c->from[rank] = contents_of(&c->contents, rank);
}

void call_settle(struct call *c, const char *algorithm)
{
	c->way.algorithm = algorithm;
	c->way.ranks = last_combined(c) + 1;
	contents_allow(&c->way, &c->combined);
}

static void place_sent(struct call *c)
{
	for (int to = 0; to < c->size; to++) {
		const bool each = kinds[c->kind].send == EACH;
		const struct piece piece = { c->send_layout.at[to],
					     block_sent(c, each ? to : c->rank), &c->own,
					     each ? (size_t)to * c->stride : 0, c->rank };

		if (each || to == 0)
			add_piece(&c->sent, &piece);
	}
}

static void place_received(struct call *c)
{
	const size_t start = kinds[c->kind].send == EACH ? (size_t)c->rank * c->stride : 0;

	if (c->kind == EXSCAN && c->rank == 0)
		return;
	for (int from = 0; from < c->size; from++) {
		const bool each = kinds[c->kind].recv == EACH;
		const int rank = each ? from : c->root;
		const struct table *table = kinds[c->kind].combines ? &c->combined : &c->from[rank];
		const struct piece piece = { c->recv_layout.at[from],
					     block_received(c, each ? from : c->rank), table, start,
					     kinds[c->kind].combines ? -1 : rank };

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

static void share_buffer(struct call *c)
{
	const size_t element = tutti_dtype_size(c->dtype);
	size_t send_at = 0, recv_at = 0;

	if (kinds[c->kind].send == EACH && kinds[c->kind].recv == ONE)
		recv_at = c->send_layout.at[c->rank];
	if (kinds[c->kind].send == ONE && kinds[c->kind].recv == EACH)
		send_at = c->recv_layout.at[c->rank];
	for (int i = 0; i < c->sent.n; i++)
		c->sent.piece[i].at += send_at;
	for (int i = 0; i < c->received.n; i++)
		c->received.piece[i].at += recv_at;
	merge_pieces(c);
	c->send_at = c->send.data + send_at * element;
	c->recv_at = c->send.data + recv_at * element;
}

/* ---- buffers */

/* Instead of a buffer that does not matter. */
static void *nothing(struct random *own)
{
	return random_one_in(own, 2) ? NOWHERE : NULL;
}

static bool make_shared(struct call *c, struct random *own)
{
	const size_t span = c->send_layout.span > c->recv_layout.span ? c->send_layout.span
								      : c->recv_layout.span;

	if (!buffer_make(&c->send, span * tutti_dtype_size(c->dtype), tutti_dtype_size(c->dtype),
			 own))
		return false;
	share_buffer(c);
	return true;
}

static bool make_apart(struct call *c, struct random *own)
{
	const size_t element = tutti_dtype_size(c->dtype);

	if (sends(c) && !buffer_make(&c->send, c->send_layout.span * element, element, own))
		return false;
	if (receives(c) && !buffer_make(&c->recv, c->recv_layout.span * element, element, own))
		return false;
	c->send_at = sends(c) ? c->send.data : nothing(own);
	c->recv_at = receives(c) ? c->recv.data : nothing(own);
	if (c->send_layout.span == 0 && random_one_in(own, 2))
		c->send_at = NULL;
	if (c->recv_layout.span == 0 && random_one_in(own, 2))
		c->recv_at = NULL;
	c->left = c->sent;
	return true;
}

bool call_prepare(struct call *c, struct random *own)
{
	static const struct pieces none;

	c->in_place = has(c, kinds[c->kind].in_place) && random_one_in(own, 3);
	c->turned = random_one_in(own, 2);
	draw_layouts(c, own);
	make_tables(c);
	if (sends(c))
		place_sent(c);
	if (receives(c))
		place_received(c);
	if (!(c->in_place ? make_shared : make_apart)(c, own))
		return false;
	if (c->send.memory)
		buffer_fill(&c->send, &c->sent);
	if (c->recv.memory)
		buffer_fill(&c->recv, &none);
	return true;
}

void call_finish(struct call *c)
{
	buffer_finish(&c->send);
	buffer_finish(&c->recv);
	table_finish(&c->own);
	table_finish(&c->combined);
	for (int rank = 0; rank < c->size; rank++)
		table_finish(&c->from[rank]);
}

size_t call_elements(const struct call *c)
{
	size_t elements = 0;

	for (int i = 0; i < c->received.n; i++)
		elements += c->received.piece[i].n;
	return elements;
}

bool call_check(const struct call *c, struct wrong *wrong, const struct buffer **where)
{
	*where = &c->recv;
	if (c->recv.memory && !buffer_check(&c->recv, &c->received, wrong))
		return false;
	*where = &c->send;
	return !c->send.memory || buffer_check(&c->send, &c->left, wrong);
}

void call_spoil(struct call *c)
{
	if (c->send.memory && !c->in_place)
		buffer_spoil(&c->send);
}

/* ---- the call itself */

/* Tables as they are passed: they are the caller's again when the call returns. */
struct tables {
	size_t sent[RANKS_MAX], received[RANKS_MAX], send_displs[RANKS_MAX], recv_displs[RANKS_MAX];
};

static struct tables tables_of(const struct call *c)
{
	struct tables t;

	memset(&t, 0xff, sizeof(t));
	for (int rank = 0; rank < c->size; rank++) {
		t.sent[rank] = block_sent(c, rank);
		t.received[rank] = block_received(c, rank);
	}
	memcpy(t.send_displs, c->send_layout.at, sizeof(t.send_displs));
	memcpy(t.recv_displs, c->recv_layout.at, sizeof(t.recv_displs));
	return t;
}

static tutti_result_t post_v(tutti_comm_t comm, const struct call *c, struct tables *t,
			     tutti_request_t *request)
{
	const size_t *send_displs = c->send_layout.given ? t->send_displs : NULL;
	const size_t *recv_displs = c->recv_layout.given ? t->recv_displs : NULL;
	const bool is_root = c->rank == c->root;

	switch (c->kind) {
	case REDUCE_SCATTER_V:
		return tutti_reduce_scatter_v(comm, c->send_at, c->recv_at, t->sent, c->dtype,
					      c->op, request);
	case ALL_GATHER_V:
		return tutti_all_gather_v(comm, c->send_at, c->recv_at, t->received, recv_displs,
					  c->dtype, request);
	case GATHER_V:
		return tutti_gather_v(comm, c->send_at, block_sent(c, c->rank), c->recv_at,
				      is_root ? t->received : NOWHERE,
				      is_root ? recv_displs : NOWHERE, c->dtype, c->root, request);
	case SCATTER_V:
		return tutti_scatter_v(comm, c->send_at, is_root ? t->sent : NOWHERE,
				       is_root ? send_displs : NOWHERE, c->recv_at,
				       block_received(c, c->rank), c->dtype, c->root, request);
	default:
		return tutti_all_to_all_v(comm, c->send_at, t->sent, send_displs, c->recv_at,
					  t->received, recv_displs, c->dtype, request);
	}
}

static tutti_result_t post_send(tutti_comm_t comm, const struct call *c, tutti_request_t *request)
{
	return c->rank == c->root ? tutti_send(comm, c->send_at, c->count, c->dtype, c->to, request)
				  : TUTTI_OK;
}

static tutti_result_t post_receive(tutti_comm_t comm, const struct call *c,
				   tutti_request_t *request)
{
	return c->rank == c->to ? tutti_recv(comm, c->recv_at, c->count, c->dtype, c->root, request)
				: TUTTI_OK;
}

/* To itself it is in a group, where `request` is NULL. */
static tutti_result_t post_message(tutti_comm_t comm, const struct call *c,
				   tutti_request_t *request)
{
	const tutti_result_t result = (c->turned ? post_receive : post_send)(comm, c, request);

	return result ? result : (c->turned ? post_send : post_receive)(comm, c, request);
}

tutti_result_t call_post(tutti_comm_t comm, struct call *c, tutti_request_t *request)
{
	struct tables tables = tables_of(c);
	tutti_result_t result;

	switch (c->kind) {
	case BROADCAST:
		return tutti_broadcast(comm, c->send_at, c->recv_at, c->count, c->dtype, c->root,
				       request);
	case REDUCE:
		return tutti_reduce(comm, c->send_at, c->recv_at, c->count, c->dtype, c->op,
				    c->root, request);
	case ALL_REDUCE:
		return tutti_all_reduce(comm, c->send_at, c->recv_at, c->count, c->dtype, c->op,
					request);
	case REDUCE_SCATTER:
		return tutti_reduce_scatter(comm, c->send_at, c->recv_at, c->count, c->dtype, c->op,
					    request);
	case ALL_GATHER:
		return tutti_all_gather(comm, c->send_at, c->recv_at, c->count, c->dtype, request);
	case GATHER:
		return tutti_gather(comm, c->send_at, c->recv_at, c->count, c->dtype, c->root,
				    request);
	case SCATTER:
		return tutti_scatter(comm, c->send_at, c->recv_at, c->count, c->dtype, c->root,
				     request);
	case ALL_TO_ALL:
		return tutti_all_to_all(comm, c->send_at, c->recv_at, c->count, c->dtype, request);
	case SCAN:
		return tutti_scan(comm, c->send_at, c->recv_at, c->count, c->dtype, c->op, request);
	case EXSCAN:
		return tutti_exscan(comm, c->send_at, c->recv_at, c->count, c->dtype, c->op,
				    request);
	case BARRIER: return tutti_barrier(comm, request);
	case MESSAGE: return post_message(comm, c, request);
	default: result = post_v(comm, c, &tables, request);
	}
	memset(&tables, 0xff, sizeof(tables));
	__asm__ volatile("" : : "r"(&tables) : "memory"); /* the compiler may not leave it out */
	return result;
}

/* ---- in words */

static void describe_buffer(const char *name, const struct buffer *b, const void *at, FILE *out)
{
	fprintf(out, "    %s %p", name, at);
	if (b->memory)
		fprintf(out, ": %zu bytes, %zu behind a multiple of 64, %s", b->bytes,
			(size_t)((uintptr_t)at % 64),
			b->mapped ? "of tutti_mem_alloc()" : "of malloc()");
	fputc('\n', out);
}

static void describe_blocks(const char *name, const struct call *c,
			    size_t (*length)(const struct call *c, int rank),
			    const struct layout *layout, FILE *out)
{
	fprintf(out, "    %s:", name);
	for (int rank = 0; rank < c->size; rank++)
		fprintf(out, layout->given ? " %zu at %zu" : " %zu", length(c, rank),
			layout->at[rank]);
	fputc('\n', out);
}

void call_describe(const struct call *c, FILE *out)
{
	fprintf(out, "  %s(%s × %zu", kinds[c->kind].name, tutti_dtype_name(c->dtype), c->count);
	if (kinds[c->kind].combines)
		fprintf(out, ", %s", combine_name(c->combine));
	if (c->kind == MESSAGE)
		fprintf(out, ", from %d to %d", c->root, c->to);
	else if (kinds[c->kind].sends == ROOTS || kinds[c->kind].receives == ROOTS)
		fprintf(out, ", root %d", c->root);
	fprintf(out, ")%s%s%s%s\n", c->in_place ? ", in place" : "",
		c->contents.rounds ? ", with numbers that are rounded" : "",
		c->way.algorithm ? ", by " : "", c->way.algorithm ? c->way.algorithm : "");
	if (kinds[c->kind].tables && kinds[c->kind].send == EACH)
		describe_blocks("blocks sent", c, block_sent, &c->send_layout, out);
	if (kinds[c->kind].tables && kinds[c->kind].recv == EACH)
		describe_blocks("blocks received", c, block_received, &c->recv_layout, out);
	describe_buffer("send", &c->send, c->send_at, out);
	describe_buffer("recv", c->in_place ? &c->send : &c->recv, c->recv_at, out);
}
