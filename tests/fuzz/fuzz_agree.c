/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of an agreement, from any of the others, between turns of the rank that hears them:
 * heads whose numbers are the input's and bodies cut from it. */
#include <string.h>

#include "agree.h"
#include "fuzz.h"

#define SIZE 9 /* the sets of ranks have two bytes */
#define ME   3

enum { ASK = 8, ALIVE, KINDS };

/* What stands before each body. */
struct turn {
	uint8_t from, kind, instance, ballot, other, lost;
	uint16_t length, wait;
};

/* Notes whom a sign of life goes to, and no more. */
static void forget(void *context, int to, const struct tt_agree_head *head, const void *body)
{
	int *alive_to = context;

	FUZZ_PROMISE(to >= 0 && to < SIZE && to != ME);
	FUZZ_PROMISE(tt_agree_is_head(head, SIZE));
	if (head->kind == ALIVE)
		*alive_to = to;
}

static void check(const struct tt_agree *agree)
{
	bool in = false;
	int last = -1;

	if (tt_agree_state(agree) != TT_AGREE_DECIDED)
		return;
	for (int i = 0; i < tt_agree_count(agree); i++) {
		const struct tt_agreed member = tt_agree_member(agree, i);
		uint32_t sum = 0;

		FUZZ_PROMISE(member.rank > last && member.rank < SIZE &&
			     member.length <= TT_AGREE_SAID_MAX);
		for (size_t k = 0; k < member.length; k++)
			sum += member.said[k]; /* it can be read */
		in |= member.rank == ME || sum == UINT32_MAX;
		last = member.rank;
	}
	for (int rank = 0; rank < SIZE; rank++)
		tt_agree_was_late(agree, rank);
	FUZZ_PROMISE(in);
}

/* Who asks for a sign of life gets one, at once, and nobody else does. */
static void hear(struct tt_agree *agree, const struct tt_agree_config *config, int from,
		 const struct tt_agree_head *head, const void *body, uint64_t now)
{
	const bool asks = head->kind == ASK && head->instance == config->instance &&
			  config->among[from] && tt_agree_state(agree) == TT_AGREE_OPEN;
	int *alive_to = config->context;

	*alive_to = -1;
	tt_agree_receive(agree, from, head, body, now);
	FUZZ_PROMISE(*alive_to == (asks ? from : -1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int alive_to = -1;
	bool among[SIZE] = { true, true, true, true, false, true, true, true, true };
	const struct tt_agree_config config = { .rank = ME,
						.size = SIZE,
						.instance = 1,
						.among = among,
						.coming_ns = 1000,
						.answer_ns = 1000,
						.said = "me",
						.length = 2,
						.send = forget,
						.context = &alive_to };
	struct tt_agree_head head = { 0 };
	struct tt_agree *agree;
	struct turn turn;
	uint64_t now = 1;

	if (size >= sizeof(head)) {
		memcpy(&head, data, sizeof(head));
		FUZZ_PROMISE(!tt_agree_is_head(&head, SIZE) ||
			     head.length <= tt_agree_body_max(SIZE));
	}
	FUZZ_PROMISE(tt_agree_open(&config, now, &agree) == TUTTI_OK);
	while (size >= sizeof(turn)) {
		memcpy(&turn, data, sizeof(turn));
		data += sizeof(turn);
		size -= sizeof(turn);
		const size_t length = turn.length < size ? turn.length : size;
		uint8_t *body = malloc(
			length + !length); /* as long as it says, so that a read beyond is caught */

		memcpy(body, data, length);
		data += length;
		size -= length;
		head = (struct tt_agree_head){ .magic = 0x61677265u,
					       .kind = turn.kind % KINDS,
					       .instance = turn.instance % 3u,
					       .length = (uint32_t)length,
					       .ballot = turn.ballot,
					       .other = turn.other };
		now += turn.wait;
		if (tt_agree_is_head(&head, SIZE) && turn.from % SIZE != ME)
			hear(agree, &config, turn.from % SIZE, &head, body, now);
		free(body);
		if (turn.lost < SIZE && turn.lost != ME)
			tt_agree_lost(agree, turn.lost);
		tt_agree_step(agree, now);
		check(agree);
	}
	tt_agree_close(agree);
	return 0;
}
