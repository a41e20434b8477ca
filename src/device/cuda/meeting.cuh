/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how kernels wait for those of other ranks, and say how far they are (kernels.h). */
#ifndef TT_CUDA_MEETING_CUH
#define TT_CUDA_MEETING_CUH

#include "compiler.cuh"

/* Is this thread the one that speaks for the grid, the last block of it? Then everything that the
 * grid has stored is ordered before what this thread stores behind a fence: the barrier orders the
 * stores of a block's threads before its first one's addition, and additions carry this from block
 * to block. */
DEVICE bool is_last(struct tt_cuda_control *own)
{
	__syncthreads();
	if (threadIdx.x != 0)
		return false;
	if (gridDim.x == 1)
		return true;
	if (add_one(&own->blocks) != gridDim.x - 1)
		return false;
	show(&own->blocks, 0);
	return true;
}

/* Where this rank is, and where its peers are: the same for all threads of a block. */
struct turn {
	uint32_t met;			   /* how often it has arrived */
	uint32_t number;		   /* of the collective */
	uint32_t wait;			   /* the number by which the host tells waits apart */
	uint64_t ended;			   /* operations that have */
	const struct tt_cuda_place *place; /* of the block's own memory */
};

/* Between two looks at whether to wait any longer. The host's memory is far. */
#define LOOKS (ARCH ? 256u : 16u)

/* A header in lines of that number, by `threads` threads of which this is number `thread`. */
DEVICE void store_header(struct tt_cuda_line *lines, const uint8_t *header, uint32_t number,
			 uint32_t thread, uint32_t threads)
{
	NO_UNROLL
	for (uint32_t i = thread; i < TT_CUDA_HEADER / 8; i += threads) {
		uint64_t some;

		memcpy(&some, header + 8 * i, sizeof(some));
		store_line(&lines[i], some, number);
	}
}

/* Likewise, what this rank has called, for all. */
DEVICE void introduce(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t thread,
		      uint32_t threads)
{
	const uint32_t number = turn->number;

	store_header(sync->own->header, sync->header, number, thread, threads);
	NO_UNROLL
	for (uint32_t r = thread; r < sync->ranks; r += threads) {
		struct tt_cuda_control *control = turn->place->control[r];

		store_line(&control->called[number & 1][sync->rank], sync->signature, number);
		if (sync->tells)
			for (int which = 0; which < 2; which++)
				show(&control->told[number & 1][sync->rank][which],
				     sync->told[which]);
	}
}

DEVICE bool is_of(const struct tt_cuda_line *line, uint32_t number)
{
	return line->number == number && line->again == number;
}

DEVICE uint64_t data_of(const struct tt_cuda_line *line)
{
	return (uint64_t)line->high << 32 | line->low;
}

/* Where rank `r` says what it has called. */
DEVICE const struct tt_cuda_line *call_of(const struct tt_cuda_sync *sync, const struct turn *turn,
					  uint32_t r)
{
	return &sync->own->called[turn->number & 1][r];
}

#define HEADER_LOOKS (ARCH ? 100000u : 1000u) /* for a header that is on its way, in all */

/* Once, whoever of the grid finds it first. `header`: of rank `peer`, of that number. */
SHARED void report_mismatch(const struct tt_cuda_sync *sync, const struct tt_cuda_line *header,
			    uint32_t number, uint32_t peer, const uint8_t *mine)
{
	struct tt_cuda_report *report = sync->report;
	uint32_t looks = 0;

	if (atomicExch(&sync->own->dead, 1) != 0)
		return;
	NO_UNROLL
	for (int i = 0; i < TT_CUDA_HEADER / 8; i++) {
		struct tt_cuda_line line = load_line(&header[i]);

		NO_UNROLL
		while (!is_of(&line, number) && ++looks < HEADER_LOOKS) {
			pause_briefly(looks);
			line = load_line(&header[i]);
		}
		const uint64_t theirs = data_of(&line);
		memcpy(report->mine + 8 * i, mine + 8 * i, 8);
		memcpy(report->theirs + 8 * i, &theirs, 8);
	}
	__threadfence_system();
	show(&report->mismatch, 1 + peer);
}

