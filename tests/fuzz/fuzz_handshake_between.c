/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake of two ranks of one job in which somebody on the way changes bits: the input
 * says whether they have a key, and then which bits of hello, answer and confirmation. */
#include <string.h>

#include "endpoint.h"
#include "fuzz.h"

static const struct tt_hello asked = { TCP_FOR_DATA, 1, UINT64_C(0x123456789abcdef0), 2, 5, false };

static bool change(uint8_t *bytes, const uint8_t *mask, size_t n)
{
	bool some = false;

	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= mask[i];
		some |= mask[i] != 0;
	}
	return some;
}

/* With a key no change goes unnoticed by the end that it is to fool. */
static void between(const struct tt_key *key, const uint8_t *mask)
{
	static const uint8_t nonce[2][TT_NONCE_BYTES] = { { 1, 2, 3 }, { 4, 5, 6 } };
	uint8_t hello[TT_HELLO_BYTES], heard[TT_HELLO_BYTES], said[TT_ANSWER_BYTES],
		answer[TT_ANSWER_BYTES];
	uint8_t confirm[TT_CONFIRM_BYTES];
	struct tt_hello own = asked;

	own.keyed = key->set;
	tt_hello_write(&tt_tcp_protocol, &own, nonce[0], hello);
	memcpy(heard, hello, sizeof(heard));
	bool changed = change(heard, mask, sizeof(heard));
	tt_answer_write(&tt_tcp_protocol, key, heard, own.to, TT_VERDICT_ACCEPTED, nonce[1], said);
	memcpy(answer, said, sizeof(answer));
	changed |= change(answer, mask + TT_HELLO_BYTES, sizeof(answer));
	const enum tt_verdict accepted = tt_answer_read(&tt_tcp_protocol, key, hello, answer);
	FUZZ_PROMISE(accepted < TT_VERDICTS);
	if (key->set || !changed)
		FUZZ_PROMISE((accepted == TT_VERDICT_ACCEPTED) == !changed);
	tt_confirm_write(&tt_tcp_protocol, key, hello, answer, confirm);
	changed |= change(confirm, mask + TT_HELLO_BYTES + TT_ANSWER_BYTES, sizeof(confirm));
	/* the listener's own proof is no part of what the other confirms: who changes that is
	 * found out by the dialer */
	if (key->set && memcmp(heard, hello, sizeof(hello)) != 0)
		FUZZ_PROMISE(tt_confirm_read(&tt_tcp_protocol, key, heard, said, confirm) ==
			     TT_VERDICT_OTHER_KEY);
	if (!changed)
		FUZZ_PROMISE(tt_confirm_read(&tt_tcp_protocol, key, heard, said, confirm) ==
			     TT_VERDICT_ACCEPTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mask[TT_HELLO_BYTES + TT_ANSWER_BYTES + TT_CONFIRM_BYTES] = { 0 };
	const struct tt_key key = { .set = size > 0 && data[0] % 2,
				    .bytes = { 0x5c, 0xa1, 0xab, 0x1e } };

	if (size == 0)
		return 0;
	memcpy(mask, data + 1, size - 1 < sizeof(mask) ? size - 1 : sizeof(mask));
	between(&key, mask);
	return 0;
}
