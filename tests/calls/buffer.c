/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffer.h"

#include <math.h>
#include <string.h>

#include "values.h"

#define GUARD_PERIOD 251

/* ---- memory */

size_t buffer_size(const struct buffer *b)
{
	return b->before + b->bytes + b->after;
}

void buffer_lie_at(struct buffer *b, void *memory)
{
	b->memory = memory;
	b->data = b->memory + b->before;
}

bool buffer_take(struct buffer *b)
{
	void *memory = NULL;

	if (!b->mapped)
		memory = call_memory.take(buffer_size(b));
	else if (tutti_mem_alloc(buffer_size(b), &memory))
		return false;
	b->taken = memory;
	if (memory)
		buffer_lie_at(b, memory);
	return memory;
}

void buffer_finish(struct buffer *b)
{
	if (b->taken)
		(b->mapped ? tutti_mem_free : call_memory.give)(b->memory);
	b->memory = NULL;
	b->taken = false;
}

/* ---- repeated patterns */

struct pattern {
	const unsigned char *bytes;
	size_t period, start; /* bytes */
};

/* The next run of the pattern, `*bytes` at most. */
static const unsigned char *next_run(struct pattern *p, size_t *bytes)
{
	const unsigned char *run = p->bytes + p->start;

	if (*bytes > p->period - p->start)
		*bytes = p->period - p->start;
	p->start = (p->start + *bytes) % p->period;
	return run;
}

static void repeat(unsigned char *out, size_t bytes, struct pattern p)
{
	for (size_t done = 0, n; done < bytes; done += n) {
		n = bytes - done;
		const unsigned char *run = next_run(&p, &n);
		memcpy(out + done, run, n);
	}
}

/* The offset of the run in which the first difference is; `bytes`: there is none. */
static size_t first_difference(const unsigned char *found, size_t bytes, struct pattern p)
{
	for (size_t done = 0, n; done < bytes; done += n) {
		n = bytes - done;
		const unsigned char *run = next_run(&p, &n);
		if (memcmp(found + done, run, n) != 0)
			return done;
	}
	return bytes;
}

/* Guard bytes depend on their offset, so that some that were copied elsewhere show. */
static struct pattern guards(const struct buffer *b, size_t offset)
{
	static const unsigned char bytes[GUARD_PERIOD] = {
#define BYTES(k)                                                                                   \
	(unsigned char)((k)*37 + 11), (unsigned char)((k) ^ 0x5a), (unsigned char)((k)*101 + 7)
#define MORE(k)                                                                                    \
	BYTES(k), BYTES(k + 1), BYTES(k + 2), BYTES(k + 3), BYTES(k + 4), BYTES(k + 5),            \
		BYTES(k + 6), BYTES(k + 7)
		MORE(0),  MORE(8),  MORE(16), MORE(24), MORE(32),
		MORE(40), MORE(48), MORE(56), MORE(64), MORE(72),
#undef MORE
#undef BYTES
	};

	return (struct pattern){ bytes, GUARD_PERIOD, (offset + b->salt) % GUARD_PERIOD };
}

static struct pattern pattern_of(const struct piece *piece, size_t element)
{
	return (struct pattern){ piece->table->bytes, piece->table->n * element,
				 piece->start % piece->table->n * element };
}

/* ---- what they hold */

static void guard(struct buffer *b, size_t from, size_t to)
{
	repeat(b->memory + from, to - from, guards(b, from));
}

void buffer_fill(struct buffer *b, const struct pieces *pieces)
{
	size_t at = 0;

	for (int i = 0; i < pieces->n; i++) {
		const struct piece *piece = &pieces->piece[i];
		const size_t begin = b->before + piece->at * b->element,
			     bytes = piece->n * b->element;

		if (bytes == 0)
			continue;
		guard(b, at, begin);
		repeat(b->memory + begin, bytes, pattern_of(piece, b->element));
		at = begin + bytes;
	}
	guard(b, at, buffer_size(b));
}

static void set_wrong(struct wrong *wrong, const unsigned char *found,
		      const unsigned char *expected, size_t size)
{
	wrong->size = size;
	memcpy(wrong->found, found, size);
	memcpy(wrong->expected, expected, size);
}

static bool check_guard(const struct buffer *b, size_t from, size_t to, struct wrong *wrong)
{
	const size_t first = first_difference(b->memory + from, to - from, guards(b, from));

	for (size_t i = from + first; i < to; i++) {
		const struct pattern p = guards(b, i);

		if (b->memory[i] == p.bytes[p.start])
			continue;
		if (wrong->all++ == 0) {
			wrong->offset = (ptrdiff_t)i - (ptrdiff_t)b->before;
			set_wrong(wrong, &b->memory[i], &p.bytes[p.start], 1);
		}
	}
	return wrong->all == 0;
}

static bool element_is_right(const struct table *table, size_t in_table, const unsigned char *found,
			     size_t size)
{
	if (!table->within)
		return memcmp(found, table->bytes + in_table * size, size) == 0;
	return fabsl(value_get(found, 0, table->dtype) - table->near[in_table]) <=
	       table->within[in_table];
}

static bool check_elements(const struct buffer *b, const struct piece *piece, size_t first,
			   struct wrong *wrong)
{
	const struct table *table = piece->table;
	const unsigned char *begin = b->data + piece->at * b->element;

	for (size_t i = first; i < piece->n; i++) {
		const size_t in_table = (piece->start + i) % table->n;
		const unsigned char *found = begin + i * b->element;

		if (element_is_right(table, in_table, found, b->element) || wrong->all++ > 0)
			continue;
		wrong->piece = piece;
		wrong->at = i;
		set_wrong(wrong, found, table->bytes + in_table * b->element, b->element);
		wrong->near = table->within ? table->near[in_table] : 0;
		wrong->within = table->within ? table->within[in_table] : 0;
	}
	return wrong->all == 0;
}

static bool check_piece(const struct buffer *b, const struct piece *piece, struct wrong *wrong)
{
	const size_t bytes = piece->n * b->element;
	const unsigned char *begin = b->data + piece->at * b->element;
	const size_t first = piece->table->within ? 0
						  : first_difference(begin, bytes,
								     pattern_of(piece, b->element));

	return first == bytes || check_elements(b, piece, first / b->element, wrong);
}

bool buffer_check(const struct buffer *b, const struct pieces *pieces, struct wrong *wrong)
{
	size_t at = 0;

	*wrong = (struct wrong){ .where = b };
	for (int i = 0; i < pieces->n; i++) {
		const struct piece *piece = &pieces->piece[i];
		const size_t begin = b->before + piece->at * b->element;

		if (piece->n == 0)
			continue;
		if (!check_guard(b, at, begin, wrong) || !check_piece(b, piece, wrong))
			return false;
		at = begin + piece->n * b->element;
	}
	return check_guard(b, at, buffer_size(b), wrong);
}

void buffer_spoil(struct buffer *b)
{
	memset(b->data, 0xb5, b->bytes);
}
