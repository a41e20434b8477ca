/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank that waits long reads off a peer's slot while the peer writes its next header
 * there. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests.h"
#include "calls/random.h"
#include "control_area.h"
#include "fault.h"
#include "op.h"

#define PAGE  4096
#define RANKS 2

/* Two ranks and their control area, without transport: rank 0 waits in operation `seq`, over
 * links. */
struct scene {
	uint64_t seq;
	void *memory; /* of tt_area_bytes() */
	uint64_t seen[RANKS][RANKS];
	struct tutti_comm comms[RANKS];
	struct tt_plan plan;
	struct tt_op waiting;
};

/* Of a transport that wakes nobody. */
static const struct tt_transport_memory shared = { NULL };
static const struct tt_transport transport = { .memory = &shared };
static struct tt_endpoint alone = { .ops = &transport };

static uintptr_t page_of(const void *place)
{
	return (uintptr_t)place / PAGE;
}

/* An operation whose slot begins on one page and has its header on the next. */
static uint64_t across_pages(const struct tt_area *control_area)
{
	uint64_t seq = control_area->nslots;

	while (seq < 2 * control_area->nslots &&
	       page_of(&tt_area_slot(control_area, 1, seq)->signature) ==
		       page_of(&tt_area_slot(control_area, 1, seq)->header))
		seq++;
	assert_true(seq < 2 * control_area->nslots);
	return seq;
}

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	for (int rank = 0; rank < RANKS; rank++) /* whose payloads take one unit, or several */
		s->comms[rank] = (struct tutti_comm){ .rank = rank,
						      .size = RANKS,
						      .topology.oversubscription = 2 };
	s->memory = mmap(NULL, tt_area_bytes(&s->comms[0]), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(s->memory != MAP_FAILED);
	s->plan.eager = true; /* what is posted wakes later */
	for (int rank = 0; rank < RANKS; rank++) {
		struct tutti_comm *comm = &s->comms[rank];

		assert_true(tt_comm_fault_open(comm));
		comm->control_area.seen = s->seen[rank];
		tt_area_place(comm, s->memory, &alone);
		s->seen[rank][1 - rank] = UINT64_MAX; /* slots are free */
	}
	s->seq = across_pages(&s->comms[1].control_area);
	s->waiting = (struct tt_op){ .comm = &s->comms[0],
				     .plan = &s->plan,
				     .state = TT_OP_RUNNING,
				     .header = { .seq = s->seq, .count = 1 },
				     .signature = 1111 };
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	for (int rank = 0; rank < RANKS; rank++)
		tt_comm_fault_free(&s->comms[rank]);
	munmap(s->memory, tt_area_bytes(&s->comms[0]));
	free(s);
	return 0;
}

static struct tt_op op_of_peer(struct scene *s, uint64_t seq, uint64_t signature)
{
	return (struct tt_op){ .comm = &s->comms[1],
			       .plan = &s->plan,
			       .header = { .rank = 1, .seq = seq, .count = seq },
			       .signature = signature };
}

TEST_WITH(another_header_for_the_same_operation_is_a_mismatch, set_up, tear_down)
{
	struct scene *s = *state;
	struct tt_op same = op_of_peer(s, s->seq, 1111), other = op_of_peer(s, s->seq, 2222);

	assert_true(tt_area_post(&same));
	tt_area_compare(&s->waiting);
	assert_int_equal(s->comms[0].fault.result, TUTTI_OK);
	assert_true(tt_area_post(&other));
	tt_area_compare(&s->waiting);
	assert_int_equal(s->comms[0].fault.result, TUTTI_ERR_MISMATCH);
}

/* The progress word, written last, still is that of the operation before. */
TEST_WITH(a_header_being_replaced_is_no_mismatch, set_up, tear_down)
{
	struct scene *s = *state;
	struct tt_op same = op_of_peer(s, s->seq, 1111),
		     next = op_of_peer(s, s->seq + s->comms[1].control_area.nslots, 3333);
	struct tt_area_slot *slot = tt_area_slot(&s->comms[1].control_area, 1, s->seq);

	assert_true(tt_area_post(&same));
	slot->header = next.header;
	tt_area_compare(&s->waiting);
	assert_int_equal(s->comms[0].fault.result, TUTTI_OK);
	atomic_store(&slot->signature, next.signature);
	tt_area_compare(&s->waiting);
	assert_int_equal(s->comms[0].fault.result, TUTTI_OK);
	assert_true(tt_area_post(&next));
	tt_area_compare(&s->waiting);
	assert_int_equal(s->comms[0].fault.result, TUTTI_OK);
}

/* What a look would have found when the first byte of the next header was written. */
static struct {
	struct tt_area_slot *slot;
	uint64_t signature;
} first_byte;

static void *header_page(void)
{
	return (void *)(page_of(&first_byte.slot->header) * PAGE);
}

static void on_first_byte(int signal, siginfo_t *info, void *context)
{
	if (page_of(info->si_addr) != page_of(&first_byte.slot->header))
		_exit(1); /* a fault of another kind */
	first_byte.signature = first_byte.slot->signature;
	mprotect(header_page(), PAGE, PROT_READ | PROT_WRITE);
}

/* Who sees the signature sees its header. */
TEST_WITH(a_header_is_written_before_its_signature, set_up, tear_down)
{
	struct scene *s = *state;
	struct tt_op same = op_of_peer(s, s->seq, 1111),
		     next = op_of_peer(s, s->seq + s->comms[1].control_area.nslots, 3333);
	struct sigaction catch = { .sa_sigaction = on_first_byte, .sa_flags = SA_SIGINFO }, before;

	first_byte.slot = tt_area_slot(&s->comms[1].control_area, 1, s->seq);
	assert_true(tt_area_post(&same));
	sigaction(SIGSEGV, &catch, &before);
	assert_int_equal(mprotect(header_page(), PAGE, PROT_READ), 0);
	assert_true(tt_area_post(&next));
	sigaction(SIGSEGV, &before, NULL);
	assert_true(first_byte.signature == 1111);
	assert_true(first_byte.slot->signature == 3333);
}

/* Rank 0 takes payloads of all lengths, and rank 1 is some operations behind. */
TEST_WITH(no_payload_is_taken_that_may_be_read, set_up, tear_down)
{
	static const size_t lengths[] = { 257, 512, 8192, 8193, 20000, TT_EAGER_BYTES };
	struct scene *s = *state;
	struct tutti_comm *comm = &s->comms[0];
	uint8_t *end_of[5000], *begin_of[5000];
	struct random random = { 1 };
	uint64_t posted = 0;

	s->seen[0][1] = 0;
	for (uint64_t seq = 1; seq < 5000; seq++) {
		const size_t length = lengths[random_below(&random, 6)];

		/* it need not come to operations that this rank has not called */
		for (; !tt_area_payload_is_free(comm, length); s->seen[0][1] = ++posted)
			assert_true(posted < seq - 1);
		const uint64_t unit = tt_area_take_payload(&comm->control_area, seq, length);
		begin_of[seq] = tt_area_payload(&comm->control_area, 0, unit);
		end_of[seq] = begin_of[seq] + length;
		for (uint64_t read = posted ? posted : 1; read < seq; read++)
			assert_true(end_of[seq] <= begin_of[read] || begin_of[seq] >= end_of[read]);
	}
	assert_true(end_of[1] <= (uint8_t *)(comm->control_area.eager + 1));
}
