/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns notes: each rank writes its own in turn, all others read them; who is slow misses the
 * oldest. */
#include <string.h>

#include "endpoint.h"

void shm_send_note(struct tt_endpoint *endpoint, const void *note)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	uint64_t words[TT_NOTE_BYTES / 8];

	if (!ep->arena.base)
		return;
	struct shm_member *me = shm_member(&ep->arena, ep->me);
	struct shm_told *told = shm_told(&ep->arena, ep->me);
	const uint64_t number = atomic_load_explicit(&me->notes, memory_order_relaxed);

	memcpy(words, note, sizeof(words));
	for (int i = 0; i < TT_NOTE_BYTES / 8; i++)
		atomic_store_explicit(&told->notes[number % TT_NOTES_KEPT][i], words[i],
				      memory_order_relaxed);
	/* release: pairs with the acquires in shm_receive_note() */
	atomic_store_explicit(&me->notes, number + 1, memory_order_release);
	shm_wake(endpoint);
}

/* The local peer's next note; false: none, or it was overwritten meanwhile. */
static bool receive_local_peer(struct shm_local_peer *local_peer, const struct shm_arena *arena,
			       int place, void *note)
{
	const struct shm_member *member = shm_member(arena, place);
	const struct shm_told *told = shm_told(arena, place);
	uint64_t words[TT_NOTE_BYTES / 8];
	const uint64_t number = atomic_load_explicit(&member->notes, memory_order_acquire);

	if (local_peer->heard == number)
		return false;
	if (number - local_peer->heard >= TT_NOTES_KEPT) /* the oldest may be written to just now */
		local_peer->heard = number - TT_NOTES_KEPT + 1;
	for (int i = 0; i < TT_NOTE_BYTES / 8; i++)
		words[i] = atomic_load_explicit(&told->notes[local_peer->heard % TT_NOTES_KEPT][i],
						memory_order_relaxed);
	atomic_thread_fence(
		memory_order_acquire); /* the words before the second look at how many */
	const bool whole =
		atomic_load_explicit(&member->notes, memory_order_relaxed) - local_peer->heard <
		TT_NOTES_KEPT;
	local_peer->heard++;
	memcpy(note, words, sizeof(words));
	return whole;
}

bool shm_receive_note(struct tt_endpoint *endpoint, void *note)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);

	for (int i = 0; ep->arena.base && i < ep->arena.members; i++)
		if (i != ep->me && receive_local_peer(&ep->local_peers[i], &ep->arena, i, note))
			return true;
	return false;
}
