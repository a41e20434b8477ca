/* SPDX-License-Identifier: BSD-3-Clause */
/* What users write into TUTTI_PORT_RANGE, TUTTI_TCP_BUFFER and TUTTI_TCP_RAILS. What is taken is
 * in its bounds, and was written in digits. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "log.h"
#include "environment.h"
#include "port_range.h"

static void check_ports(const char *text)
{
	struct tt_port_range range = { -1, -1 };
	char again[16];

	if (tt_port_range_parse(text, &range) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0] && range.first == -1 && range.last == -1);
		return;
	}
	FUZZ_PROMISE(text[strspn(text, "0123456789-")] == '\0');
	if (!*text) {
		FUZZ_PROMISE(range.first == 0 && range.last == 0);
		return;
	}
	FUZZ_PROMISE(range.first >= 1 && range.first <= range.last && range.last <= 65535);
	snprintf(again, sizeof(again), "%d-%d", range.first, range.last);
	text += strspn(text, "0");
	FUZZ_PROMISE(strncmp(text, again, strcspn(again, "-") + 1) == 0);
	text = strchr(text, '-') + 1;
	FUZZ_PROMISE(strcmp(text + strspn(text, "0"), strchr(again, '-') + 1) == 0);
}

static void check_buffer(const char *text)
{
	int bytes = -1;

	if (tt_tcp_buffer_size(text, &bytes) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0] && bytes == -1);
		return;
	}
	const size_t digits = strspn(text, "0123456789");

	FUZZ_PROMISE(!text[digits] || (strchr("KM", text[digits]) && !text[digits + 1]));
	FUZZ_PROMISE(*text ? bytes >= 4096 && bytes <= 1 << 30 : bytes == 0);
	if (*text)
		FUZZ_PROMISE((unsigned)bytes == strtoull(text, NULL, 10)
							<< (text[digits] == 'K' ? 10
							    : text[digits]	? 20
										: 0));
}

static void check_rails(const char *text)
{
	uint8_t rails;

	if (tt_tcp_rails(text, &rails) == TUTTI_OK)
		FUZZ_PROMISE(*text ? rails == atoi(text) && rails >= 1 && rails <= 8 : rails == 0);
	else
		FUZZ_PROMISE(tt_thread_error()[0]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_be_quiet();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(size + 1, 1);

	FUZZ_PROMISE(text);
	memcpy(text, data, size);
	check_ports(text);
	check_buffer(text);
	check_rails(text);
	free(text);
	return 0;
}
