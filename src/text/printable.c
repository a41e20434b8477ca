/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of UTF-8, as far as it takes to know what must not reach a terminal. */
#include "printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character that begins at `at`, and its bytes; 0 bytes: none does. The zero behind the text
 * is no continuation byte. */
static size_t read_character(const uint8_t *at, uint32_t *character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800,
					  0x10000 }; /* by bytes: what is shorter must be written
						      * so */
	const size_t bytes = *at < 0x80	      ? 1
			     : *at >> 5 == 6  ? 2
			     : *at >> 4 == 14 ? 3
			     : *at >> 3 == 30 ? 4
					      : 0;

	*character = bytes == 1 ? *at : *at & (0x7fu >> bytes);
	for (size_t i = 1; i < bytes; i++) {
		if (at[i] >> 6 != 2)
			return 0;
		*character = *character << 6 | (at[i] & 0x3f);
	}
	return bytes && *character >= least[bytes] && *character <= 0x10ffff ? bytes : 0;
}

static bool is_shown(uint32_t character)
{
	const bool control = character < 0x20 || (character >= 0x7f && character < 0xa0);
	const bool mark = character == 0xad || character == 0x61c || character == 0xfeff ||
			  (character >= 0x200b && character <= 0x200f) ||
			  (character >= 0x2028 && character <= 0x202e) ||
			  (character >= 0x2060 && character <= 0x2069);
	const bool surrogate = character >= 0xd800 && character < 0xe000;

	return !control && !mark && !surrogate;
}

char *tt_printable(char *text)
{
	uint8_t *at = (uint8_t *)text;

	while (*at) {
		uint32_t character;
		const size_t bytes = read_character(at, &character);
		const bool shown = bytes && is_shown(character);

		for (size_t i = 0; i < (bytes ? bytes : 1) && !shown; i++)
			at[i] = '?';
		at += bytes ? bytes : 1;
	}
	return text;
}
