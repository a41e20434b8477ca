/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of the handshake. They come from anybody who can reach the port: nothing is
 * believed that was not compared. */
#include "handshake.h"

#include <assert.h>
#include <string.h>

#include "wire.h"

#define VERSION_BYTES 2
#define FLAG_KEYED    1u
#define ANSWER_HEAD   (TT_MAGIC_BYTES + VERSION_BYTES + 2 + 4 + 8)
#define ANSWER_SAID   (ANSWER_HEAD + TT_NONCE_BYTES) /* what the proofs are of */
static_assert(TT_MAGIC_BYTES + VERSION_BYTES + 1 + 1 + 4 + 8 + 4 + 4 + TT_NONCE_BYTES ==
		      TT_HELLO_BYTES,
	      "hello");
static_assert(ANSWER_SAID + TT_PROOF_BYTES == TT_ANSWER_BYTES, "answer");

void tt_hello_write(const struct tt_protocol *protocol, const struct tt_hello *hello,
		    const uint8_t nonce[TT_NONCE_BYTES], uint8_t out[TT_HELLO_BYTES])
{
	uint8_t *at = out + TT_MAGIC_BYTES;

	memcpy(out, protocol->hello, TT_MAGIC_BYTES);
	at = wire_put(at, protocol->version, VERSION_BYTES);
	at = wire_put(at, (uint64_t)hello->purpose, 1);
	at = wire_put(at, (uint64_t)hello->channel, 1);
	at = wire_put(at, hello->keyed ? FLAG_KEYED : 0, 4);
	at = wire_put(at, hello->comm_id, 8);
	at = wire_put(at, (uint32_t)hello->from, 4);
	at = wire_put(at, (uint32_t)hello->to, 4);
	memcpy(at, nonce, TT_NONCE_BYTES);
}

static enum tt_verdict begins(const uint8_t magic[TT_MAGIC_BYTES], uint16_t version,
			      const uint8_t *in, size_t length)
{
	const uint8_t *at = in + TT_MAGIC_BYTES;

	if (memcmp(in, magic, length < TT_MAGIC_BYTES ? length : TT_MAGIC_BYTES) != 0)
		return TT_VERDICT_NO_HELLO;
	if (length >= TT_MAGIC_BYTES + VERSION_BYTES && wire_get(&at, VERSION_BYTES) != version)
		return TT_VERDICT_OTHER_VERSION;
	return TT_VERDICT_ACCEPTED;
}

enum tt_verdict tt_hello_begins(const struct tt_protocol *protocol, const uint8_t *in,
				size_t length)
{
	return begins(protocol->hello, protocol->version, in, length);
}

enum tt_verdict tt_hello_read(const struct tt_protocol *protocol, const uint8_t in[TT_HELLO_BYTES],
			      struct tt_hello *hello)
{
	const uint8_t *at = in + TT_MAGIC_BYTES + VERSION_BYTES;
	const enum tt_verdict verdict = tt_hello_begins(protocol, in, TT_HELLO_BYTES);

	hello->purpose = (int)wire_get(&at, 1);
	hello->channel = (int)wire_get(&at, 1);
	const uint64_t flags = wire_get(&at, 4);
	hello->keyed = flags & FLAG_KEYED;
	hello->comm_id = wire_get(&at, 8);
	hello->from = (int32_t)wire_get(&at, 4);
	hello->to = (int32_t)wire_get(&at, 4);
	return verdict == TT_VERDICT_ACCEPTED && flags > FLAG_KEYED ? TT_VERDICT_NOT_UNDERSTOOD
								    : verdict;
}

/* Of one of the two ends, called by its role. */
static void prove(const struct tt_key *key, const char *role, const uint8_t hello[TT_HELLO_BYTES],
		  const uint8_t answer[TT_ANSWER_BYTES], uint8_t proof[TT_PROOF_BYTES])
{
	const struct iovec said[] = {
		{ (void *)(uintptr_t)hello, TT_HELLO_BYTES },
		{ (void *)(uintptr_t)answer, ANSWER_SAID },
	};

	tt_key_prove(key, role, said, 2, proof);
}

void tt_confirm_write(const struct tt_protocol *protocol, const struct tt_key *key,
		      const uint8_t hello[TT_HELLO_BYTES], const uint8_t answer[TT_ANSWER_BYTES],
		      uint8_t out[TT_CONFIRM_BYTES])
{
	prove(key, protocol->dialer, hello, answer, out);
}

enum tt_verdict tt_confirm_read(const struct tt_protocol *protocol, const struct tt_key *key,
				const uint8_t hello[TT_HELLO_BYTES],
				const uint8_t answer[TT_ANSWER_BYTES],
				const uint8_t in[TT_CONFIRM_BYTES])
{
	uint8_t expected[TT_CONFIRM_BYTES];

	tt_confirm_write(protocol, key, hello, answer, expected);
	return tt_proof_equal(in, expected) ? TT_VERDICT_ACCEPTED : TT_VERDICT_OTHER_KEY;
}