DEVICE void report_other_call(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t r)
{
	report_mismatch(sync, turn->place->control[r]->header, turn->number, r, sync->header);
}

/* Is there nothing to be done? Whoever `asks` looks at the host's memory for that. It is far, and one
 * look follows the other: with all blocks of a kernel looking, the last one has its answer some 1 µs
 * for each of them later (H100). So where blocks wait for the same, one of them asks, and where they
 * wait for different things they take turns (struct asking). */
DEVICE bool is_dead(const struct tt_cuda_sync *sync, bool asks)
{
	if (glance(&sync->own->dead))
		return true;
	if (!asks || !glance(&sync->report->abort))
		return false;
	show(&sync->own->dead, 1);
	return true;
}

/* Of `all` that wait at the same time, and ask the host in turn, this is number `mine`; none: it never
 * asks. */
struct asking {
	uint32_t all, mine;

	__device__ bool is_due(uint32_t look) const
	{
		return all > 0 && look % all == mine;
	}
};

/* Block 0 waits for the same as all others. */
DEVICE struct asking first_block_asks(void)
{
	return { blockIdx.x == 0, 0 };
}

/* Does a thread that has waited for rank `r` for some time have to go on? If it `asks`, the host is
 * told whom it waits for. */
SHARED bool may_wait(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t r,
		     bool asks)
{
	const struct tt_cuda_line called = load_line(call_of(sync, turn, r));

	if (is_dead(sync, asks))
		return false;
	if ((sync->calls || sync->check) && is_of(&called, turn->number) &&
	    data_of(&called) != sync->signature) {
		report_other_call(sync, turn, r);
		return false;
	}
	if (!asks)
		return true;
	show(&sync->report->missing[r], 1);
	show(&sync->report->waiting, 1 + (uint64_t)turn->wait);
	return true;
}

/* Others may still wait for it, and will say so again. */
SHARED void stop_waiting(const struct tt_cuda_sync *sync, uint32_t r)
{
	show(&sync->report->missing[r], 0);
	show(&sync->report->progress, 1 + (uint64_t)add_one(&sync->own->progress));
	show(&sync->report->waiting, 0);
}

/* Until it is ready, which is for rank `r` to bring about; false: that will not come. */
template <class READY>
DEVICE bool wait_until(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t r,
		       const struct asking asking, READY ready)
{
	uint32_t spins = 0;
	bool told = false;

	while (!ready()) {
		if (++spins % LOOKS == 0) {
			const bool asks = asking.is_due(spins / LOOKS);

			if (!may_wait(sync, turn, r, asks))
				return false;
			told |= asks;
		}
		pause_briefly(spins);
	}
	if (told)
		stop_waiting(sync, r);
	return true;
}

/* Rank `r` has called the same as this one, once it has called. */
DEVICE bool await_call(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t r,
		       const struct asking asking)
{
	struct tt_cuda_line called;

	if (!wait_until(sync, turn, r, asking, [&] {
		    called = load_line(call_of(sync, turn, r));
		    return is_of(&called, turn->number);
	    }))
		return false;
	if (data_of(&called) == sync->signature)
		return true;
	report_other_call(sync, turn, r);
	return false;
}

enum { LOOK_WELL = 1, LOOK_DEAD };

/* Is there nothing to be done? The first block asks for all of the grid, and the others have its answer,
 * which the kernel's end takes back. One that has waited for long asks for itself: maybe not all blocks
 * run at once. By one thread of each block. */
DEVICE bool is_dead_from_the_start(const struct tt_cuda_sync *sync)
{
	struct tt_cuda_control *own = sync->own;
	uint32_t answer, spins = 0;

	if (blockIdx.x == 0) {
		const bool dead = is_dead(sync, true);

		if (gridDim.x > 1)
			show(&own->looked, dead ? LOOK_DEAD : LOOK_WELL);
		return dead;
	}
	/* a block that began before may have found out, and the first one then has nothing to ask */
	while ((answer = glance(&own->looked)) == 0 && !glance(&own->dead)) {
		if (++spins == LOOKS)
			return is_dead(sync, true);
		pause_briefly(spins);
	}
	return answer != LOOK_WELL;
}

