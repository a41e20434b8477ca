/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of every connection over which strangers could come: those between ranks, and
 * those with the host of a store. The dialer says who it is and what it wants, the listener
 * answers, the dialer confirms. What follows belongs to the connection's owner.
 *
 *   hello    magic:8 version:2 purpose:1 channel:1 flags:4 comm_id:8 from:4 to:4 nonce:32
 *   answer   magic:8 version:2 verdict:2 rank:4 comm_id:8 nonce:32 proof:32
 *   confirm  proof:32
 *
 * Flag 1: the job has a key. Then each proof (key.h) is of the whole hello, the answer up to its
 * proof, and of who of the two gives it; so it is good for this protocol, these two ends in these
 * roles, this purpose and channel, and these nonces alone. The listener proves first; a dialer to
 * which that proof is none confirms with zeros. Without a key proofs are zeros. A refusal repeats
 * nothing but its verdict. Where the job encrypts, all of this is inside TLS (tls.h), which says the
 * dialer's rank before.
 *
 * Nothing here waits: a step goes on with what the socket has, and says what it waits for. */
#ifndef TT_SPI_HANDSHAKE_H
#define TT_SPI_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"
#include "tls.h"

#define TT_MAGIC_BYTES	 8
#define TT_HELLO_BYTES	 64
#define TT_ANSWER_BYTES	 88
#define TT_CONFIRM_BYTES TT_PROOF_BYTES

/* Constants. */
struct tt_protocol {
	uint8_t hello[TT_MAGIC_BYTES], answer[TT_MAGIC_BYTES];
	uint16_t version;
	const char *listener, *dialer; /* the ends' names in proofs */
};

struct tt_hello {
	int purpose, channel; /* 0 to 255; the protocol says what they mean */
	uint64_t comm_id;
	int from, to; /* ranks; -1: it does not say */
	bool keyed;
};

/* What is wrong with the other end. */
enum tt_verdict {
	TT_VERDICT_ACCEPTED,
	TT_VERDICT_NO_HELLO, /* not even answered */
	TT_VERDICT_OTHER_VERSION,
	TT_VERDICT_OTHER_JOB,
	TT_VERDICT_OTHER_RANK,
	TT_VERDICT_NOT_UNDERSTOOD,
	TT_VERDICT_DUPLICATE,
	TT_VERDICT_KEYED,
	TT_VERDICT_KEYLESS,
	TT_VERDICT_OTHER_KEY,
	TT_VERDICT_PLAIN,
	TT_VERDICT_ENCRYPTED,
	TT_VERDICT_NO_TLS, /* the TLS handshake failed */
	TT_VERDICT_GONE,
	TT_VERDICT_SYSTEM, /* this end lacks something */
	TT_VERDICTS
};

/* What the verdict says about the other end: "has another key: …". */
const char *tt_verdict_text(enum tt_verdict verdict);

/* ---- bytes */

void tt_hello_write(const struct tt_protocol *protocol, const struct tt_hello *hello,
		    const uint8_t nonce[TT_NONCE_BYTES], uint8_t out[TT_HELLO_BYTES]);
/* TT_VERDICT_ACCEPTED: the first `length` bytes can be those of a hello of this version; more are
 * worth waiting for. */
enum tt_verdict tt_hello_begins(const struct tt_protocol *protocol, const uint8_t *in,
				size_t length);
/* TT_VERDICT_ACCEPTED: the bytes are a hello of this version; whether it is welcome is another
 * matter. Numbers stand where this version has them whatever the verdict is. */
enum tt_verdict tt_hello_read(const struct tt_protocol *protocol, const uint8_t in[TT_HELLO_BYTES],
			      struct tt_hello *hello);

/* The answer of `rank` to a hello. */
void tt_answer_write(const struct tt_protocol *protocol, const struct tt_key *key,
		     const uint8_t hello[TT_HELLO_BYTES], int rank, enum tt_verdict verdict,
		     const uint8_t nonce[TT_NONCE_BYTES], uint8_t out[TT_ANSWER_BYTES]);
