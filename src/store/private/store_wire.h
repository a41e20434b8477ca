/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes between a store and its clients.
 *
 * Both ends begin with a hello; nothing else is read before the other's hello is good. Where the
 * job has a key, the host answers the client's hello with its proof, and the client that with
 * its own, which zeros stand for if the host's is none. Both are of the two hellos with their
 * nonces, and of who of the two gives it. Then the client sends one request at a time and waits
 * for its answer. Attending and leaving have no answer, so that they can be sent in front of a
 * request; news come unasked, between two answers. A message is a header, then `key_length`
 * bytes of key, then `value_length` bytes of value. All numbers are little-endian. */
#ifndef TT_STORE_WIRE_H
#define TT_STORE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"
#include "tutti/tutti.h"

#define TT_WIRE_HELLO 48 /* 8 magic, 2 version, 2 flags, 4 claim, 32 nonce */
#define TT_WIRE_FIRST 12 /* bytes of a hello that every version has: magic, version, flags */
#define TT_WIRE_HEADER                                                                             \
	12 /* kind, key length, status, zero, 4 value length, 4 timeout or
	    * member */
#define TT_WIRE_VERSION	  5
#define TT_WIRE_KEYED	  1 /* flag: proofs follow */
#define TT_WIRE_ENCRYPTED 2 /* flag, of a host to a client that does not encrypt: nothing follows */
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

/* `claim`: the rank that a client says it is, in case it is turned away; -1: it does not say. */
void tt_wire_put_hello(unsigned flags, int claim, const uint8_t nonce[TT_NONCE_BYTES],
		       uint8_t out[TT_WIRE_HELLO]);
/* That of the first `length` bytes of a hello; -1 as well if it has not come, or is none. */
int tt_wire_hello_claim(const uint8_t *in, size_t length);
/* NULL if the first `length` bytes can be those of a hello to one that has a key or not,
 * otherwise what is wrong with them: why the other end is not to be talked with. */
const char *tt_wire_hello_fault(bool keyed, const uint8_t *in, size_t length);

/* Who gives a proof. */
enum tt_wire_end { TT_WIRE_HOST, TT_WIRE_CLIENT };
void tt_wire_prove(const struct tt_key *key, enum tt_wire_end end,
		   const uint8_t host[TT_WIRE_HELLO], const uint8_t client[TT_WIRE_HELLO],
		   uint8_t proof[TT_PROOF_BYTES]);

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
