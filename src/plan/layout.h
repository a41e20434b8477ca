/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the blocks of a call's buffers lie: a schedule numbers blocks, a layout finds their
 * bytes. */
#ifndef TT_LAYOUT_H
#define TT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_LINE 64 /* bytes of a cache line: where long blocks begin */

struct tutti_comm;
struct tt_call;

/* Where a buffer's blocks lie. */
enum tt_layout_kind {
	TT_LAYOUT_NONE,	  /* the rank has no such buffer */
	TT_LAYOUT_VECTOR, /* cut into segments, each cut into blocks */
	TT_LAYOUT_BLOCKS, /* size blocks of `count`, each cut into segments */
	TT_LAYOUT_OWN,	  /* only block `own`, at the start */
	TT_LAYOUT_TABLE,  /* blocks of any length anywhere */
};

struct tt_layout {
	enum tt_layout_kind kind;
	size_t count;
	uint32_t blocks;
	int own;
	const size_t *counts, *displs; /* TABLE, and OWN of a _v form: lengths; owned by the plan */
};

/* A chunk of a buffer. */
struct tt_bytes {
	size_t offset, length;
};

/* The layout of what this rank sends, or receives, in a call; a vector is cut into `blocks`. */
struct tt_layout tt_layout_of(const struct tutti_comm *comm, const struct tt_call *call,
			      uint32_t blocks, bool sending);
/* How a peer's buffer of a side is laid out: like this rank's, or whole where this rank has
 * none. */
struct tt_layout tt_layout_of_peer(const struct tt_layout *side, const struct tt_layout *other);
/* Where block `block` of segment `segment` lies in a buffer. */
struct tt_bytes tt_layout_at(const struct tt_layout *layout, size_t element, uint32_t segments,
			     uint32_t segment, uint32_t block);
/* Bytes from the buffer's start to the end of what lies in it. */
size_t tt_layout_extent(const struct tt_layout *layout, size_t element);

#endif
