/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how kernels send and receive messages: chunk by chunk through the channels (kernels.h). The
 * messages of a kernel are divided among its blocks. A block that has several takes the next chunk of
 * whichever is ready, so that none waits for another one; several blocks that have one message take
 * parts of each chunk. */
#ifndef TT_CUDA_LETTERS_CUH
#define TT_CUDA_LETTERS_CUH

#include "meeting.cuh"
#include "moving.cuh"

/* A message as one of the blocks that carry it sees it. */
struct carried {
	const struct tt_cuda_sync *sync;
	const struct tt_cuda_place *place;
	const struct tt_cuda_letter *letter;
	uint32_t chunk;	 /* the next one */
	uint32_t number; /* … in the channel */
	uint32_t slot;
};

DEVICE uint32_t chunks_of(const struct tt_cuda_letter *letter)
{
	return letter->bytes == 0
		       ? 1
		       : (uint32_t)((letter->bytes + TT_CUDA_SLOT_BYTES - 1) / TT_CUDA_SLOT_BYTES);
}

/* Of this rank, in one direction. */
DEVICE uint32_t *count_of(const struct tt_cuda_sync *sync, const struct tt_cuda_letter *letter)
{
	return letter->sending ? &sync->own->sent[letter->peer] : &sync->own->taken[letter->peer];
}

DEVICE struct carried carried_of(const struct tt_cuda_sync *sync, const struct turn *turn,
				 const struct tt_cuda_letter *letter, uint32_t chunk)
{
	const uint32_t number = *count_of(sync, letter) + chunk + 1;

	return { sync, turn->place, letter, chunk, number, (number - 1) % TT_CUDA_SLOTS };
}

/* Is there room for the chunk, or is it there? */
DEVICE bool is_ready(const struct carried &c)
{
	const struct tt_cuda_sync *sync = c.sync;
	const uint32_t peer = c.letter->peer;

	if (c.letter->sending)
		return (int32_t)(load_acquire(&sync->own->freed[peer][c.slot]) -
				 (c.number - TT_CUDA_SLOTS)) >= 0;
	const struct tt_cuda_line *full = &sync->own->full[peer][c.slot];
	const uint32_t there = load_acquire(&full->number);
	const struct tt_cuda_line line = load_line(full);

	return there == c.number && is_of(&line, c.number);
}

/* A header with the message's own count. */
DEVICE void header_of(const struct tt_cuda_post &post, const struct tt_cuda_letter *letter,
		      uint8_t header[TT_CUDA_HEADER])
{
	for (int i = 0; i < TT_CUDA_HEADER; i++)
		header[i] = post.header[letter->header][i];
	memcpy(header + TT_CUDA_HEADER_COUNT, &letter->count, sizeof(letter->count));
}

/* One that differs is told. */
DEVICE bool is_expected(const struct tt_cuda_post &post, const struct carried &c)
{
	const struct tt_cuda_sync *sync = c.sync;
	const uint32_t peer = c.letter->peer;
	const struct tt_cuda_line line = load_line(&sync->own->full[peer][c.slot]);
	uint8_t mine[TT_CUDA_HEADER];

	if (c.letter->sending || data_of(&line) == c.letter->signature + c.chunk)
		return true;
	header_of(post, c.letter, mine);
	report_mismatch(sync,
			c.place->control[peer]
				->sent_header[sync->rank][(c.number - c.chunk - 1) % TT_CUDA_SLOTS],
			c.number - c.chunk, peer, mine);
	return false;
}

/* Where the chunk lies on its way. */
DEVICE char *room_of(const struct carried &c)
{
	const struct tt_cuda_sync *sync = c.sync;
	const uint32_t from = c.letter->sending ? sync->rank : c.letter->peer,
		       to = c.letter->sending ? c.letter->peer : sync->rank;

	return c.place->rooms[from] + ((uint64_t)to * TT_CUDA_SLOTS + c.slot) * TT_CUDA_SLOT_BYTES;
}

DEVICE void carry(const struct carried &c, uint32_t member, uint32_t members)
{
	const uint64_t from = (uint64_t)c.chunk * TT_CUDA_SLOT_BYTES;
	const uint64_t left = c.letter->bytes - from;
	const uint64_t bytes = left < TT_CUDA_SLOT_BYTES ? left : TT_CUDA_SLOT_BYTES;
	char *buffer = (char *)c.letter->buffer + from, *room = room_of(c);

	copy(c.letter->sending ? room : buffer, c.letter->sending ? buffer : room, bytes,
	     (uint64_t)member * blockDim.x + threadIdx.x, (uint64_t)members * blockDim.x);
}

