/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes between a store and its clients.
 *
 * Both ends begin with a hello; nothing else is read before the other's hello is good. Then the
 * client sends one request at a time and waits for its answer. A message is a header, then
 * `key_length` bytes of key, then `value_length` bytes of value. All numbers are little-endian. */
#ifndef TT_STORE_WIRE_H
#define TT_STORE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#define TT_WIRE_HELLO	 16 /* 8 magic, 2 version, 2 bytes of proof that follow, 4 zero */
#define TT_WIRE_HEADER	 12 /* kind, key length, status, zero, 4 value length, 4 timeout */
#define TT_WIRE_VERSION	 2
#define TT_WIRE_WORD	 4 /* the value of TT_WIRE_END: a result, and a sentence up to … */
#define TT_WIRE_WORD_MAX 512

enum tt_wire_kind {
	TT_WIRE_SET = 1,
	TT_WIRE_GET = 2,
	TT_WIRE_ANSWER = 3,
	TT_WIRE_END = 4 /* who waits for a key below this one gets the value instead, and stops */
};

enum tt_wire_status {
	TT_WIRE_DONE,	 /* a get's answer has the value */
	TT_WIRE_MISSING, /* the key did not come in time */
	TT_WIRE_FULL,	 /* the store has no memory for the value */
	TT_WIRE_ENDED,	 /* the key will not come; the answer has the value of TT_WIRE_END */
};

struct tt_wire_header {
	uint8_t kind;
	uint8_t key_length; /* of requests; 0 in answers */
	uint8_t status;	    /* of answers; 0 in requests */
	uint32_t value_length;
	uint32_t timeout_ms; /* of gets; 0 elsewhere */
};

void tt_wire_put_hello(uint8_t out[TT_WIRE_HELLO]);
/* NULL if the hello can be lived with, otherwise what is wrong with it. */
const char *tt_wire_hello_fault(const uint8_t in[TT_WIRE_HELLO]);

void tt_wire_put_header(const struct tt_wire_header *header, uint8_t out[TT_WIRE_HEADER]);
/* False if the bytes are no header that the other end could have meant. */
bool tt_wire_get_header(const uint8_t in[TT_WIRE_HEADER], struct tt_wire_header *header);

/* What TT_WIRE_END says; gives the length. A sentence that is too long is cut. */
uint32_t tt_wire_put_word(tutti_result_t result, const char *sentence,
			  uint8_t out[TT_WIRE_WORD_MAX]);
/* False if the bytes name no failure. */
bool tt_wire_get_word(const uint8_t *in, size_t length, tutti_result_t *result,
		      char sentence[TT_WIRE_WORD_MAX]);

#endif
