/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes that are to leave for a peer. Short frames are copied into a ring, so that a call
 * ends at once and several leave in one write; long payloads stay where they are. */
#include "outbox.h"

#include <stdlib.h>

#include "one_sided.h"

#define WRITE_PARTS 16
#define WRITE_MOST  (4 << 20) /* bytes at once, before others have their turn */

static uint32_t place_of(const struct tt_outbox *box, uint32_t index)
{
	return (box->first + index) % TT_OUTBOX_PARTS;
}

/* Bytes at the end of the ring that are left out, so that none are cut in two. */
static size_t left_out(const struct tt_outbox *box, size_t bytes)
{
	const size_t at = box->head % TT_OUTBOX_BYTES;

	return at + bytes > TT_OUTBOX_BYTES ? TT_OUTBOX_BYTES - at : 0;
}

bool tt_outbox_has_room(const struct tt_outbox *box, size_t bytes)
{
	return box->count + 2 <= TT_OUTBOX_PARTS &&
	       box->head + left_out(box, bytes) + bytes - box->tail <= TT_OUTBOX_BYTES;
}

static void add_part(struct tt_outbox *box, const struct tt_outbox_part *part)
{
	box->parts[place_of(box, box->count++)] = *part;
}

uint8_t *tt_outbox_place(struct tt_outbox *box, size_t bytes)
{
	const size_t skipped = left_out(box, bytes);
	struct tt_outbox_part *last =
		box->count ? &box->parts[place_of(box, box->count - 1)] : NULL;

	if (!box->ring)
		box->ring = malloc(TT_OUTBOX_BYTES);
	if (!box->ring)
		return NULL;
	uint8_t *at = box->ring + (box->head + skipped) % TT_OUTBOX_BYTES;
	box->head += skipped + bytes;
	if (last && !last->lent && last->from + last->bytes == at)
		last->bytes += bytes;
	else
		add_part(box, &(struct tt_outbox_part){
				      .from = at, .bytes = bytes, .skipped = skipped });
	return at;
}

void tt_outbox_lend(struct tt_outbox *box, const void *from, size_t bytes, uint32_t window,
		    struct tt_window_call *call)
{
	add_part(box, &(struct tt_outbox_part){ .from = from,
						.bytes = bytes,
						.lent = true,
						.window = window,
						.call = call });
}

bool tt_outbox_lends(const struct tt_outbox *box, uint32_t window)
{
	for (uint32_t i = 0; i < box->count; i++) {
		const struct tt_outbox_part *part = &box->parts[place_of(box, i)];

		if (part->lent && !part->call && part->window == window)
			return true;
	}
	return false;
}

/* So many bytes have left. */
static void take_out(struct tt_outbox *box, size_t bytes)
{
	while (bytes > 0) {
		struct tt_outbox_part *part = &box->parts[box->first];
		const size_t of_part = bytes < part->bytes ? bytes : part->bytes;

		part->from += of_part;
		part->bytes -= of_part;
		bytes -= of_part;
		if (!part->lent)
			box->tail += part->skipped + of_part;
		part->skipped = 0;
		if (part->bytes > 0)
			return;
		if (part->call)
			part->call->stage = TT_ENDED;
		box->first = place_of(box, 1);
		box->count--;
	}
}

ssize_t tt_outbox_write(struct tt_outbox *box, struct tt_link *link)
{
	ssize_t all = 0, moved = 1;

	while (box->count > 0 && moved > 0 && all < WRITE_MOST) {
		struct iovec iov[WRITE_PARTS];
		int n = 0;

		for (; n < WRITE_PARTS && (uint32_t)n < box->count; n++) {
			const struct tt_outbox_part *part = &box->parts[place_of(box, (uint32_t)n)];

			iov[n] = (struct iovec){ (void *)part->from, part->bytes };
		}
		moved = link->ops->write(link, iov, n);
		if (moved < 0)
			return moved;
		take_out(box, (size_t)moved);
		all += moved;
	}
	return all;
}
