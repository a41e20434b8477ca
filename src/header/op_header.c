/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the hashing and the comparison of headers, and the error message about headers that differ.
 * Headers come from peers: nothing in them is relied on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_header.h"
#include "names.h"
#include "narrow.h"
#include "registry.h"
#include "text_append.h"

#define CALL_BYTES 240 /* of the error message, for one call */
#define LISTED	   4   /* calls of a group that are named one by one */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ (hash >> 29);
}

uint64_t tt_op_header_signature(const struct tt_op_header *header)
{
	const uint64_t kind = (uint64_t)header->collective | (uint64_t)header->dtype << 8 |
			      (uint64_t)header->algorithm << 16 | (uint64_t)header->part << 24 |
			      (uint64_t)(uint16_t)header->op << 32 |
			      (uint64_t)header->declared << 48;
	uint64_t hash = mix(header->seq, header->count);

	hash = mix(hash, kind);
	hash = mix(hash, (uint64_t)(uint32_t)header->root | (uint64_t)header->segments << 32);
	return mix(hash, header->detail);
}

bool tt_op_header_equal(const struct tt_op_header *a, const struct tt_op_header *b)
{
	return a->magic == b->magic && a->seq == b->seq && a->count == b->count &&
	       a->detail == b->detail && a->root == b->root && a->op == b->op &&
	       a->part == b->part && a->declared == b->declared && a->collective == b->collective &&
	       a->dtype == b->dtype && a->algorithm == b->algorithm && a->segments == b->segments &&
	       (a->collective != TT_SEND_RECV || a->own == b->own);
}

bool tt_op_header_is_message(const struct tt_op_header *header)
{
	return header->magic == TT_OP_HEADER_MAGIC && header->collective == TT_SEND_RECV;
}

/* ---- a call */

const char *tt_part_name(enum tt_part part)
{
	switch (part) {
	case TT_PART_SPLIT: return "tutti_comm_split";
	case TT_PART_GROW: return "tutti_comm_grow";
	case TT_PART_CUDA_BIND: return "tutti_cuda_bind";
	case TT_PART_CUDA_REGISTER: return "tutti_cuda_register";
	case TT_PART_CUDA_DEREGISTER: return "tutti_cuda_deregister";
	case TT_PART_DUP: return "tutti_comm_dup";
	case TT_PART_WINDOW_CREATE: return "tutti_window_create";
	case TT_PART_WINDOW_DESTROY: return "tutti_window_destroy";
	default: return NULL;
	}
}

static bool knows_own_counts(const struct tt_op_header *header)
{
	return tt_collective_knows_own_counts((enum tt_collective)header->collective);
}

/* Of counts that all ranks give alike? */
static bool has_table(const struct tt_op_header *header)
{
	return header->part == TT_PART_GROUP ||
	       tt_collective_has_table((enum tt_collective)header->collective);
}

static void append_op(struct tt_text *text, const struct tt_op_header *header)
{
	static const char *const declared[] = {
		[TT_DECLARED_NOT] = "",
		[TT_DECLARED_COMMUTATIVE] = " (commutative)",
		[TT_DECLARED_ORDERED] = " (not commutative)",
		[TT_DECLARED_PREMUL] = " (pre-multiplied sum)",
	};

	if (header->op >= TUTTI_OP_COUNT)
		tt_text_append(text, ", user %d%s", header->op - TUTTI_OP_COUNT,
			       header->declared <= TT_DECLARED_PREMUL ? declared[header->declared]
								      : "");
	else if (header->op >= 0)
		tt_text_append(text, ", %s", tutti_op_name(header->op));
}

/* What the program says that its elements are, see tutti_next_element(). */
static void append_element(struct tt_text *text, const struct tt_op_header *header)
{
	const bool message = header->collective == TT_SEND_RECV;
	uint64_t name = message ? header->own : header->detail;

	if (has_table(header) || knows_own_counts(header) || header->part || header->windows)
		return;
	for (tt_text_append(text, name ? " of " : ""); name; name >>= 8) {
		const char c = (char)name;

		tt_text_append(text, "%c", c > ' ' && c <= '~' ? c : '?');
	}
}

