/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls of tutti return, and what they say. A claim that fails shows both. */
#ifndef TT_TESTS_TUTTI_ASSERTS_H
#define TT_TESTS_TUTTI_ASSERTS_H

#include <tutti/tutti.h>

#include "tests.h"

#define assert_ok(call) expect_result(#call, call, TUTTI_OK, "", __FILE__, __LINE__)
/* It fails so, and its error message has these words. */
#define assert_fails(call, result, words)                                                          \
	expect_result(#call, call, result, words, __FILE__, __LINE__)

static inline void expect_result(const char *call, tutti_result_t result, tutti_result_t expected,
				 const char *words, const char *file, int line)
{
	const char *said = result ? tutti_last_error(NULL) : "";

	if (result != expected) {
		print_error("%s gives %d (%s), expected %d\n", call, result, said, expected);
		_fail(file, line);
	}
	expect_words(said, words, file, line);
}

#endif
