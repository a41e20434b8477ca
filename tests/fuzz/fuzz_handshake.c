/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes of a connection, from somebody who has not the key: as the
 * listener reads them, and as the dialer does. */
#include <string.h>

#include "endpoint.h"
#include "fuzz.h"

static const struct tt_key key = { true, { 1, 2, 3 } };
static const uint8_t nonce[TT_NONCE_BYTES] = { 4, 5, 6 };

static void listen_to(const uint8_t in[TT_HELLO_BYTES])
{
	uint8_t again[TT_HELLO_BYTES], answer[TT_ANSWER_BYTES];
	struct tt_hello hello = { 0 };
	const enum tt_verdict verdict = tt_hello_read(&tt_tcp_protocol, in, &hello);

	FUZZ_PROMISE(verdict < TT_VERDICTS && tt_verdict_text(verdict));
	if (verdict != TT_VERDICT_ACCEPTED)
		return;
	FUZZ_PROMISE(hello.channel >= 0 && hello.channel < 256);
	tt_hello_write(&tt_tcp_protocol, &hello, in + TT_HELLO_BYTES - TT_NONCE_BYTES, again);
	FUZZ_PROMISE(memcmp(again, in, sizeof(again)) == 0);
	tt_answer_write(&tt_tcp_protocol, &key, in, hello.to, TT_VERDICT_ACCEPTED, nonce, answer);
	FUZZ_PROMISE(tt_answer_read(&tt_tcp_protocol, &key, in, answer) == TT_VERDICT_ACCEPTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tt_hello asked = {
		.purpose = TCP_FOR_DATA, .comm_id = 7, .to = 1, .keyed = true
	};
	uint8_t bytes[TT_ANSWER_BYTES + TT_CONFIRM_BYTES] = { 0 }, hello[TT_HELLO_BYTES];

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	if (size > 0 && size <= TT_HELLO_BYTES) {
		/* what its beginning rules out, the whole does not bring back */
		const enum tt_verdict verdict = tt_hello_begins(&tt_tcp_protocol, data, size);

		FUZZ_PROMISE(verdict == TT_VERDICT_ACCEPTED ||
			     tt_hello_begins(&tt_tcp_protocol, bytes, TT_HELLO_BYTES) !=
				     TT_VERDICT_ACCEPTED);
		tt_answer_begins(&tt_tcp_protocol, data, size);
	}
	listen_to(bytes);
	tt_hello_write(&tt_tcp_protocol, &asked, nonce, hello);
	FUZZ_PROMISE(tt_answer_read(&tt_tcp_protocol, &key, hello, bytes) != TT_VERDICT_ACCEPTED);
	FUZZ_PROMISE(tt_confirm_read(&tt_tcp_protocol, &key, hello, bytes,
				     bytes + TT_ANSWER_BYTES) != TT_VERDICT_ACCEPTED);
	return 0;
}
