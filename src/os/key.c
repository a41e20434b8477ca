/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the making of keys, and what is computed with one: HMAC-SHA256 (RFC 2104) over parts that are told apart by
 * their lengths.
 *
 * It stands on libcrypto's SHA-256 itself rather than on EVP_MAC: the first use of EVP makes the
 * library fill its tables of all algorithms, which takes a process 0.9 ms, a sixth of the time
 * in which four ranks start and have their first result. These calls take 10 µs. The test
 * compares with EVP_MAC. */
#define OPENSSL_API_COMPAT                                                                         \
	10101 /* SHA256_Init() and its kind are there, but no longer recommended */
#include "key.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/random.h>

#include "log.h"

#define INNER 0x36
#define OUTER 0x5c

tutti_result_t tt_random(void *bytes, size_t length)
{
	return getrandom(bytes, length, 0) == (ssize_t)length
		       ? TUTTI_OK
		       : tt_fail_errno(COMM, "read random bytes");
}

TUTTI_API tutti_result_t tutti_key_make(char key[TUTTI_KEY_LENGTH + 1])
{
	uint8_t random[TT_KEY_BYTES];
	static const char digits[] = "0123456789abcdef";

	if (!key)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_key_make: key is NULL");
	key[0] = '\0';
	const tutti_result_t result = tt_random(random, sizeof(random));
	if (result)
		return result;
	for (int i = 0; i < TT_KEY_BYTES; i++) {
		key[2 * i] = digits[random[i] >> 4];
		key[2 * i + 1] = digits[random[i] & 15];
	}
	key[TUTTI_KEY_LENGTH] = '\0';
	OPENSSL_cleanse(random, sizeof(random));
	return TUTTI_OK;
}

/* The hash of what follows the key, padded to a block with `pad`. */
static void begin(SHA256_CTX *hash, const struct tt_key *key, uint8_t pad)
{
	uint8_t block[SHA256_CBLOCK];

	memset(block, pad, sizeof(block));
	for (int i = 0; i < TT_KEY_BYTES; i++)
		block[i] ^= key->bytes[i];
	SHA256_Init(hash);
	SHA256_Update(hash, block, sizeof(block));
	OPENSSL_cleanse(block, sizeof(block));
}

static void add(SHA256_CTX *hash, const void *bytes, size_t length)
{
	uint8_t count[8];

	for (int i = 0; i < 8; i++)
		count[i] = (uint8_t)((uint64_t)length >> (8 * i));
	SHA256_Update(hash, count, sizeof(count));
	SHA256_Update(hash, bytes, length);
}

void tt_key_prove(const struct tt_key *key, const char *role, const struct iovec *parts, int n,
		  uint8_t proof[TT_PROOF_BYTES])
{
	uint8_t inner[SHA256_DIGEST_LENGTH];
	SHA256_CTX hash;

	memset(proof, 0, TT_PROOF_BYTES);
	if (!tt_key_is_set(key))
		return;
	begin(&hash, key, INNER);
	add(&hash, role, strlen(role));
	for (int i = 0; i < n; i++)
		add(&hash, parts[i].iov_base, parts[i].iov_len);
	SHA256_Final(inner, &hash);
	begin(&hash, key, OUTER);
	SHA256_Update(&hash, inner, sizeof(inner));
	SHA256_Final(proof, &hash);
	OPENSSL_cleanse(&hash, sizeof(hash));
	OPENSSL_cleanse(inner, sizeof(inner));
}

bool tt_proof_equal(const uint8_t a[TT_PROOF_BYTES], const uint8_t b[TT_PROOF_BYTES])
{
	return CRYPTO_memcmp(a, b, TT_PROOF_BYTES) == 0;
}

void tt_key_wipe(struct tt_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}
