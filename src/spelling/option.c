/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the error messages for options that getopt_long() refuses. */
#include "option.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WORD_MOST 96 /* bytes of the option that the message repeats */

static size_t name_length(const char *word)
{
	return strcspn(word + 2, "=");
}

/* Is `word` --NAME, or --NAME=VALUE, of the option with this value? getopt_long() allows the
 * beginning of a name. */
static bool names(const char *word, const struct option *known, int value)
{
	if (strncmp(word, "--", 2) != 0)
		return false;
	for (; known->name; known++)
		if (known->val == value && strncmp(known->name, word + 2, name_length(word)) == 0)
			return true;
	return false;
}

static const char *unknown(const char *word, const struct option *known, char text[TT_OPTION_WHY])
{
	const int length = (int)strcspn(word, "=");
	struct tt_nearest nearest = tt_nearest_to(word + 2, name_length(word));

	for (; known->name; known++)
		tt_nearest_offer(&nearest, known->name);
	snprintf(text, TT_OPTION_WHY,
		 nearest.name ? "unknown option %.*s (did you mean --%s?)" : "unknown option %.*s",
		 length < WORD_MOST ? length : WORD_MOST, word, nearest.name);
	return text;
}

const char *tt_option_why(int result, char **argv, const struct option *known,
			  char text[TT_OPTION_WHY])
{
	const char *word = argv[optind - 1];

	if (result == '?' && optopt == 0)
		return unknown(word, known, text);
	if (names(word, known, optopt))
		snprintf(text, TT_OPTION_WHY, "%.*s %s", (int)strcspn(word, "="), word,
			 result == ':' ? "needs a value" : "takes no value");
	else
		snprintf(text, TT_OPTION_WHY,
			 result == ':' ? "-%c needs a value" : "unknown option -%c", optopt);
	return text;
}

const char *tt_option_of_config(const char **error)
{
	static const char *const members[] = { "transports of the config",
					       "algorithm of the config" };
	static const char *const options[] = { "--transport", "--algorithm" };

	for (int i = 0; i < 2; i++) {
		const size_t length = strlen(members[i]);

		if (strncmp(*error, members[i], length) == 0) {
			*error += length;
			return options[i];
		}
	}
	return NULL;
}
