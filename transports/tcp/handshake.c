/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of the handshake. They come from anybody who can reach the port: nothing is
 * believed that was not compared. */
#include <assert.h>
#include <string.h>

#include "handshake.h"
#include "transport.h"
#include "wire.h"

#define VERSION	    1
#define MAGIC_BYTES 8
static const uint8_t hello_magic[MAGIC_BYTES] = { 't', 'u', 't', 't', 'i', 't', 'c', 'p' };
static const uint8_t answer_magic[MAGIC_BYTES] = { 't', 'u', 't', 't', 'i', 'a', 'c', 'k' };
static_assert(MAGIC_BYTES + 2 + 1 + 1 + 4 + 8 + 4 + 4 == TCP_HELLO_BYTES, "hello");
static_assert(MAGIC_BYTES + 2 + 2 + 4 + 8 == TCP_ANSWER_BYTES, "answer");

void tt_tcp_hello_write(const struct tcp_hello *hello, uint8_t out[TCP_HELLO_BYTES])
{
	uint8_t *at = out + MAGIC_BYTES;

	memcpy(out, hello_magic, MAGIC_BYTES);
	at = wire_put(at, VERSION, 2);
	at = wire_put(at, hello->purpose, 1);
	at = wire_put(at, (uint64_t)hello->lane, 1);
	at = wire_put(at, 0, 4);
	at = wire_put(at, hello->comm_id, 8);
	at = wire_put(at, (uint32_t)hello->from, 4);
	wire_put(at, (uint32_t)hello->to, 4);
}

bool tt_tcp_hello_begins(const uint8_t *in, size_t length)
{
	return memcmp(in, hello_magic, length < MAGIC_BYTES ? length : MAGIC_BYTES) == 0;
}

enum tcp_verdict tt_tcp_hello_read(const uint8_t in[TCP_HELLO_BYTES], struct tcp_hello *hello)
{
	const uint8_t *at = in + MAGIC_BYTES;
	uint64_t purpose, flags;

	if (memcmp(in, hello_magic, MAGIC_BYTES) != 0)
		return TCP_NO_HELLO;
	if (wire_get(&at, 2) != VERSION)
		return TCP_OTHER_VERSION;
	purpose = wire_get(&at, 1);
	hello->purpose = purpose == TCP_FOR_CONTROL ? TCP_FOR_CONTROL : TCP_FOR_DATA;
	hello->lane = (int)wire_get(&at, 1);
	flags = wire_get(&at, 4);
	hello->comm_id = wire_get(&at, 8);
	hello->from = (int32_t)wire_get(&at, 4);
	hello->to = (int32_t)wire_get(&at, 4);
	if (purpose > TCP_FOR_CONTROL || hello->lane >= TT_LANES || flags != 0)
		return TCP_NOT_UNDERSTOOD;
	return TCP_ACCEPTED;
}

void tt_tcp_answer_write(const struct tcp_hello *hello, int rank, enum tcp_verdict verdict,
			 uint8_t out[TCP_ANSWER_BYTES])
{
	const bool accepted = verdict == TCP_ACCEPTED;
	uint8_t *at = out + MAGIC_BYTES;

	memcpy(out, answer_magic, MAGIC_BYTES);
	at = wire_put(at, VERSION, 2);
	at = wire_put(at, verdict, 2);
	at = wire_put(at, accepted ? (uint32_t)rank : 0, 4);
	wire_put(at, accepted ? hello->comm_id : 0, 8);
}

enum tcp_verdict tt_tcp_answer_read(const uint8_t in[TCP_ANSWER_BYTES],
				    const struct tcp_hello *hello)
{
	const uint8_t *at = in + MAGIC_BYTES;
	uint64_t verdict;

	if (memcmp(in, answer_magic, MAGIC_BYTES) != 0)
		return TCP_NO_HELLO;
	if (wire_get(&at, 2) != VERSION)
		return TCP_OTHER_VERSION;
	verdict = wire_get(&at, 2);
	if (verdict != TCP_ACCEPTED)
		return verdict < TCP_VERDICTS ? (enum tcp_verdict)verdict : TCP_NOT_UNDERSTOOD;
	if ((int32_t)wire_get(&at, 4) != hello->to)
		return TCP_OTHER_RANK;
	return wire_get(&at, 8) == hello->comm_id ? TCP_ACCEPTED : TCP_OTHER_JOB;
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
	};

	return texts[verdict];
}