DEVICE bool has_arrived(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t r)
{
	return (int32_t)(load_acquire(&sync->own->arrived[r]) - turn->met) >= 0;
}

/* The communicator has ended. */
SHARED void await_briefly(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t r)
{
	const uint64_t begun = nanoseconds();
	uint32_t spins = 0;

	while (!has_arrived(sync, turn, r) && nanoseconds() - begun < TT_CUDA_GRACE_NS)
		pause_briefly(++spins);
}

/* Until all ranks have arrived as often as this one, if it `awaits` them (as in a part), and called the
 * same, if it `checks` that, and the host was asked, if this kernel `looks`; false: that will not be.
 * The same for all threads of a block. */
DEVICE bool meet(const struct tt_cuda_sync *sync, const struct turn *turn, uint32_t awaits,
		 bool checks, bool looks)
{
	const struct asking asking = first_block_asks();
	bool well = true;

	NO_UNROLL
	for (uint32_t r = threadIdx.x; r < sync->ranks && well; r += blockDim.x) {
		well = !awaits || wait_until(sync, turn, r, asking,
					     [&] { return has_arrived(sync, turn, r); });
		if (!well && awaits == TT_CUDA_ALL_AT_LAST)
			await_briefly(sync, turn, r);
		if (well && checks)
			well = await_call(sync, turn, r, asking);
	}
	if (looks && threadIdx.x == blockDim.x - 1) /* which waits for no rank */
		well = !is_dead_from_the_start(sync) && well;
	return __syncthreads_and(well);
}

/* One operation more has ended. By one thread. */
DEVICE void tell_host(const struct tt_cuda_sync *sync, const struct turn *turn)
{
	sync->own->ended = turn->ended + 1;
	show(&sync->report->ended, turn->ended + 1);
}

/* Behind a phase, once for the grid: what peers are told of it, with one fence for all that the grid
 * has stored; behind the `last` one the host, if an operation ends with it. The host comes last, as a
 * fence waits for what was stored there, too. `goes`: the phase was not left to what follows. */
DEVICE void tell(const struct tt_cuda_sync *sync, struct turn *turn, bool introduces, bool arrives,
		 bool goes, bool last)
{
	struct tt_cuda_control *own = sync->own;

	turn->met += arrives;
	if (!(introduces || arrives || last) || !is_last(own))
		return;
	if (last && sync->maybe)
		own->went = goes ? turn->number : 0;
	if (last && sync->looks)
		show(&own->looked, 0);
	if (introduces)
		introduce(sync, turn, 0, 1);
	own->number = turn->number;
	own->met = turn->met;
	if (arrives) {
		__threadfence_system();
		NO_UNROLL
		for (uint32_t r = 0; r < sync->ranks; r++)
			show(&turn->place->control[r]->arrived[sync->rank], turn->met);
	}
	if (last && sync->ends)
		tell_host(sync, turn);
}

/* Where this rank is; false: it is to do nothing. The same for all threads of a block. */
DEVICE bool begin(const struct tt_cuda_sync *sync, struct turn *turn)
{
	__shared__ struct tt_cuda_place place;
	__shared__ struct turn seen;
	__shared__ bool dead;

	NO_UNROLL
	for (uint32_t r = blockDim.x - 1 - threadIdx.x; r < sync->ranks; r += blockDim.x) {
		place.control[r] = sync->place->control[r];
		place.lines[r] = sync->place->lines[r];
		place.rooms[r] = sync->place->rooms[r];
	}
	if (threadIdx.x == 0) {
		const struct tt_cuda_control *own = sync->own;

		dead = glance(&own->dead);
		seen.met = own->met;
		seen.number = own->number + sync->calls;
		if (seen.number == 0 && sync->calls) /* of lines that nobody has written yet */
			seen.number = 2;
		seen.wait = own->met + seen.number + own->letters;
		seen.ended = own->ended;
		seen.place = &place;
	}
	__syncthreads();
	*turn = seen;
	return !dead;
}

#endif
