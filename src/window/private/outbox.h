/* SPDX-License-Identifier: BSD-3-Clause */
/* What is to leave for a peer, in order: short frames that were copied, and memory of callers. */
#ifndef TT_WINDOW_OUTBOX_H
#define TT_WINDOW_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport.h"

#define TT_OUTBOX_BYTES (64u * 1024)
#define TT_OUTBOX_PARTS 64

struct tt_window_call;

/* Bytes that leave together: of the ring, or lent by a call, which ends with them. */
struct tt_outbox_part {
	const uint8_t *from;
	size_t bytes;
	size_t skipped; /* of the ring, before them: its end, where they did not fit */
	bool lent;
	uint32_t window;	     /* of what was lent: its number */
	struct tt_window_call *call; /* of what was lent; NULL: it answers a peer's */
};

struct tt_outbox {
	uint8_t *ring;	     /* malloc(); NULL until something leaves */
	uint64_t head, tail; /* positions in the ring, which only grow: written, left */
	struct tt_outbox_part parts[TT_OUTBOX_PARTS];
	uint32_t first, count;
};

/* Is there room for a copy of so many bytes, and for something lent behind it? */
bool tt_outbox_has_room(const struct tt_outbox *box, size_t bytes);
/* The place of so many bytes, for which there is room; NULL: no memory for the ring. */
uint8_t *tt_outbox_place(struct tt_outbox *box, size_t bytes);
void tt_outbox_lend(struct tt_outbox *box, const void *from, size_t bytes, uint32_t window,
		    struct tt_window_call *call);
/* Is something of this rank's part of the window still to leave? */
bool tt_outbox_lends(const struct tt_outbox *box, uint32_t window);
/* Write what the link takes; like its write(). */
ssize_t tt_outbox_write(struct tt_outbox *box, struct tt_link *link);

#endif
