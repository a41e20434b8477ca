/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists that users write into environment variables: TUTTI_LOG, TUTTI_LOOP, TUTTI_INTERFACE. */
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "faults.h"
#include "fuzz.h"
#include "log.h"
#include "loop.h"

static void check_log(const char *text)
{
	tt_log_read(text);
	for (int i = 0; i < TT_LOG_SUBSYSTEM_COUNT; i++)
		FUZZ_PROMISE(tt_log_levels[i] <= TUTTI_LOG_TRACE);
	tt_log_read("error");
}

static void check_loop(const char *text)
{
	struct loop_faults faults;

	tt_loop_set_faults(text);
	if (tt_loop_faults_read(&faults) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0]);
	} else {
		FUZZ_PROMISE(faults.capacity > 0 && faults.cuts.count <= LOOP_PAIRS_MAX);
		FUZZ_PROMISE(faults.refusals.count <= LOOP_PAIRS_MAX && faults.mortal >= -1);
	}
	tt_loop_set_faults(NULL);
}

static void check_interfaces(const char *text)
{
	struct tcp_card card;

	setenv("TUTTI_INTERFACE", text, 1);
	if (tt_tcp_interfaces(&card, &(struct tcp_lack){ 0 }) == TUTTI_OK)
		FUZZ_PROMISE(card.count >= 0 && card.count <= TCP_ADDRESSES_MAX);
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
	static void (*const checks[])(const char *text) = { check_log, check_loop,
							    check_interfaces };
	char *text = calloc(size + 1, 1);

	FUZZ_PROMISE(text);
	if (size > 0) {
		memcpy(text, data + 1, size - 1);
		checks[data[0] % 3](text);
	}
	free(text);
	return 0;
}
