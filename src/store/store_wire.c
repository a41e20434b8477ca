/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the format of store messages: writes them and refuses what is none. Touches no socket. */
#include <assert.h>
#include <string.h>

#include "store.h"
#include "store_wire.h"

static const char magic[] = "tutti-st";
#define MAGIC_BYTES (sizeof(magic) - 1)
static_assert(MAGIC_BYTES + 4 == TT_WIRE_FIRST &&
		      TT_WIRE_FIRST + 4 + TT_NONCE_BYTES == TT_WIRE_HELLO,
	      "a hello");

static void put32(uint8_t *out, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

void tt_wire_put_hello(unsigned flags, int claim, const uint8_t nonce[TT_NONCE_BYTES],
		       uint8_t out[TT_WIRE_HELLO])
{
	memcpy(out, magic, MAGIC_BYTES);
	put32(out + MAGIC_BYTES, TT_WIRE_VERSION | flags << 16);
	put32(out + TT_WIRE_FIRST, (uint32_t)(claim + 1));
	memcpy(out + TT_WIRE_FIRST + 4, nonce, TT_NONCE_BYTES);
}

const char *tt_wire_hello_fault(bool keyed, const uint8_t *in, size_t length)
{
	if (memcmp(in, magic, length < MAGIC_BYTES ? length : MAGIC_BYTES) != 0)
		return "does not speak the protocol of a tutti store";
	if (length < TT_WIRE_FIRST)
		return NULL;
	const uint32_t word = get32(in + MAGIC_BYTES), flags = word >> 16;
	if ((word & 0xffff) != TT_WIRE_VERSION)
		return "is of another version of tutti: use the same one everywhere";
	if (flags == (TT_WIRE_KEYED | TT_WIRE_ENCRYPTED))
		return "encrypts, and this rank does not: give all ranks the same TUTTI_ENCRYPT";
	if (flags > TT_WIRE_KEYED)
		return "asks for something unknown";
	if (flags == TT_WIRE_KEYED && !keyed)
		return "asks for the job's key, and there is none here: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE";
	if (flags != TT_WIRE_KEYED && keyed)
		return "has no key, and there is one here: give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE";
	return length >= TT_WIRE_HELLO && get32(in + TT_WIRE_FIRST) > INT32_MAX
		       ? "asks for something unknown"
		       : NULL;
}

int tt_wire_hello_claim(const uint8_t *in, size_t length)
{
	const bool there = length >= TT_WIRE_FIRST + 4 && memcmp(in, magic, MAGIC_BYTES) == 0;
	const uint32_t claim = there ? get32(in + TT_WIRE_FIRST) : 0;

	return claim <= INT32_MAX ? (int)claim - 1 : -1;
}

void tt_wire_prove(const struct tt_key *key, enum tt_wire_end end,
		   const uint8_t host[TT_WIRE_HELLO], const uint8_t client[TT_WIRE_HELLO],
		   uint8_t proof[TT_PROOF_BYTES])
{
	const struct iovec said[] = {
		{ (void *)(uintptr_t)host, TT_WIRE_HELLO },
		{ (void *)(uintptr_t)client, TT_WIRE_HELLO },
	};

	tt_key_prove(key, end == TT_WIRE_HOST ? "tutti store host" : "tutti store client", said, 2,
		     proof);
}

void tt_wire_put_header(const struct tt_wire_header *header, uint8_t out[TT_WIRE_HEADER])
{
	out[0] = header->kind;
	out[1] = header->key_length;
	out[2] = header->status;
	out[3] = 0;
	put32(out + 4, header->value_length);
	put32(out + 8, header->timeout_ms);
}

static bool has_word(const struct tt_wire_header *h)
{
	return h->value_length >= TT_WIRE_WORD && h->value_length <= TT_WIRE_WORD_MAX;
}

static bool answer_good(const struct tt_wire_header *h)
{
	switch (h->status) {
	case TT_WIRE_DONE: return true;
	case TT_WIRE_MISSING:
	case TT_WIRE_FULL: return h->value_length == 0;
	case TT_WIRE_ENDED: return has_word(h);
	}
	return false;
}

static bool news_good(const struct tt_wire_header *h)
{
	if (h->status == TT_WIRE_CLOSED)
		return h->key_length == 0 && h->value_length == 0;
	return h->status == TT_WIRE_ENDED && h->key_length > 0 && has_word(h);
}

static bool header_good(const struct tt_wire_header *h)
{
	if (h->value_length > TT_STORE_VALUE_MAX)
		return false;
	switch (h->kind) {
	case TT_WIRE_SET: return h->key_length > 0 && h->status == 0 && h->timeout_ms == 0;
	case TT_WIRE_GET: return h->key_length > 0 && h->status == 0 && h->value_length == 0;
	case TT_WIRE_END:
		return h->key_length > 0 && h->status == 0 && h->timeout_ms == 0 && has_word(h);
	case TT_WIRE_ATTEND:
		return h->key_length > 0 && h->status == 0 && h->member <= INT32_MAX && has_word(h);
	case TT_WIRE_LEAVE:
		return h->key_length == 0 && h->status == 0 && h->timeout_ms == 0 &&
		       h->value_length == 0;
	case TT_WIRE_NEWS: return h->timeout_ms == 0 && news_good(h);
	case TT_WIRE_ANSWER: return h->key_length == 0 && h->timeout_ms == 0 && answer_good(h);
	}
	return false;
}

bool tt_wire_get_header(const uint8_t in[TT_WIRE_HEADER], struct tt_wire_header *header)
{
	*header = (struct tt_wire_header){
		.kind = in[0],
		.key_length = in[1],
		.status = in[2],
		.value_length = get32(in + 4),
		.timeout_ms = get32(in + 8),
	};
	return in[3] == 0 && header_good(header);
}

uint32_t tt_wire_put_word(tutti_result_t result, const char *error_text,
			  uint8_t out[TT_WIRE_WORD_MAX])
{
	const size_t length = strnlen(error_text, TT_WIRE_WORD_MAX - TT_WIRE_WORD);

	put32(out, (uint32_t)result);
	memcpy(out + TT_WIRE_WORD, error_text, length);
	return (uint32_t)(TT_WIRE_WORD + length);
}

uint32_t tt_wire_put_will(tutti_result_t result, const char *error_text, const char *who,
			  uint8_t out[TT_WIRE_WORD_MAX])
{
	const size_t name = strnlen(who, TT_WIRE_WHO_MAX - 1);
	const size_t length = strnlen(error_text, TT_WIRE_WORD_MAX - TT_WIRE_WORD - 1 - name);

	put32(out, (uint32_t)result);
	memcpy(out + TT_WIRE_WORD, error_text, length);
	out[TT_WIRE_WORD + length] = 0;
	memcpy(out + TT_WIRE_WORD + length + 1, who, name);
	return (uint32_t)(TT_WIRE_WORD + length + 1 + name);
}

size_t tt_wire_split_will(const uint8_t *in, size_t length, char who[TT_WIRE_WHO_MAX])
{
	const uint8_t *end = memchr(in + TT_WIRE_WORD, 0, length - TT_WIRE_WORD);
	const size_t word = end ? (size_t)(end - in) : length, rest = end ? length - word - 1 : 0;
	const size_t name = rest < TT_WIRE_WHO_MAX ? rest : TT_WIRE_WHO_MAX - 1;

	if (name > 0)
		memcpy(who, end + 1, name);
	who[name] = 0;
	return word;
}

bool tt_wire_get_word(const uint8_t *in, size_t length, tutti_result_t *result,
		      char error_text[TT_WIRE_WORD_MAX])
{
	if (length <= TT_WIRE_WORD || length > TT_WIRE_WORD_MAX || (int32_t)get32(in) >= 0 ||
	    in[TT_WIRE_WORD] == '\0')
		return false;
	*result = (tutti_result_t)(int32_t)get32(in);
	memcpy(error_text, in + TT_WIRE_WORD, length - TT_WIRE_WORD);
	error_text[length - TT_WIRE_WORD] = 0;
	return true;
}