/* "all_reduce(float32 × 4096, sum, root 0)"; `of`: what stands behind the count. */
static void append_named(struct tt_text *text, const char *name, const struct tt_op_header *header,
			 uint64_t count, const char *of)
{
	const char *dtype = tt_narrow_dtype_name(header->dtype);

	tt_text_append(text, "%s(%s × %" PRIu64 "%s", name, dtype ? dtype : "unknown type", count,
		       of);
	append_element(text, header);
	append_op(text, header);
	if (header->root >= 0)
		tt_text_append(text, ", root %d", header->root);
	if (header->collective == TT_SEND_RECV && header->detail > 0)
		tt_text_append(text, ", tag %" PRIu64, header->detail);
	tt_text_append(text, ")");
}

static void append_collective(struct tt_text *text, const struct tt_op_header *header,
			      uint64_t count, const char *of)
{
	append_named(text, tt_collective_name((enum tt_collective)header->collective), header,
		     count, of);
}

/* Zeros at the end of the table are no calls. */
static size_t calls_of(const struct tt_counts *counts)
{
	size_t n = counts->n;

	while (n > 0 && counts->at[n - 1] == 0)
		n--;
	return n;
}

/* `counts` NULL: what the group has is not known but for the sum. */
static void append_group(struct tt_text *text, const struct tt_op_header *header,
			 const struct tt_counts *counts)
{
	const size_t n = counts ? calls_of(counts) : 0;

	tt_text_append(text, "a group of ");
	if (!counts) {
		append_collective(text, header, header->count, " in all");
		return;
	}
	for (size_t i = 0; i < n && i < LISTED; i++) {
		tt_text_append(text, "%s", i == 0 ? "" : i + 1 == n ? " and " : ", ");
		append_collective(text, header, counts->at[i], "");
	}
	if (n > LISTED)
		tt_text_append(text, " and %zu more", n - LISTED);
}

static void append_call(struct tt_text *text, const struct tt_op_header *header,
			const struct tt_counts *counts)
{
	const char *part = tt_part_name((enum tt_part)header->part);

	if (header->magic != TT_OP_HEADER_MAGIC)
		tt_text_append(text, "bytes that are no operation");
	else if (header->part == TT_PART_WINDOW_DESTROY)
		tt_text_append(text, "%s of window %" PRIu64, part, header->detail >> TT_PART_BITS);
	else if (part)
		tt_text_append(text, "%s", part);
	else if (header->collective == TT_BARRIER)
		tt_text_append(text, "barrier()");
	else if (header->part == TT_PART_GROUP)
		append_group(text, header, counts);
	else
		append_collective(text, header,
				  knows_own_counts(header) ? header->own : header->count,
				  has_table(header) ? " in all" : "");
}

void tt_op_header_describe(const struct tt_op_header *header, char *out, size_t size)
{
	struct tt_text text = { out, size };

	append_call(&text, header, NULL);
}

/* ---- two that differ */

/* What a rank called, and how it counted where that is known. */
struct side {
	const struct tt_op_header *header;
	const struct tt_counts *counts;
	const char *end; /* of a message: "send" or "recv"; NULL: not known, or no message */
	char call[CALL_BYTES];
};

static void describe_side(struct side *side)
{
	struct tt_text text = { side->call, sizeof(side->call) };

	if (side->end)
		append_named(&text, side->end, side->header, side->header->count, "");
	else
		append_call(&text, side->header, side->counts);
}

