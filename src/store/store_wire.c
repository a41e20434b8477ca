/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the format of store messages: writes them and refuses what is none. Touches no socket. */
#include <string.h>

#include "store.h"
#include "store_wire.h"

const struct tt_protocol tt_store_protocol = {
	.hello = { 't', 'u', 't', 't', 'i', '-', 's', 't' },
	.answer = { 't', 'u', 't', 't', 'i', '-', 's', 'a' },
	.version = 6,
	.listener = "tutti store host",
	.dialer = "tutti store client",
};

static void put32(uint8_t *out, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
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
