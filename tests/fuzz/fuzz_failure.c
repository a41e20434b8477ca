/* SPDX-License-Identifier: BSD-3-Clause */
/* A failure, and a fault, as another rank reports them. The input: result:4, then a text that need
 * not end; or a fault as it lies in shared memory. */
#include <string.h>

#include "failure.h"
#include "fuzz.h"
#include "printable.h"
#include "transport.h"

static void check_text(const char *text, size_t capacity)
{
	char *shown = strndup(text, capacity);

	FUZZ_PROMISE(shown && strlen(shown) < capacity && strcmp(tt_printable(shown), text) == 0);
	free(shown);
}

static void check_failure(int32_t result, const char *text, size_t length)
{
	char *again = malloc(TT_ERROR_MAX);

	FUZZ_PROMISE(again);
	const tutti_result_t returned = tt_fail_reported(COMM, "fuzz: ", result, text, length);
	FUZZ_PROMISE(returned == (tt_failure_is_known(result) ? result : TUTTI_ERR_UNSUPPORTED));
	FUZZ_PROMISE(returned < 0 && returned >= TUTTI_ERR_UNSUPPORTED);
	for (size_t capacity = 1; capacity < 40; capacity += 13) {
		tt_failure_text(again, capacity, text, length);
		check_text(again, capacity);
	}
	tt_failure_text(again, TT_ERROR_MAX, text, length);
	check_text(again, TT_ERROR_MAX);
	char *once = strdup(again);
	FUZZ_PROMISE(once);
	tt_failure_text(again, TT_ERROR_MAX, again,
			TT_ERROR_MAX); /* in place, and what is printable stays */
	FUZZ_PROMISE(strcmp(again, once) == 0);
	free(once);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tt_fault *fault = calloc(1, sizeof(*fault));
	int32_t result = 0;
	char *text;

	FUZZ_PROMISE(fault);
	if (size)
		memcpy(fault, data, size < sizeof(*fault) ? size : sizeof(*fault));
	if (tt_fault_check(fault, 4))
		FUZZ_PROMISE(tt_failure_is_known(fault->result) && fault->rank >= -1 &&
			     fault->rank < 4);
	check_text(fault->text, sizeof(fault->text));
	free(fault);
	if (size < sizeof(result))
		return 0;
	memcpy(&result, data, sizeof(result));
	text = malloc(size - sizeof(result) +
		      (size == sizeof(result))); /* exactly, so that a read beyond is caught */
	FUZZ_PROMISE(text);
	memcpy(text, data + sizeof(result), size - sizeof(result));
	check_failure(result, text, size - sizeof(result));
	free(text);
	return 0;
}