/* Do they differ in their tables of counts at most, as far as these go? */
static bool same_counted_call(const struct tt_op_header *a, const struct tt_op_header *b)
{
	return a->magic == b->magic && a->seq == b->seq && a->part == b->part &&
	       a->collective == b->collective && a->dtype == b->dtype && a->op == b->op &&
	       a->windows == b->windows && has_table(a);
}

static void append_counts(struct tt_text *text, const struct side *a, const struct side *b)
{
	const bool group = a->header->part == TT_PART_GROUP;
	size_t first = 0, differ = 0;

	for (size_t i = a->counts->n; i-- > 0;) {
		if (a->counts->at[i] == b->counts->at[i])
			continue;
		first = i;
		differ++;
	}
	if (group && calls_of(a->counts) <= LISTED && calls_of(b->counts) <= LISTED)
		return; /* both were named call by call */
	tt_text_append(text,
		       group ? "; call %zu of the group is of %zu on rank %d, %zu on rank %d"
			     : "; counts[%zu] is %zu on rank %d, %zu on rank %d",
		       first, a->counts->at[first], a->header->rank, b->counts->at[first],
		       b->header->rank);
	if (differ > 1)
		tt_text_append(text, " (%zu more differ)", differ - 1);
}

/* What differs where the descriptions are alike; where they are not, all else follows from that. */
static void append_hidden_difference(struct tt_text *text, const struct side *a,
				     const struct side *b)
{
	const bool alike = strcmp(a->call, b->call) == 0;

	if (a->counts && b->counts)
		append_counts(text, a, b);
	else if (same_counted_call(a->header, b->header) && a->header->detail != b->header->detail)
		tt_text_append(text, a->counts || b->counts ? "; several of their counts differ"
							    : "; their counts differ");
	else if (alike && a->header->windows != b->header->windows)
		tt_text_append(text,
			       "; their buffers are in different windows (tutti_cuda_register), or "
			       "one's are in none");
	else if (alike && tt_part_name((enum tt_part)a->header->part))
		tt_text_append(text, "; they are in different steps of it");
	else if (alike && (a->header->algorithm != b->header->algorithm ||
			   a->header->segments != b->header->segments))
		tt_text_append(
			text,
			"; their settings differ (TUTTI_ALGORITHM, TUTTI_SEGMENT, TUTTI_REPRODUCIBLE)");
}

static const char *verb_of(const struct tt_op_header *header)
{
	return header->magic == TT_OP_HEADER_MAGIC ? "called" : "sent";
}

static void append_mismatch(struct tt_text *text, struct side *a, struct side *b)
{
	describe_side(a);
	describe_side(b);
	if (a->header->magic != b->header->magic) {
		tt_text_append(text, "rank %d %s %s, rank %d %s %s", a->header->rank,
			       verb_of(a->header), a->call, b->header->rank, verb_of(b->header),
			       b->call);
		return;
	}
	if (a->header->seq != b->header->seq) {
		tt_text_append(text,
			       "rank %d is in its operation %" PRIu64
			       ", %s, while rank %d is in its operation %" PRIu64
			       ", %s: one of them left out an operation",
			       a->header->rank, a->header->seq, a->call, b->header->rank,
			       b->header->seq, b->call);
		return;
	}
	tt_text_append(text, "operation %" PRIu64 ": rank %d called %s, rank %d called %s",
		       a->header->seq, a->header->rank, a->call, b->header->rank, b->call);
	append_hidden_difference(text, a, b);
}

static struct tt_fault fault_of(const struct tt_op_header *a, const struct tt_op_header *b)
{
	const bool message = a->collective == TT_SEND_RECV || b->collective == TT_SEND_RECV;
	const bool by_a = b->magic != TT_OP_HEADER_MAGIC ||
			  (a->magic == TT_OP_HEADER_MAGIC && a->seq < b->seq);

	return (struct tt_fault){ .result = TUTTI_ERR_MISMATCH,
				  .rank = b->rank,
				  .seq = message ? 0
					 : by_a	 ? a->seq
						 : b->seq };
}