/* TT_VERDICT_ACCEPTED: the first `length` bytes can be those of an answer of this version. */
enum tt_verdict tt_answer_begins(const struct tt_protocol *protocol, const uint8_t *in,
				 size_t length);
/* TT_VERDICT_ACCEPTED: the rank that the hello was meant for accepts it, and has the key. */
enum tt_verdict tt_answer_read(const struct tt_protocol *protocol, const struct tt_key *key,
			       const uint8_t hello[TT_HELLO_BYTES],
			       const uint8_t in[TT_ANSWER_BYTES]);

/* The last word of the dialer, to an answer that it accepts. */
void tt_confirm_write(const struct tt_protocol *protocol, const struct tt_key *key,
		      const uint8_t hello[TT_HELLO_BYTES], const uint8_t answer[TT_ANSWER_BYTES],
		      uint8_t out[TT_CONFIRM_BYTES]);
/* TT_VERDICT_ACCEPTED: it has the key. */
enum tt_verdict tt_confirm_read(const struct tt_protocol *protocol, const struct tt_key *key,
				const uint8_t hello[TT_HELLO_BYTES],
				const uint8_t answer[TT_ANSWER_BYTES],
				const uint8_t in[TT_CONFIRM_BYTES]);

/* ---- the two ends */

/* What all handshakes of one owner share. */
struct tt_handshake_terms {
	const struct tt_protocol *protocol;
	const struct tt_key *key;
	struct tt_tls *tls; /* NULL: connections are plain */
};

enum tt_handshake_state {
	TT_HANDSHAKE_READS,  /* go on when the socket can be read … */
	TT_HANDSHAKE_WRITES, /* … or written */
	TT_HANDSHAKE_DONE,   /* what comes next on the connection is its owner's */
	TT_HANDSHAKE_FAILED  /* `verdict` and `why` are set; the owner closes the socket and the
			      * stream */
};

/* The dialer's end of one. */
struct tt_dialing {
	bool asked; /* the hello is sent */
	enum tt_verdict verdict;
	const char *why; /* about the other end; good until the thread's next failure */
	size_t got;	 /* of the answer */
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];
};

/* The socket of `connection` is connected and non-blocking, and nothing was sent on it.
 * `hello->keyed` is not looked at. */
enum tt_handshake_state tt_dialing_begin(const struct tt_handshake_terms *terms,
					 struct tt_dialing *dialing,
					 struct tt_connection *connection,
					 const struct tt_hello *hello);
enum tt_handshake_state tt_dialing_step(const struct tt_handshake_terms *terms,
					struct tt_dialing *dialing,
					struct tt_connection *connection);

/* Where the connections of strangers come in. */
struct tt_listener {
	struct tt_handshake_terms terms;
	int rank; /* of this end */
	/* Is a hello that says this welcome? Asked again when its proof has come, as another
	 * connection may have been let in meanwhile. */
	enum tt_verdict (*judge)(const void *context, const struct tt_hello *hello);
	const void *context;
};

/* The listener's end of one: a pending connection. */
struct tt_pending {
	enum tt_pending_stage {
		TT_PENDING_TLS,
		TT_PENDING_HELLO,
		TT_PENDING_CONFIRM
	} stage; /* what is to come from it */
	bool encrypts;
	uint64_t deadline; /* the owner's */
	enum tt_verdict verdict;
	const char *why;      /* as in tt_dialing */
	struct tt_hello says; /* to be believed when the handshake is done; `from` is -1 until it
			       * has said who it is */
	size_t got;	      /* of what is to come */
	uint8_t hello[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES], confirm[TT_CONFIRM_BYTES];
};

/* `encrypts`: the connection is one of those that TLS is for, if this listener has it. */
void tt_pending_init(const struct tt_listener *listener, struct tt_pending *pending, bool encrypts,
		     uint64_t deadline);
enum tt_handshake_state tt_pending_step(const struct tt_listener *listener,
					struct tt_pending *pending,
					struct tt_connection *connection);
/* Where they are too many: does `a` make room before `b`? Who has proven less does, then who has
 * waited longer. */
bool tt_pending_less_welcome(const struct tt_pending *a, const struct tt_pending *b);

#endif
