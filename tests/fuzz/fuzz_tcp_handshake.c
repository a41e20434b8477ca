/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of a connection between ranks, from somebody who has not the key: as the
 * listener reads them, and as the dialer does. */
#include <string.h>

#include "fuzz.h"
#include "handshake.h"
#include "transport.h"

static const struct tt_key key = { true, { 1, 2, 3 } };
static const uint8_t nonce[TT_NONCE_BYTES] = { 4, 5, 6 };

static void listen_to(const uint8_t in[TCP_HELLO_BYTES])
{
	uint8_t again[TCP_HELLO_BYTES], answer[TCP_ANSWER_BYTES];
	struct tcp_hello hello = { 0 };
	const enum tcp_verdict verdict = tt_tcp_hello_read(in, &hello);

	FUZZ_PROMISE(verdict < TCP_VERDICTS && tt_tcp_verdict_text(verdict));
	if (verdict != TCP_ACCEPTED)
		return;
	FUZZ_PROMISE(hello.channel >= 0 && hello.channel < TT_CHANNELS);
	tt_tcp_hello_write(&hello, in + TCP_HELLO_BYTES - TT_NONCE_BYTES, again);
	FUZZ_PROMISE(memcmp(again, in, sizeof(again)) == 0);
	tt_tcp_answer_write(&key, in, hello.to, TCP_ACCEPTED, nonce, answer);
	FUZZ_PROMISE(tt_tcp_answer_read(&key, in, answer) == TCP_ACCEPTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tcp_hello asked = {
		.purpose = TCP_FOR_DATA, .comm_id = 7, .to = 1, .keyed = true
	};
	uint8_t bytes[TCP_ANSWER_BYTES + TCP_CONFIRM_BYTES] = { 0 }, hello[TCP_HELLO_BYTES];

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	if (size > 0 && size <= TCP_HELLO_BYTES) {
		/* what its beginning rules out, the whole does not bring back */
		const enum tcp_verdict verdict = tt_tcp_hello_begins(data, size);

		FUZZ_PROMISE(verdict == TCP_ACCEPTED ||
			     tt_tcp_hello_begins(bytes, TCP_HELLO_BYTES) != TCP_ACCEPTED);
		tt_tcp_answer_begins(data, size);
	}
	listen_to(bytes);
	tt_tcp_hello_write(&asked, nonce, hello);
	FUZZ_PROMISE(tt_tcp_answer_read(&key, hello, bytes) != TCP_ACCEPTED);
	FUZZ_PROMISE(tt_tcp_confirm_read(&key, hello, bytes, bytes + TCP_ANSWER_BYTES) !=
		     TCP_ACCEPTED);
	return 0;
}