/* Two places more: a group may have more calls than the own one. */
#define MORE 2

/* The peer's table where it can be found; the own one, as long as that. False: it cannot, or there
 * is no memory. */
static bool find_counts(const struct tt_op_header *mine, const struct tt_op_header *theirs,
			const struct tt_counts *counts, struct tt_counts *own,
			struct tt_counts *peers)
{
	const struct tt_counts_digest digest = { theirs->count, theirs->own, theirs->detail };
	const size_t n = counts ? counts->n + (mine->part == TT_PART_GROUP ? MORE : 0) : 0;

	if (!counts || !same_counted_call(mine, theirs) || mine->detail == theirs->detail)
		return false;
	size_t *tables = calloc(2 * n + 1, sizeof(*tables));
	if (!tables)
		return false;
	memcpy(tables, counts->at, counts->n * sizeof(*tables));
	*own = (struct tt_counts){ tables, n };
	*peers = (struct tt_counts){ tables + n, n };
	if (tt_counts_find(own, &digest, tables + n))
		return true;
	free(tables);
	return false;
}

struct tt_fault tt_op_header_mismatch(const struct tt_op_header *mine,
				      const struct tt_op_header *theirs,
				      const struct tt_counts *counts)
{
	struct tt_counts own, peers;
	const bool found = find_counts(mine, theirs, counts, &own, &peers);
	struct side my_side = { .header = mine, .counts = found ? &own : counts };
	struct side their_side = { .header = theirs, .counts = found ? &peers : NULL };
	/* of a message it is who receives that finds out */
	if (tt_op_header_is_message(mine) && tt_op_header_is_message(theirs)) {
		my_side.end = "recv";
		their_side.end = "send";
	}
	/* both ends of a link may find out at once: they say the same */
	const bool swap = theirs->rank < mine->rank;
	struct tt_fault fault = swap ? fault_of(theirs, mine) : fault_of(mine, theirs);
	struct tt_text text = { fault.text, sizeof(fault.text) };

	if (swap)
		append_mismatch(&text, &their_side, &my_side);
	else
		append_mismatch(&text, &my_side, &their_side);
	if (found)
		free((void *)own.at);
	return fault;
}

/* ---- two that differ in the count of their pair */

/* The parameter by which the sender, or the receiver, counts what goes between them. */
static void append_parameter(struct tt_text *text, const struct tt_op_header *header, int peer,
			     bool sends)
{
	const bool to_all = header->collective == TT_ALL_TO_ALL_V;
	const bool at_root = header->collective == TT_GATHER_V ? !sends : sends;

	if (to_all || at_root)
		tt_text_append(text, "%s[%d]",
			       !to_all ? "counts"
			       : sends ? "send_counts"
				       : "recv_counts",
			       peer);
	else
		tt_text_append(text, "%s", sends ? "send_count" : "recv_count");
	tt_text_append(text, " %" PRIu64, header->count);
}

static void append_side_of_pair(struct tt_text *text, const struct tt_op_header *header, int peer,
				bool sends)
{
	tt_text_append(text, "rank %d called ", header->rank);
	append_collective(text, header, header->own, "");
	tt_text_append(text, " with ");
	append_parameter(text, header, peer, sends);
}

struct tt_fault tt_op_header_mismatch_of_pair(const struct tt_op_header *mine,
					      const struct tt_op_header *theirs)
{
	const bool swap = theirs->rank < mine->rank;
	const struct tt_op_header *a = swap ? theirs : mine, *b = swap ? mine : theirs;
	struct tt_fault fault = fault_of(a, b);
	struct tt_text text = { fault.text, sizeof(fault.text) };

	tt_text_append(&text, "operation %" PRIu64 ": ", mine->seq);
	append_side_of_pair(&text, a, b->rank, swap);
	tt_text_append(&text, ", ");
	append_side_of_pair(&text, b, a->rank, !swap);
	return fault;
}
