/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator that grows hears from its ranks, and a newcomer and a coordinator from a
 * store that says anything. The input: the kind, then questions, a word, reports, or the values
 * that the store gives, each with its length before it. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "grow.h"
#include "report.h"
#include "join_slots.h"
#include "transport.h"

#define RANKS		 8
#define NEWCOMER_RECORDS 4096

static const uint8_t *at;
static size_t left;

static size_t take(void *out, size_t bytes)
{
	const size_t there = bytes < left ? bytes : left;

	if (there)
		memcpy(out, at, there);
	at += there;
	left -= there;
	return there;
}

static void check_result(tutti_result_t result)
{
	FUZZ_PROMISE(result <= TUTTI_IN_PROGRESS && result >= TUTTI_ERR_UNSUPPORTED);
	for (const char *c = tt_thread_error(); result < 0 && *c; c++)
		FUZZ_PROMISE((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void hear_members(void)
{
	struct tt_grow_question all[RANKS] = { { 0 } };
	struct tt_grow_decision *word = calloc(1, sizeof(*word));

	FUZZ_PROMISE(word);
	take(all, sizeof(all));
	if (tt_grow_read_questions(all, RANKS, 3, 2) == TUTTI_OK)
		for (int rank = 0; rank < RANKS; rank++)
			FUZZ_PROMISE(all[rank].newcomers == 2);
	take(word, sizeof(*word));
	const tutti_result_t result = tt_grow_read_decision(word, tt_bundle_capacity(RANKS));
	check_result(result);
	FUZZ_PROMISE(result != TUTTI_OK ||
		     (word->length > 0 && word->length <= tt_bundle_capacity(RANKS)));
	free(word);
}

static void hear_reports(void)
{
	size_t lengths[3] = { 0 }, offsets[3], bytes;
	struct tt_records reports = { NULL, offsets, lengths };
	struct tt_report report;
	uint16_t given[3] = { 0 };

	take(given, sizeof(given));
	for (int i = 0; i < 3; i++)
		lengths[i] = given[i];
	if (tt_records_arrange(&reports, 3, 0, lengths[0], &bytes) != TUTTI_OK)
		return;
	reports.bytes = calloc(bytes + !bytes, 1);
	FUZZ_PROMISE(reports.bytes);
	take(reports.bytes, bytes);
	const tutti_result_t result = tt_reports_judge(&reports, 3, "fuzz");
	check_result(result);
	FUZZ_PROMISE(result != TUTTI_IN_PROGRESS);
	for (int rank = 0; rank < 3 && !result; rank++)
		FUZZ_PROMISE(
			tt_report_read(reports.bytes + offsets[rank], lengths[rank], &report) &&
			!report.result);
	free(reports.bytes);
}

/* ---- a store */

static uint64_t token; /* that a newcomer has put there, as an invitation must have it */

static int set(void *context, const char *key, const void *value, size_t length)
{
	if (strstr(key, "/seat/") && length == sizeof(token))
		memcpy(&token, value, length);
	return 0;
}

/* The next value of the input, or an end of the store with it: none is waited for. */
static int get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	uint16_t given;

	if (take(&given, sizeof(given)) != sizeof(given))
		return EIO;
	if (given == UINT16_MAX && timeout_s <= 0)
		return ETIMEDOUT;
	const size_t bytes = given < left ? given : left;
	if (bytes > *length) {
		*length = bytes;
		return EMSGSIZE;
	}
	*length = take(value, bytes);
	if (strstr(key, "/taken/") && *length == sizeof(struct tt_invitation) && given % 2 == 0)
		memcpy(value, &token, sizeof(token));
	return 0;
}

static void be_newcomer(struct tt_join_slots *slots)
{
	struct tt_invitation invitation;
	struct tt_records records = { 0 };
	tutti_result_t result = tt_join_slots_apply(slots, tt_now() + 1000000, &invitation);

	check_result(result);
	if (!result) {
		FUZZ_PROMISE(invitation.rank >= 0 && invitation.rank < invitation.size);
		result = tt_join_slots_await(slots, &invitation, NULL, &records);
		check_result(result);
		for (int rank = 0; rank < invitation.size && !result; rank++)
			FUZZ_PROMISE(records.length[rank] <= TT_RECORD_MAX);
	}
	tt_records_free(&records);
}

static void be_coordinator(struct tt_join_slots *slots)
{
	struct tt_invitation invitation = { .id = 7, .rank = 2, .size = 3 };
	struct tt_report report;

	check_result(tt_join_slots_invite(slots, &invitation, 0));
	if (tt_join_slots_receive(slots, &invitation, 0, &report) == TUTTI_OK) {
		FUZZ_PROMISE(tt_report_size(&report) <= sizeof(report));
		check_result(tt_report_judge(&report, tt_report_size(&report), 2, "fuzz"));
	}
}

static void meet_in_store(bool newcomer)
{
	const tutti_store_ops_t ops = { .size = sizeof(ops), .set = set, .get = get };
	struct tt_join_slots slots;
	tutti_store_t store;

	FUZZ_PROMISE(tutti_store_create(&ops, NULL, &store) == TUTTI_OK);
	FUZZ_PROMISE(tt_join_slots_open(store, NULL, 0, "fuzz", &slots) == TUTTI_OK);
	if (newcomer)
		be_newcomer(&slots);
	else
		be_coordinator(&slots);
	tt_join_slots_close(&slots);
	tutti_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t kind = 0;

	at = data;
	left = size;
	take(&kind, 1);
	switch (kind % 4) {
	case 0: hear_members(); break;
	case 1: hear_reports(); break;
	case 2: meet_in_store(true); break;
	default: meet_in_store(false);
	}
	return 0;
}