/* The whole chunk has been moved, by all blocks that carry the message: the peer is told. */
DEVICE void give_word(const struct tt_cuda_post &post, const struct carried &c, uint32_t members)
{
	const struct tt_cuda_sync *sync = c.sync;
	struct tt_cuda_control *own = sync->own, *theirs = c.place->control[c.letter->peer];
	uint32_t *done = &own->done[c.letter->sending][c.letter->peer][c.slot];

	if (members > 1 && add_one(done) != members - 1)
		return;
	if (members > 1)
		show(done, 0);
	if (c.letter->sending && c.chunk == 0) {
		uint8_t header[TT_CUDA_HEADER];

		header_of(post, c.letter, header);
		store_header(own->sent_header[c.letter->peer][c.slot], header, c.number, 0, 1);
	}
	__threadfence_system();
	if (c.letter->sending)
		store_line(&theirs->full[sync->rank][c.slot], c.letter->signature + c.chunk,
			   c.number);
	else
		show(&theirs->freed[sync->rank][c.slot], c.number);
}

/* The next chunk of a message, if it is ready: 1 where it was, 0 where not, -1 where it is another
 * message. The same for all threads of the block. */
DEVICE int carry_next(const struct tt_cuda_post &post, const struct turn *turn,
		      const struct tt_cuda_letter *letter, uint32_t chunk, uint32_t member,
		      uint32_t members)
{
	__shared__ int ready;
	const struct carried c = carried_of(&post.sync, turn, letter, chunk);

	if (threadIdx.x == 0)
		ready = !is_ready(c) ? 0 : is_expected(post, c) ? 1 : -1;
	__syncthreads();
	const int found = ready;
	if (found == 1)
		carry(c, member, members);
	__syncthreads();
	if (found == 1 && threadIdx.x == 0)
		give_word(post, c, members);
	return found;
}

/* One round over the block's messages: how many chunks were moved, and how many messages are not
 * ended; -1: something else has come. */
DEVICE int go_round(const struct tt_cuda_post &post, const struct turn *turn,
		    const struct share &bag, uint32_t *chunks, uint32_t *left)
{
	int moved = 0;

	*left = 0;
	NO_UNROLL
	for (uint32_t i = bag.first; i < post.letters; i += bag.step) {
		const struct tt_cuda_letter *letter = &post.letter[i];
		const uint32_t chunk = chunks[i];

		if (chunk == chunks_of(letter))
			continue;
		const int found = carry_next(post, turn, letter, chunk, bag.member, bag.members);
		if (found < 0)
			return -1;
		moved += found;
		if (threadIdx.x == 0)
			chunks[i] = chunk + (uint32_t)found;
		*left += chunk + (uint32_t)found < chunks_of(letter);
	}
	__syncthreads();
	return moved;
}

/* For whom is waited; false: nobody is to wait any longer. The same for all threads of a block. */
DEVICE bool may_wait_for_peers(const struct tt_cuda_post &post, const struct turn *turn,
			       const struct share &bag, const uint32_t *chunks)
{
	bool well = true;

	if (threadIdx.x == 0)
		NO_UNROLL
	for (uint32_t i = bag.first; i < post.letters && well; i += bag.step)
		if (chunks[i] < chunks_of(&post.letter[i]))
			well = may_wait(&post.sync, turn, post.letter[i].peer, true);
	return __syncthreads_and(well);
}

DEVICE void stop_waiting_for_peers(const struct tt_cuda_post &post, const struct share &bag)
{
	if (threadIdx.x == 0)
		NO_UNROLL
	for (uint32_t i = bag.first; i < post.letters; i += bag.step)
		stop_waiting(&post.sync, post.letter[i].peer);
}

/* False: the communicator has ended. */
DEVICE bool carry_all(const struct tt_cuda_post &post, const struct turn *turn, uint32_t *chunks)
{
	const struct share bag = share_of(post.letters);
	uint32_t left = 1, spins = 0;

	for (uint32_t i = threadIdx.x; i < post.letters; i += blockDim.x)
		chunks[i] = 0;
	__syncthreads();
	while (left) {
		const int moved = go_round(post, turn, bag, chunks, &left);

		if (moved < 0)
			return false;
		if (moved > 0 || !left) {
			if (spins >= LOOKS)
				stop_waiting_for_peers(post, bag);
			spins = 0;
			continue;
		}
		if (++spins % LOOKS == 0 && !may_wait_for_peers(post, turn, bag, chunks))
			return false;
		pause_briefly(spins);
	}
	return true;
}

KERNEL tt_cuda_messages(PARAMETER(struct tt_cuda_post, post))
{
	__shared__ uint32_t chunks[TT_CUDA_LETTERS];
	struct tt_cuda_control *own = post.sync.own;
	struct turn turn;

	if (!begin(&post.sync, &turn))
		return;
	if (!carry_all(post, &turn, chunks) || !is_last(own))
		return;
	NO_UNROLL
	for (uint32_t i = 0; i < post.letters; i++)
		*count_of(&post.sync, &post.letter[i]) += chunks_of(&post.letter[i]);
	own->letters++;
	if (post.sync.ends)
		tell_host(&post.sync, &turn);
}

#endif
