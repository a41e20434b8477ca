/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library and the programs compile for themselves: libraries that are opened at run
 * time, shown with the C library's mathematics, which are always there; and text that is shown
 * to people. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "library.h"
#include "printable.h"

struct wanted {
	double (*cosine)(double);
	void (*newer)(void);
};

static const struct tt_function functions[] = {
	{ "cos", offsetof(struct wanted, cosine), false },
	{ "of_a_newer_version", offsetof(struct wanted, newer), true },
};
static const struct tt_function missing[] = {
	{ "cos", offsetof(struct wanted, cosine), false },
	{ "of_a_newer_version", offsetof(struct wanted, newer), false },
};

#define VARIABLE "TEST_LIBRARY"
#define NAMED(name)                                                                                \
	{                                                                                          \
		.variable = VARIABLE, .names = { name },                                           \
		.before = "no numbers: ", .after = ": libc6 brings them", .functions = functions,  \
		.count = 2                                                                         \
	}

/* Of a claim: what is filled, and why it could not be. */
static struct wanted wanted;
static char why[TT_LIBRARY_WHY];

static void ignore(void)
{
}

TEST(functions_are_found_and_optional_ones_may_lack)
{
	const struct tt_library library = NAMED("libm.so.6");

	wanted.newer = ignore;
	void *opened = tt_library_open(&library, &wanted, why);

	assert_non_null(opened);
	assert_true(wanted.cosine(0) > 0.999);
	assert_null(wanted.newer);
	dlclose(opened);
}

TEST(the_second_name_is_taken_where_the_first_is_not_there)
{
	struct tt_library library = NAMED("libnone.so.1");

	library.names[1] = "libm.so.6";
	void *opened = tt_library_open(&library, &wanted, why);

	assert_non_null(opened);
	dlclose(opened);
}

TEST(the_variable_has_the_only_name)
{
	struct tt_library library = NAMED("libm.so.6");

	setenv(VARIABLE, "/nowhere/libm.so", 1);
	assert_string_equal(tt_library_name(&library), "/nowhere/libm.so");
	assert_null(tt_library_open(&library, &wanted, why));
	assert_says(why, "no numbers: /nowhere/libm.so: ");
	assert_says(why, ": libc6 brings them");
	setenv(VARIABLE, "", 1);
	assert_string_equal(tt_library_name(&library), "libm.so.6");
	unsetenv(VARIABLE);
	library.variable = NULL;
	assert_string_equal(tt_library_name(&library), "libm.so.6");
}

TEST(a_missing_function_is_named)
{
	struct tt_library library = NAMED("libm.so.6");

	library.functions = missing;
	assert_null(tt_library_open(&library, &wanted, why));
	assert_string_equal(why, "libm.so.6 has no of_a_newer_version");
	library.expected = "one of next year";
	assert_null(tt_library_open(&library, &wanted, why));
	assert_string_equal(why, "libm.so.6 has no of_a_newer_version: expected one of next year");
}

TEST(what_nobody_has_opened_is_not_found)
{
	const struct tt_library other = NAMED("libnone.so.1");
	struct tt_library here = NAMED("libc.so.6");

	assert_null(tt_library_find(&other, &wanted));
	here.count = 0;
	void *found = tt_library_find(&here, &wanted);

	assert_non_null(found);
	dlclose(found);
}

TEST(what_a_terminal_acts_on_is_not_shown)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "", "" },
		{ "rank 3: 10 µs × 2 – 日本 😀", "rank 3: 10 µs × 2 – 日本 😀" },
		{ "\x1b[2J\a\b\t\r\n\x7f", "?[2J??????" },
		{ "\xc2\x9b"
		  "1m \xc2\xa0",
		  "??1m \xc2\xa0" }, /* CSI in UTF-8; a blank */
		{ "\x9b"
		  "1m \xff\xfe",
		  "?1m ??" }, /* in one byte; never UTF-8 */
		{ "\xe2\x80\xae"
		  "abc \xe2\x81\xa6\xd8\x9c",
		  "???abc ?????" }, /* from right to left; isolated; an Arabic mark */
		{ "\xef\xbb\xbf"
		  "5 \xe2\x80\x8b \xc2\xad",
		  "???5 ??? ??" },				 /* without width */
		{ "\xe2\x80\xa8", "???" },			 /* a line's end */
		{ "\xc0\x9b \xe0\x82\x9b", "?? ???" },		 /* longer than need be */
		{ "\xed\xa0\x80 \xf4\x90\x80\x80", "??? ????" }, /* a surrogate; beyond the last */
		{ "cut \xe6\x97", "cut ??" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];

		strcpy(text, cases[i].text);
		assert_string_equal(tt_printable(text), cases[i].shown);
	}
}
