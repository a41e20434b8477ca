/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's key, and proofs of it.
 *
 * A process that has the key belongs to the job. The key never travels. Both ends of a connection
 * send a nonce, then each sends a proof: the HMAC-SHA256, by the key, of all that both have said,
 * of who says it to whom, and of the purpose. So a proof is worth nothing on another connection, in
 * the other direction, or for anything else. */
#ifndef TT_SPI_KEY_H
#define TT_SPI_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "tutti/tutti.h"

#define TT_KEY_BYTES   32
#define TT_NONCE_BYTES 32
#define TT_PROOF_BYTES 32

struct tt_key {
	bool set; /* false: the job has none, and is reached over loopback and unix sockets only */
	uint8_t bytes[TT_KEY_BYTES];
	bool encrypt; /* TLS (tls.h) on all TCP connections; only with a key */
};

static inline bool tt_key_is_set(const struct tt_key *key)
{
	return key && key->set;
}

/* At most 256, which nobody else has, or can guess. */
tutti_result_t tt_random(void *bytes, size_t length);

/* The proof that the process playing `role` (a name that no other use of the key has) has the key
 * and has seen the parts as they are here. Without a key: zeros. */
void tt_key_prove(const struct tt_key *key, const char *role, const struct iovec *parts, int n,
		  uint8_t proof[TT_PROOF_BYTES]);
/* Takes a time that does not depend on where they differ. */
bool tt_proof_equal(const uint8_t a[TT_PROOF_BYTES], const uint8_t b[TT_PROOF_BYTES]);

/* Overwrite it. */
void tt_key_wipe(struct tt_key *key);

#endif
