/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers with guard bytes before, after and between what is in them.
 *
 * What a buffer holds is a list of pieces, in the order of their offsets; everywhere else in it are
 * guard bytes. One is filled by such a list before a call, and compared with one after it: so what
 * the library may not write is compared, too. */
#ifndef TT_BUFFER_H
#define TT_BUFFER_H

#include "contents.h"

#define PIECES_MAX CALL_RANKS

/* `n` elements at offset `at`, in elements: those of `table` from `start` on. */
struct piece {
	size_t at, n;
	const struct table *table;
	size_t start;
	int rank; /* whose they are; -1: all ranks' */
};

struct pieces {
	struct piece piece[PIECES_MAX];
	int n;
};

struct buffer {
	unsigned char *memory;	     /* where guard bytes begin; NULL: there is no buffer */
	unsigned char *data;	     /* what is passed to the library */
	size_t bytes, before, after; /* of the data, and of guard bytes around it */
	size_t element;
	bool mapped;   /* memory that peers can map */
	bool taken;    /* by buffer_take() */
	unsigned salt; /* of the guard bytes */
};

/* What was found wrong first. */
struct wrong {
	const struct buffer *where;
	const struct piece *piece; /* NULL: a guard byte */
	size_t at, all; /* element of the piece; how many are wrong in this piece or between two */
	ptrdiff_t offset; /* of a guard byte, from the start of the data */
	size_t size;
	unsigned char found[8], expected[8];
	long double near;
	double within; /* if > 0: as close to `near` is right, too */
};

/* Takes memory; how much goes before and behind, and whether it is mapped, has been set. False: there
 * is none. */
bool buffer_take(struct buffer *buffer);
/* The caller's memory, from the guard bytes before the data on. */
void buffer_lie_at(struct buffer *buffer, void *memory);
void buffer_finish(struct buffer *buffer);
/* With the guard bytes. */
size_t buffer_size(const struct buffer *buffer);
void buffer_fill(struct buffer *buffer, const struct pieces *pieces);
/* False: `*wrong` says what is. */
bool buffer_check(const struct buffer *buffer, const struct pieces *pieces, struct wrong *wrong);
/* The data is the caller's again: it changes at once. */
void buffer_spoil(struct buffer *buffer);

#endif
