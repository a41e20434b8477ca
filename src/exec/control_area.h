/* SPDX-License-Identifier: BSD-3-Clause */
/* The control area: memory that all ranks of a communicator map, on which each posts the header of
 * every collective, small payloads inside, and from which the others read exposed blocks.
 *
 * Per rank: a line of what it says of itself; slots used in turn by collectives 0, 1, 2 …: a hot
 * line (progress, signature, the smallest payloads) that peers poll, lines next to it for payloads
 * that are a little longer, the whole header behind it for when signatures differ;
 * TT_EAGER_SPAN for small payloads, of which operations that have one take a unit in turn, or
 * several; and TT_STAGES staging areas for long ones. First come all ranks' lines, then of each
 * collective in turn all ranks' slots, then all small payloads, then all staging areas: each rank
 * reads the slots of every other, and hundreds of them are some pages for a collective, not a page
 * of each rank.
 *
 * A slot's progress word only grows: operation number << 24 | steps ended in it, so "peer has
 * come to step k of operation n" is one comparison, whatever the slot was used for before or
 * since. */
#ifndef TT_CONTROL_AREA_H
#define TT_CONTROL_AREA_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control_area_state.h"
#include "op_header.h"

/* Of a rank's buffers: copied to be read by others, to be read where they are, and the result to
 * be written by others, too. */
enum { TT_MEMORY_STAGED, TT_MEMORY_DIRECT, TT_MEMORY_GRANTED };

struct tt_area_slot {
	_Alignas(64) _Atomic uint64_t progress; /* release: what was exposed before; pairs with
						 * tt_slot_progress() */
	_Atomic uint64_t signature; /* written behind the header, see tt_area_write_header() */
	uint64_t memory; /* TT_MEMORY_…; other than staged: the tokens below say where this
			  * rank's buffers are */
	uint64_t spare;
	uint8_t payload[TT_HOT_LINE];
	_Alignas(64) uint8_t lines[TT_HOT_PAYLOAD]; /* no store of a payload crosses from one
						     * into another */
	struct tt_op_header header;
	uint64_t send_token, recv_token; /* of direct buffers */
};
static_assert(offsetof(struct tt_area_slot, lines) == 64 &&
		      offsetof(struct tt_area_slot, header) == 64 + TT_HOT_PAYLOAD,
	      "the hot lines are neighbours");

struct tt_area_rank {
	_Alignas(64) _Atomic uint32_t left; /* release, after all its posts: pairs with the
					     * acquire in left_before() */
	_Atomic uint64_t called; /* the last operation called when this rank began to wait for
				  * long; relaxed: a number alone */
};

struct tt_op;
struct tutti_comm;

/* Bytes of the communicator's control area, which begin at a page. */
size_t tt_area_bytes(const struct tutti_comm *comm);
/* Memory for what this rank keeps of a control area; false: there is none. */
bool tt_area_reserve(struct tutti_comm *comm);
/* From now on the communicator has a control area, in `memory` that `endpoint` shares. */
void tt_area_place(struct tutti_comm *comm, void *memory, struct tt_endpoint *endpoint);
void tt_area_free(struct tutti_comm *comm);

/* May operation `seq` use its slot? None has been able to. */
bool tt_area_free_more(struct tutti_comm *comm, uint64_t seq);
/* May an eager payload of so many bytes be taken? */
bool tt_area_payload_is_free(struct tutti_comm *comm, size_t payload);
/* Take it; gives its first unit. */
uint64_t tt_area_take_payload(struct tt_area *control_area, uint64_t seq, size_t payload);
/* Have the lines for writing of the payload that the next operation will take if it is like this
 * one. */
void tt_area_fetch_payload(const struct tt_op *op);
/* Look at a peer's progress for a while, which has not come to what is wanted. TUTTI_OK: now it has;
 * TUTTI_IN_PROGRESS, or a mismatch. */
tutti_result_t tt_area_poll(struct tt_op *op, int peer, uint64_t wanted);
/* Revoke: the peer has posted another header. */
tutti_result_t tt_area_mismatch(struct tt_op *op, int peer);
/* Post the header of an operation that does not use the control area otherwise; false: the slot
 * is not free yet. */
bool tt_area_post(struct tt_op *op);
/* Revoke if a peer has posted another header for this operation, or left without it: for waits
 * that get long. */
void tt_area_compare(struct tt_op *op);
/* The last operation that `rank` is known to have called. */
uint64_t tt_area_last_called(const struct tt_area *control_area, int rank);
/* Say which one that is of this rank, which waits for long and may not have been able to post
 * it. */
void tt_area_report_called(struct tutti_comm *comm);
/* This rank posts nothing more. */
void tt_area_leave(struct tutti_comm *comm);

static inline struct tt_area_slot *tt_area_slot(const struct tt_area *control_area, int rank,
						uint64_t op)
{
	return &control_area->slots[(op & (control_area->nslots - 1)) * control_area->size +
				    (size_t)rank];
}

static inline uint8_t *tt_area_payload(const struct tt_area *control_area, int rank, uint64_t unit)
{
	return control_area->eager[rank] +
	       (unit & (control_area->units - 1)) * (TT_EAGER_SPAN / control_area->units);
}

static inline uint64_t tt_area_mark(uint64_t op, uint64_t steps)
{
	return op << TT_STEP_BITS | steps;
}

/* What a rank publishes when (segment, round) has ended: grows along the wavefront, and is the
 * same on every rank, however many rounds each has. */
static inline uint64_t tt_area_steps(uint32_t segment, uint32_t round)
{
	return (uint64_t)(segment + round) * TT_ROUNDS + round + 1;
}

#define TT_AREA_ALL_STEPS ((1ull << TT_STEP_BITS) - 1) /* the whole operation has ended */

/* acquire: pairs with the release in tt_area_publish(); what the peer exposed before is visible */
static inline uint64_t tt_slot_progress(const struct tt_area_slot *slot)
{
	return atomic_load_explicit(&slot->progress, memory_order_acquire);
}

static inline uint64_t tt_area_progress(const struct tt_area *control_area, int rank, uint64_t op)
{
	return tt_slot_progress(tt_area_slot(control_area, rank, op));
}

#endif
