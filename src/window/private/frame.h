/* SPDX-License-Identifier: BSD-3-Clause */
/* What one-sided calls are on a link: frames, one behind the other, in the order of the calls. A
 * frame is a header, and the bytes of a put or of what answers a get. Wire format, little endian. */
#ifndef TT_WINDOW_FRAME_H
#define TT_WINDOW_FRAME_H

#include <assert.h>
#include <stdint.h>

#define TT_FRAME_MAGIC 0x77747474u /* "tttw" */

enum tt_frame_kind {
	TT_FRAME_PUT,	/* `bytes` to `offset`; then `value` to the signal, if any */
	TT_FRAME_GET,	/* asks for DATA */
	TT_FRAME_ADD,	/* `value` to the word at `offset`; asks for VALUE */
	TT_FRAME_FLUSH, /* asks for DONE */
	TT_FRAME_DATA,	/* the `bytes` that a get asked for */
	TT_FRAME_VALUE, /* what the word was */
	TT_FRAME_DONE,	/* all before the flush has been done */
	TT_FRAME_KINDS
};

struct tt_frame {
	uint32_t magic;
	uint16_t kind;
	uint16_t tag;	 /* names who asks, for the answer */
	uint32_t window; /* its number: that of tutti_window_create() among those of the
			  * communicator */
	uint32_t signal; /* TT_NO_SIGNAL: none */
	uint64_t offset, bytes, value;
};
static_assert(sizeof(struct tt_frame) == 40, "no bytes between");

#endif
