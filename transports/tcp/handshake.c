/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of the handshake. They come from anybody who can reach the port: nothing is
 * believed that was not compared. */
#include <assert.h>
#include <string.h>

#include "handshake.h"
#include "transport.h"
#include "wire.h"

#define VERSION	      2
#define MAGIC_BYTES   8
#define VERSION_BYTES 2
#define FLAG_KEYED    1u
#define ANSWER_HEAD   (MAGIC_BYTES + VERSION_BYTES + 2 + 4 + 8)
#define ANSWER_SAID   (ANSWER_HEAD + TT_NONCE_BYTES) /* what the proofs are of */
static const uint8_t hello_magic[MAGIC_BYTES] = { 't', 'u', 't', 't', 'i', 't', 'c', 'p' };
static const uint8_t answer_magic[MAGIC_BYTES] = { 't', 'u', 't', 't', 'i', 'a', 'c', 'k' };
static_assert(MAGIC_BYTES + VERSION_BYTES + 1 + 1 + 4 + 8 + 4 + 4 + TT_NONCE_BYTES ==
		      TCP_HELLO_BYTES,
	      "hello");
static_assert(ANSWER_SAID + TT_PROOF_BYTES == TCP_ANSWER_BYTES, "answer");

void tt_tcp_hello_write(const struct tcp_hello *hello, const uint8_t nonce[TT_NONCE_BYTES],
			uint8_t out[TCP_HELLO_BYTES])
{
	uint8_t *at = out + MAGIC_BYTES;

	memcpy(out, hello_magic, MAGIC_BYTES);
	at = wire_put(at, VERSION, VERSION_BYTES);
	at = wire_put(at, hello->purpose, 1);
	at = wire_put(at, (uint64_t)hello->channel, 1);
	at = wire_put(at, hello->keyed ? FLAG_KEYED : 0, 4);
	at = wire_put(at, hello->comm_id, 8);
	at = wire_put(at, (uint32_t)hello->from, 4);
	at = wire_put(at, (uint32_t)hello->to, 4);
	memcpy(at, nonce, TT_NONCE_BYTES);
}

static enum tcp_verdict begins(const uint8_t magic[MAGIC_BYTES], const uint8_t *in, size_t length)
{
	const uint8_t *at = in + MAGIC_BYTES;

	if (memcmp(in, magic, length < MAGIC_BYTES ? length : MAGIC_BYTES) != 0)
		return TCP_NO_HELLO;
	if (length >= MAGIC_BYTES + VERSION_BYTES && wire_get(&at, VERSION_BYTES) != VERSION)
		return TCP_OTHER_VERSION;
	return TCP_ACCEPTED;
}

enum tcp_verdict tt_tcp_hello_begins(const uint8_t *in, size_t length)
{
	return begins(hello_magic, in, length);
}

enum tcp_verdict tt_tcp_hello_read(const uint8_t in[TCP_HELLO_BYTES], struct tcp_hello *hello)
{
	const uint8_t *at = in + MAGIC_BYTES + VERSION_BYTES;
	const enum tcp_verdict verdict = begins(hello_magic, in, TCP_HELLO_BYTES);
	uint64_t purpose, flags;

	if (verdict != TCP_ACCEPTED)
		return verdict;
	purpose = wire_get(&at, 1);
	hello->purpose = purpose == TCP_FOR_CONTROL ? TCP_FOR_CONTROL : TCP_FOR_DATA;
	hello->channel = (int)wire_get(&at, 1);
	flags = wire_get(&at, 4);
	hello->keyed = flags & FLAG_KEYED;
	hello->comm_id = wire_get(&at, 8);
	hello->from = (int32_t)wire_get(&at, 4);
	hello->to = (int32_t)wire_get(&at, 4);
	if (purpose > TCP_FOR_CONTROL || hello->channel >= TT_CHANNELS || flags > FLAG_KEYED)
		return TCP_NOT_UNDERSTOOD;
	return TCP_ACCEPTED;
}

/* Of one of the two ends, called by its role. */
static void prove(const struct tt_key *key, const char *role, const uint8_t hello[TCP_HELLO_BYTES],
		  const uint8_t answer[TCP_ANSWER_BYTES], uint8_t proof[TT_PROOF_BYTES])
{
	const struct iovec said[] = {
		{ (void *)(uintptr_t)hello, TCP_HELLO_BYTES },
		{ (void *)(uintptr_t)answer, ANSWER_SAID },
	};

	tt_key_prove(key, role, said, 2, proof);
}

static void prove_listener(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
			   const uint8_t answer[TCP_ANSWER_BYTES], uint8_t proof[TT_PROOF_BYTES])
{
	prove(key, "tutti tcp listener", hello, answer, proof);
}

