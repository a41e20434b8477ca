/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the format of store messages: writes them and refuses what is none. Touches no socket. */
#include <string.h>

#include "store.h"
#include "store_wire.h"
#include "wire.h"

const struct tt_protocol tt_store_protocol = {
	.hello = { 't', 'u', 't', 't', 'i', '-', 's', 't' },
	.answer = { 't', 'u', 't', 't', 'i', '-', 's', 'a' },
	.version = 6,
	.listener = "tutti store host",
	.dialer = "tutti store client",
};

void tt_wire_put_header(const struct tt_wire_header *header, uint8_t out[TT_WIRE_HEADER])
{
	out[0] = header->kind;
	out[1] = header->key_length;
	out[2] = header->status;
	out[3] = 0;
	wire_put(wire_put(out + 4, header->value_length, 4), header->timeout_ms, 4);
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
	const uint8_t *at = in + 4;

	*header = (struct tt_wire_header){ .kind = in[0], .key_length = in[1], .status = in[2] };
	header->value_length = (uint32_t)wire_get(&at, 4);
	header->timeout_ms = (uint32_t)wire_get(&at, 4);
	return in[3] == 0 && header_good(header);
}

uint32_t tt_wire_put_word(tutti_result_t result, const char *error_text,
			  uint8_t out[TT_WIRE_WORD_MAX])
{
	const size_t length = strnlen(error_text, TT_WIRE_WORD_MAX - TT_WIRE_WORD);

	wire_put(out, (uint32_t)result, 4);
	memcpy(out + TT_WIRE_WORD, error_text, length);
	return (uint32_t)(TT_WIRE_WORD + length);
}

uint32_t tt_wire_put_will(tutti_result_t result, const char *error_text, const char *who,
			  uint8_t out[TT_WIRE_WORD_MAX])
{
	const size_t name = strnlen(who, TT_WIRE_WHO_MAX - 1);
	const size_t length = strnlen(error_text, TT_WIRE_WORD_MAX - TT_WIRE_WORD - 1 - name);

	wire_put(out, (uint32_t)result, 4);
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
	const uint8_t *text = in;

	if (length <= TT_WIRE_WORD || length > TT_WIRE_WORD_MAX)
		return false;
	*result = (tutti_result_t)(int32_t)wire_get(&text, TT_WIRE_WORD);
	if (*result >= 0 || *text == '\0')
		return false;
	memcpy(error_text, text, length - TT_WIRE_WORD);
	error_text[length - TT_WIRE_WORD] = 0;
	return true;
}
