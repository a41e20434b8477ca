/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes between a store and its clients.
 *
 * A connection begins with a handshake (handshake.h): the client dials. `from` in its hello is the
 * rank that it says it is, in case it is turned away. Then it sends one request at a time and waits
 * for its answer. Attending and leaving have no answer, so that they can be sent in front of a
 * request; news come unasked, between two answers. A message is a header, then `key_length`
 * bytes of key, then `value_length` bytes of value. All numbers are little-endian. */
#ifndef TT_STORE_WIRE_H
#define TT_STORE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handshake.h"
#include "tutti/tutti.h"

#define TT_WIRE_HEADER                                                                             \
	12 /* kind, key length, status, zero, 4 value length, 4 timeout or
	    * member */
#define TT_WIRE_WORD                                                                               \
	4 /* the value of TT_WIRE_END and TT_WIRE_ATTEND: a result, and an error message up to … */
#define TT_WIRE_WORD_MAX 512
#define TT_WIRE_WHO_MAX	 100

enum tt_wire_kind {
	TT_WIRE_SET = 1,
	TT_WIRE_GET = 2,
	TT_WIRE_ANSWER = 3,
	TT_WIRE_END = 4, /* who waits for a key below this one gets the value instead, and stops */
	TT_WIRE_ATTEND = 5, /* should the connection end, as if the client had sent TT_WIRE_END
			     * (in MQTT: a last will); in place of what it attended before. Who
			     * it is stands behind the error message and a zero */
	TT_WIRE_LEAVE = 6,  /* it does not attend any more */
	TT_WIRE_NEWS = 7    /* from the host: with a key, what the client attends was ended, and
			     * why; without, the host closes in order */
};

enum tt_wire_status {
	TT_WIRE_DONE,	 /* a get's answer has the value */
	TT_WIRE_MISSING, /* the key did not come in time */
	TT_WIRE_FULL,	 /* the store has no memory for the value */
	TT_WIRE_ENDED,	 /* the key will not come; the answer has the value of TT_WIRE_END */
	TT_WIRE_CLOSED,	 /* of news alone */
};

struct tt_wire_header {
	uint8_t kind;
	uint8_t key_length; /* of requests and news; 0 in answers */
	uint8_t status;	    /* of answers and news; 0 in requests */
	uint32_t value_length;
	union {
		uint32_t timeout_ms; /* of gets */
		uint32_t member;     /* of attends: the client's number in the group, which is
				      * the key but for its last part, and 1; 0: none */
	};			     /* 0 elsewhere */
};

extern const struct tt_protocol tt_store_protocol;

void tt_wire_put_header(const struct tt_wire_header *header, uint8_t out[TT_WIRE_HEADER]);
/* False if the bytes are no header that the other end could have meant. */
bool tt_wire_get_header(const uint8_t in[TT_WIRE_HEADER], struct tt_wire_header *header);

/* What TT_WIRE_END says; gives the length. An error message that is too long is cut. */
uint32_t tt_wire_put_word(tutti_result_t result, const char *error_text,
			  uint8_t out[TT_WIRE_WORD_MAX]);
/* The same for TT_WIRE_ATTEND, with who says it. */
uint32_t tt_wire_put_will(tutti_result_t result, const char *error_text, const char *who,
			  uint8_t out[TT_WIRE_WORD_MAX]);
/* The length of the word in a will; `who` becomes "" where it does not say. */
size_t tt_wire_split_will(const uint8_t *in, size_t length, char who[TT_WIRE_WHO_MAX]);
/* False if the bytes name no failure, or do not say why. */
bool tt_wire_get_word(const uint8_t *in, size_t length, tutti_result_t *result,
		      char error_text[TT_WIRE_WORD_MAX]);

#endif