void tt_answer_write(const struct tt_protocol *protocol, const struct tt_key *key,
		     const uint8_t hello[TT_HELLO_BYTES], int rank, enum tt_verdict verdict,
		     const uint8_t nonce[TT_NONCE_BYTES], uint8_t out[TT_ANSWER_BYTES])
{
	struct tt_hello asked;
	uint8_t *at = out + TT_MAGIC_BYTES;

	memset(out, 0, TT_ANSWER_BYTES);
	memcpy(out, protocol->answer, TT_MAGIC_BYTES);
	at = wire_put(at, protocol->version, VERSION_BYTES);
	at = wire_put(at, verdict, 2);
	if (verdict != TT_VERDICT_ACCEPTED)
		return;
	tt_hello_read(protocol, hello, &asked);
	at = wire_put(at, (uint32_t)rank, 4);
	at = wire_put(at, asked.comm_id, 8);
	memcpy(at, nonce, TT_NONCE_BYTES);
	prove(key, protocol->listener, hello, out, out + ANSWER_SAID);
}

enum tt_verdict tt_answer_begins(const struct tt_protocol *protocol, const uint8_t *in,
				 size_t length)
{
	return begins(protocol->answer, protocol->version, in, length);
}

/* The other end's verdict on this one, as this one's on the other: of the two, only one has a
 * key, or encrypts. */
static enum tt_verdict turn(uint64_t verdict, bool keyed)
{
	if (verdict == TT_VERDICT_KEYED || verdict == TT_VERDICT_KEYLESS)
		return keyed ? TT_VERDICT_KEYLESS : TT_VERDICT_KEYED;
	if (verdict == TT_VERDICT_PLAIN)
		return TT_VERDICT_ENCRYPTED;
	return verdict <= TT_VERDICT_DUPLICATE ? (enum tt_verdict)verdict
					       : TT_VERDICT_NOT_UNDERSTOOD;
}

enum tt_verdict tt_answer_read(const struct tt_protocol *protocol, const struct tt_key *key,
			       const uint8_t hello[TT_HELLO_BYTES],
			       const uint8_t in[TT_ANSWER_BYTES])
{
	const uint8_t *at = in + TT_MAGIC_BYTES + VERSION_BYTES;
	enum tt_verdict verdict = tt_answer_begins(protocol, in, TT_ANSWER_BYTES);
	uint8_t expected[TT_PROOF_BYTES];
	struct tt_hello asked;

	if (verdict != TT_VERDICT_ACCEPTED)
		return verdict;
	tt_hello_read(protocol, hello, &asked);
	verdict = turn(wire_get(&at, 2), asked.keyed);
	if (verdict != TT_VERDICT_ACCEPTED)
		return verdict;
	if ((int32_t)wire_get(&at, 4) != asked.to)
		return TT_VERDICT_OTHER_RANK;
	if (wire_get(&at, 8) != asked.comm_id)
		return TT_VERDICT_OTHER_JOB;
	prove(key, protocol->listener, hello, in, expected);
	return tt_proof_equal(in + ANSWER_SAID, expected) ? TT_VERDICT_ACCEPTED
							  : TT_VERDICT_OTHER_KEY;
}

const char *tt_verdict_text(enum tt_verdict verdict)
{
	static const char *const texts[TT_VERDICTS] = {
		[TT_VERDICT_ACCEPTED] = "accepted",
		[TT_VERDICT_NO_HELLO] = "does not speak tutti's protocol",
		[TT_VERDICT_OTHER_VERSION] =
			"is of another version of tutti: use the same one everywhere",
		[TT_VERDICT_OTHER_JOB] = "belongs to another job or communicator",
		[TT_VERDICT_OTHER_RANK] = "is another rank, or meant another",
		[TT_VERDICT_NOT_UNDERSTOOD] = "asked for something unknown",
		[TT_VERDICT_DUPLICATE] = "has this connection already",
		[TT_VERDICT_KEYED] =
			"has a key, and this end has none: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		[TT_VERDICT_KEYLESS] =
			"has no key, and this end has one: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		[TT_VERDICT_OTHER_KEY] =
			"has another key: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		[TT_VERDICT_PLAIN] =
			"does not encrypt, and this end does: give all ranks the same TUTTI_ENCRYPT",
		[TT_VERDICT_ENCRYPTED] =
			"encrypts, and this end does not: give all ranks the same TUTTI_ENCRYPT",
		[TT_VERDICT_NO_TLS] = "did not get through the TLS handshake",
		[TT_VERDICT_GONE] = "went away",
		[TT_VERDICT_SYSTEM] = "could not be answered",
	};

	return texts[verdict];
}
