/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of every connection: the dialling rank says who it is and what for, the other
 * answers, the first confirms. What follows belongs to the link.
 *
 *   hello    "tuttitcp" version:2 purpose:1 channel:1 flags:4 comm_id:8 from:4 to:4 nonce:32
 *   answer   "tuttiack" version:2 verdict:2 rank:4 comm_id:8 nonce:32 proof:32
 *   confirm  proof:32
 *
 * Flag 1: the job has a key. Then each proof (key.h) is of the whole hello, the answer up to its
 * proof, and of who of the two gives it; so it is good for this communicator, these two ranks in
 * these roles, this purpose and channel, and these nonces alone. The listener proves first; a
 * dialer to which that proof is none confirms with zeros. Without a key proofs are zeros. A
 * refusal repeats nothing but its verdict: what it refuses is told to those who know it. */
#ifndef TT_TCP_HANDSHAKE_H
#define TT_TCP_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

#define TCP_HELLO_BYTES	  64
#define TCP_ANSWER_BYTES  88
#define TCP_CONFIRM_BYTES TT_PROOF_BYTES

enum tcp_purpose { TCP_FOR_DATA, TCP_FOR_CONTROL };

struct tcp_hello {
	enum tcp_purpose purpose;
	int channel;
	uint64_t comm_id;
	int from, to;
	bool keyed;
};

/* What is wrong with the other side. */
enum tcp_verdict {
	TCP_ACCEPTED,
	TCP_NO_HELLO, /* not even answered */
	TCP_OTHER_VERSION,
	TCP_OTHER_JOB,
	TCP_OTHER_RANK,
	TCP_NOT_UNDERSTOOD,
	TCP_DUPLICATE,
	TCP_KEYED,
	TCP_KEYLESS,
	TCP_OTHER_KEY,
	TCP_PLAIN,
	TCP_ENCRYPTED, /* not even answered */
	TCP_VERDICTS
};

void tt_tcp_hello_write(const struct tcp_hello *hello, const uint8_t nonce[TT_NONCE_BYTES],
			uint8_t out[TCP_HELLO_BYTES]);
/* TCP_ACCEPTED: the first `length` bytes can be those of a hello of this version; more are worth
 * waiting for. */
enum tcp_verdict tt_tcp_hello_begins(const uint8_t *in, size_t length);
/* TCP_ACCEPTED: the bytes are a hello of this version; whether it is welcome is another matter. */
enum tcp_verdict tt_tcp_hello_read(const uint8_t in[TCP_HELLO_BYTES], struct tcp_hello *hello);

/* The answer of `rank` to a hello. */
void tt_tcp_answer_write(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES], int rank,
			 enum tcp_verdict verdict, const uint8_t nonce[TT_NONCE_BYTES],
			 uint8_t out[TCP_ANSWER_BYTES]);
/* TCP_ACCEPTED: the first `length` bytes can be those of an answer of this version. */
enum tcp_verdict tt_tcp_answer_begins(const uint8_t *in, size_t length);
/* TCP_ACCEPTED: the rank that the hello was meant for accepts it, and has the key. */
enum tcp_verdict tt_tcp_answer_read(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
				    const uint8_t in[TCP_ANSWER_BYTES]);

/* The last word of the dialer, to an answer that it accepts. */
void tt_tcp_confirm_write(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
			  const uint8_t answer[TCP_ANSWER_BYTES], uint8_t out[TCP_CONFIRM_BYTES]);
/* TCP_ACCEPTED: it has the key. */
enum tcp_verdict tt_tcp_confirm_read(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
				     const uint8_t answer[TCP_ANSWER_BYTES],
				     const uint8_t in[TCP_CONFIRM_BYTES]);

/* What the verdict says about the other side. */
const char *tt_tcp_verdict_text(enum tcp_verdict verdict);

#endif
