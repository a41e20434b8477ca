/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of every connection: the dialling rank says who it is and what for, the other
 * answers.
 *
 *   hello   "tuttitcp" version:2 purpose:1 lane:1 flags:4 comm_id:8 from:4 to:4
 *   answer  "tuttiack" version:2 verdict:2 rank:4 comm_id:8
 *
 * Flags are 0; a proof of a shared key, or TLS, would be asked for there and take its turn between
 * hello and answer. A refusal does not repeat comm_id: it is told to those who know it. */
#ifndef TT_TCP_HANDSHAKE_H
#define TT_TCP_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_HELLO_BYTES	 32
#define TCP_ANSWER_BYTES 24

enum tcp_purpose { TCP_FOR_DATA, TCP_FOR_CONTROL };

struct tcp_hello {
	enum tcp_purpose purpose;
	int lane;
	uint64_t comm_id;
	int from, to;
};

enum tcp_verdict {
	TCP_ACCEPTED,
	TCP_NO_HELLO, /* not even answered */
	TCP_OTHER_VERSION,
	TCP_OTHER_JOB,
	TCP_OTHER_RANK,
	TCP_NOT_UNDERSTOOD,
	TCP_DUPLICATE,
	TCP_VERDICTS
};

void tt_tcp_hello_write(const struct tcp_hello *hello, uint8_t out[TCP_HELLO_BYTES]);
/* Can the first `length` bytes be those of a hello? */
bool tt_tcp_hello_begins(const uint8_t *in, size_t length);
/* TCP_ACCEPTED: the bytes are a hello of this version; whether it is welcome is another matter. */
enum tcp_verdict tt_tcp_hello_read(const uint8_t in[TCP_HELLO_BYTES], struct tcp_hello *hello);

void tt_tcp_answer_write(const struct tcp_hello *hello, int rank, enum tcp_verdict verdict,
			 uint8_t out[TCP_ANSWER_BYTES]);
/* TCP_ACCEPTED: the rank that `hello` was meant for accepts it. */
enum tcp_verdict tt_tcp_answer_read(const uint8_t in[TCP_ANSWER_BYTES],
				    const struct tcp_hello *hello);

/* What the verdict says about the other side. */
const char *tt_tcp_verdict_text(enum tcp_verdict verdict);

#endif