void tt_tcp_confirm_write(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
			  const uint8_t answer[TCP_ANSWER_BYTES], uint8_t out[TCP_CONFIRM_BYTES])
{
	prove(key, "tutti tcp dialer", hello, answer, out);
}

enum tcp_verdict tt_tcp_confirm_read(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
				     const uint8_t answer[TCP_ANSWER_BYTES],
				     const uint8_t in[TCP_CONFIRM_BYTES])
{
	uint8_t expected[TCP_CONFIRM_BYTES];

	tt_tcp_confirm_write(key, hello, answer, expected);
	return tt_proof_equal(in, expected) ? TCP_ACCEPTED : TCP_OTHER_KEY;
}

void tt_tcp_answer_write(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES], int rank,
			 enum tcp_verdict verdict, const uint8_t nonce[TT_NONCE_BYTES],
			 uint8_t out[TCP_ANSWER_BYTES])
{
	struct tcp_hello asked = { 0 };
	uint8_t *at = out + MAGIC_BYTES;

	memset(out, 0, TCP_ANSWER_BYTES);
	memcpy(out, answer_magic, MAGIC_BYTES);
	at = wire_put(at, VERSION, VERSION_BYTES);
	at = wire_put(at, verdict, 2);
	if (verdict != TCP_ACCEPTED)
		return;
	tt_tcp_hello_read(hello, &asked);
	at = wire_put(at, (uint32_t)rank, 4);
	at = wire_put(at, asked.comm_id, 8);
	memcpy(at, nonce, TT_NONCE_BYTES);
	prove_listener(key, hello, out, out + ANSWER_SAID);
}

enum tcp_verdict tt_tcp_answer_begins(const uint8_t *in, size_t length)
{
	return begins(answer_magic, in, length);
}

/* The other end's verdict on this one, as this one's on the other: of the two, only one has a
 * key, or encrypts. */
static enum tcp_verdict turn(uint64_t verdict, bool keyed)
{
	if (verdict == TCP_KEYED || verdict == TCP_KEYLESS)
		return keyed ? TCP_KEYLESS : TCP_KEYED;
	if (verdict == TCP_PLAIN)
		return TCP_ENCRYPTED;
	return verdict < TCP_VERDICTS ? (enum tcp_verdict)verdict : TCP_NOT_UNDERSTOOD;
}

enum tcp_verdict tt_tcp_answer_read(const struct tt_key *key, const uint8_t hello[TCP_HELLO_BYTES],
				    const uint8_t in[TCP_ANSWER_BYTES])
{
	const uint8_t *at = in + MAGIC_BYTES + VERSION_BYTES;
	enum tcp_verdict verdict = begins(answer_magic, in, TCP_ANSWER_BYTES);
	uint8_t expected[TT_PROOF_BYTES];
	struct tcp_hello asked = { 0 };

	if (verdict != TCP_ACCEPTED)
		return verdict;
	tt_tcp_hello_read(hello, &asked);
	verdict = turn(wire_get(&at, 2), asked.keyed);
	if (verdict != TCP_ACCEPTED)
		return verdict;
	if ((int32_t)wire_get(&at, 4) != asked.to)
		return TCP_OTHER_RANK;
	if (wire_get(&at, 8) != asked.comm_id)
		return TCP_OTHER_JOB;
	prove_listener(key, hello, in, expected);
	return tt_proof_equal(in + ANSWER_SAID, expected) ? TCP_ACCEPTED : TCP_OTHER_KEY;
}

const char *tt_tcp_verdict_text(enum tcp_verdict verdict)
{
	static const char *const texts[TCP_VERDICTS] = {
		[TCP_ACCEPTED] = "accepted",
		[TCP_NO_HELLO] = "does not speak tutti's protocol",
		[TCP_OTHER_VERSION] = "speaks another version of tutti's protocol",
		[TCP_OTHER_JOB] = "belongs to another job or communicator",
		[TCP_OTHER_RANK] = "is another rank, or meant another",
		[TCP_NOT_UNDERSTOOD] = "asked for something unknown",
		[TCP_DUPLICATE] = "has this connection already",
		[TCP_KEYED] =
			"has a key, and this rank has none: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		[TCP_KEYLESS] =
			"has no key, and this rank has one: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		[TCP_OTHER_KEY] =
			"has another key than this rank: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
		[TCP_PLAIN] =
			"does not encrypt, and this rank does: give all ranks the same TUTTI_ENCRYPT",
		[TCP_ENCRYPTED] =
			"encrypts, and this rank does not: give all ranks the same TUTTI_ENCRYPT",
	};

	return texts[verdict];
}
