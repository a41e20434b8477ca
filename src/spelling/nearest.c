/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the distance between names: the optimal string alignment (insertions, deletions,
 * replacements and swaps of neighbours). Case does not count, and "-" equals "_". */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nearest.h"

#define NAME_MAX_LENGTH 63 /* longer texts are none of our names misspelt */

struct tt_nearest tt_nearest_to(const char *given, size_t length)
{
	return (struct tt_nearest){ .given = given, .length = length };
}

static bool same(char a, char b)
{
	if (a == '-')
		a = '_';
	if (b == '-')
		b = '_';
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Row by row; a row needs the two before it. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned rows[3][NAME_MAX_LENGTH + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_length; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned *const spare = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			row[j] = least(least(last[j], row[j - 1]) + 1,
				       last[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[b_length];
}

/* How many letters may be wrong: a third, or one of a short name. */
static unsigned tolerated(size_t length)
{
	return length < 2 ? 0 : length < 6 ? 1 : (unsigned)(length / 3);
}

void tt_nearest_offer(struct tt_nearest *nearest, const char *name)
{
	const size_t length = strlen(name);
	const size_t longer = length > nearest->length ? length : nearest->length;

	if (longer > NAME_MAX_LENGTH)
		return;
	const unsigned found = distance(nearest->given, nearest->length, name, length);
	if (found > tolerated(longer) || (nearest->name && found >= nearest->distance))
		return;
	nearest->name = name;
	nearest->distance = found;
}

const char *tt_nearest_hint(const struct tt_nearest *nearest, char text[TT_NEAREST_HINT])
{
	const char *name = nearest->name;
	const bool misspelt = name && (strlen(name) != nearest->length ||
				       memcmp(name, nearest->given, nearest->length) != 0);

	text[0] = '\0';
	if (misspelt)
		snprintf(text, TT_NEAREST_HINT, " (did you mean %s?)", name);
	return text;
}

const char *tt_did_you_mean(const char *given, const char *const *names, char text[TT_NEAREST_HINT])
{
	struct tt_nearest nearest = tt_nearest_to(given, strlen(given));

	while (*names)
		tt_nearest_offer(&nearest, *names++);
	return tt_nearest_hint(&nearest, text);
}
