/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena: one memfd per communicator and host, made by the host's lowest rank and mapped by all
 * its ranks.
 *
 *   header          whether there are faults, sleepers, futex word, looks at the members
 *   member[n]       per rank of the host, a line: its state, how much it told, where its heap is
 *   told[n]         per rank, in pages of its own: the notes and faults that it told
 *   rings           per ordered pair of ranks and channel: a control page, then SHM_RING_BYTES of data
 *   shared region   what the runtime asked for with share()
 *
 * Everything starts as zero bytes. The descriptor is the only name: nothing is left when the
 * last process ends. */
#ifndef TT_SHM_ARENA_H
#define TT_SHM_ARENA_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "process.h"
#include "transport.h"

#define SHM_LINE       64
#define SHM_PAGE       4096
#define SHM_RING_BYTES (256u * 1024)

#define SHM_FAULTS 16 /* that a rank tells at most, each better than the one before */

enum shm_state { SHM_ABSENT, SHM_PRESENT, SHM_LEFT };
enum shm_shares { SHM_UNDECIDED, SHM_SHARES, SHM_SHARES_NOT };

struct shm_header {
	_Alignas(SHM_LINE) _Atomic uint32_t
		faults; /* told by all members; release, pairs with the acquire in shm_progress() */
	_Atomic uint32_t decided; /* where the members are the whole communicator: 1 + the one
				   * whose fault counts for all */
	_Atomic uint32_t apart;	  /* a member cannot open another one's heap: nobody does. Set
				   * before all have joined, read after */
	/* Read by every sender after its fence, written only by who goes to sleep: stays in
	 * every cache. */
	_Alignas(SHM_LINE) _Atomic uint32_t sleepers;
	_Atomic uint32_t bells; /* members that sleep on descriptors: only a waker with some
				 * rings */
	_Alignas(SHM_LINE) _Atomic uint32_t wake; /* futex word: counts wake-ups */
	/* Of the looks at who has died, which the members share (deaths.c): when somebody took some,
	 * and how many have been taken. Relaxed: nothing is published by them. */
	_Alignas(SHM_LINE) _Atomic uint64_t looked_at;
	_Atomic uint32_t looks;
};

/* What all the others look at again and again: one line, so that these of hundreds of ranks are a
 * few pages. */
struct shm_member {
	_Alignas(SHM_LINE) _Atomic uint32_t state; /* enum shm_state */
	_Atomic uint32_t cpu;	 /* 1 + the processor of its thread that waited last; relaxed: a
				  * number alone */
	_Atomic uint32_t shares; /* enum shm_shares: does it map the shared region? see decide() */
	_Atomic uint32_t faults; /* told, none of them ever changed; release, pairs with the
				  * acquire in take_best() */
	_Atomic uint64_t notes;	 /* told, each in its turn; release, pairs with the acquires in
				  * shm_receive_note() */
	struct tt_process_file heap; /* written before all have joined, read after */
};
static_assert(sizeof(struct shm_member) == SHM_LINE, "a line");

struct shm_told {
	_Alignas(SHM_PAGE) _Atomic uint64_t notes[TT_NOTES_KEPT][TT_NOTE_BYTES / 8];
	struct tt_fault faults[SHM_FAULTS];
};

/* A single-producer, single-consumer byte ring; positions only grow. */
struct shm_ring {
	_Alignas(SHM_LINE) _Atomic uint64_t tail; /* bytes written; release, pairs with acquire
						   * of the reader */
	_Alignas(SHM_LINE) _Atomic uint64_t head; /* bytes read; release, pairs with acquire of
						   * the writer */
};
static_assert(sizeof(struct shm_header) <= SHM_PAGE, "the header fits its page");
static_assert(sizeof(struct shm_ring) == 2 * SHM_LINE, "writer and reader have a line each");

struct shm_arena {
	int fd; /* the process's (arena_file.h) */
	int members;
	size_t bytes; /* up to the shared region */
	uint8_t *base;
};

/* Bytes of an arena without its shared region. */
size_t shm_arena_bytes(int members);
/* Where in it the members' notes and faults begin. */
size_t shm_told_offset(int members);
/* Make a new one of `members` ranks (fd < 0), or map the one behind `fd`, which is then owned.
 * `me` is this rank's place. */
tutti_result_t shm_arena_open(struct shm_arena *arena, int fd, int members, int me);
void shm_arena_close(struct shm_arena *arena); /* a zeroed or closed one is fine */

static inline struct shm_header *shm_header(const struct shm_arena *arena)
{
	return (struct shm_header *)arena->base;
}

static inline struct shm_member *shm_member(const struct shm_arena *arena, int member)
{
	return (struct shm_member *)(arena->base + SHM_PAGE) + member;
}

static inline struct shm_told *shm_told(const struct shm_arena *arena, int member)
{
	return (struct shm_told *)(arena->base + shm_told_offset(arena->members)) + member;
}

/* Offset of the ring from `from` to `to`; its data follow SHM_PAGE later. */
size_t shm_ring_offset(const struct shm_arena *arena, int from, int to, int channel);

/* A child of fork() must not have the mapping: it would write into what the ranks share. */
void shm_keep_from_children(void *base, size_t bytes);

/* Map a ring's data twice in a row, so that no span of it ever wraps; NULL with errno set. */
uint8_t *shm_ring_map(const struct shm_arena *arena, size_t ring_offset);
void shm_ring_unmap(uint8_t *data);

#endif
