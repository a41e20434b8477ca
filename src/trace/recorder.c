/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the life of a communicator's flight recorder, and what it keeps of plans. */
#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "log.h"
#include "machine.h"

/* ---- the clock */

/* Does the processor count at one rate, and all its cores alike? */
static bool counter_is_steady(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#elif defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

void tt_recorder_read_clocks(bool counter, uint64_t *ticks, uint64_t *monotonic)
{
	uint64_t narrowest = UINT64_MAX;

	/* of a few pairs the one that nothing came between */
	for (int i = 0; i < 4; i++) {
		const uint64_t before = tt_ticks(counter), now = tt_now(),
			       after = tt_ticks(counter);

		if (after - before >= narrowest)
			continue;
		narrowest = after - before;
		*ticks = before + narrowest / 2;
		*monotonic = now;
	}
}

/* ---- life */

/* As tutti-run numbers it, whatever process it is by now that a rank's own has started. */
static int32_t launched_rank(void)
{
	const char *text = getenv("TUTTI_RANK");
	char *end;
	const long rank = text && *text ? strtol(text, &end, 10) : -1;

	return rank >= 0 && rank < INT32_MAX && *end == '\0' ? (int32_t)rank : -1;
}

static void fill_header(struct tutti_comm *comm)
{
	struct tt_recorder *recorder = comm->recorder;
	struct tt_flight *flight = recorder->flight;

	snprintf(flight->version, sizeof(flight->version), "%s", tutti_version());
	flight->comm_id = comm->id;
	flight->rank = comm->rank;
	flight->size = comm->size;
	flight->pid = getpid();
	flight->counter = comm->recording.counter;
	flight->launched = launched_rank();
	flight->boot = tt_machine_boot();
	tt_recorder_read_clocks(comm->recording.counter, &flight->ticks, &flight->monotonic);
	snprintf(flight->job, sizeof(flight->job), "%s", comm->settings.job);
	snprintf(flight->host, sizeof(flight->host), "%s", comm->settings.host_id);
	if (gethostname(flight->hostname, sizeof(flight->hostname) - 1) < 0)
		flight->hostname[0] = '\0';
	memcpy(flight->report, recorder->place.report, sizeof(flight->report));
	flight->private = recorder->place.private;
	atomic_init(&flight->plans_end, TT_FLIGHT_PLACES); /* place 0 is nobody's */
	flight->magic = TT_FLIGHT_MAGIC;
}

tutti_result_t tt_recorder_open(struct tutti_comm *comm)
{
	struct tt_recorder *recorder = comm->recorder =
		calloc(1, sizeof(*recorder) + (size_t)comm->size * sizeof(recorder->peers[0]));

	if (!recorder)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for the flight recorder");
	/* ranks of one communicator share its id; communicators of one job, the first one's */
	if (!*comm->settings.job)
		snprintf(comm->settings.job, sizeof(comm->settings.job), "%016llx",
			 (unsigned long long)comm->id);
	tt_flight_find_place(comm->settings.trace, comm->settings.job, comm->id, comm->rank,
			     &recorder->place);
	recorder->flight = tt_flight_map(&recorder->place, &recorder->fd);
	if (!recorder->flight)
		return tt_fail_errno(COMM, "map %zu bytes for the last operations",
				     sizeof(struct tt_flight));
	comm->recording.flight = recorder->flight;
	recorder->pid = getpid();
	comm->recording.next = recorder->next_stream = 1;
	comm->recording.capacity = TT_FLIGHT_OPS_FIRST;
	comm->recording.counter = counter_is_steady();
	fill_header(comm);
	return TUTTI_OK;
}

void tt_recorder_ready(struct tutti_comm *comm)
{
	struct tt_recorder *recorder = comm->recorder;

	memcpy(recorder->flight->transports, comm->routes.transport_names,
	       sizeof(recorder->flight->transports));
	if (!*recorder->place.report)
		return;
	const bool first = tt_recorder_list(recorder);
	/* processes that are killed again and again never come to tt_recorder_close() */
	if (first && comm->topology.local_rank == 0 && tt_flight_crowded(&recorder->place))
		tt_flight_sweep(&recorder->place);
}

static void close_flight(struct tutti_comm *comm, struct tt_recorder *recorder)
{
	if (*recorder->place.report) {
		if (comm->fault.result) /* some die while others report */
			tt_recorder_report_dead(comm);
		const bool last = tt_recorder_unlist(recorder);
		/* a sweep looks at the files of all that live, too */
		if (comm->topology.local_rank == 0 && (last || comm->fault.result))
			tt_flight_sweep(&recorder->place);
	}
	if (*recorder->place.ring)
		unlink(recorder->place.ring);
	tt_fd_close(recorder->fd);
	munmap(recorder->flight, sizeof(*recorder->flight));
}

void tt_recorder_close(struct tutti_comm *comm)
{
	struct tt_recorder *recorder = comm->recorder;

	comm->recorder = NULL;
	/* a child of fork() has nothing of this but the numbers */
	if (recorder && recorder->flight && tt_owned_here(&comm->owner))
		close_flight(comm, recorder);
	free(recorder);
}

void tt_recorder_extend(struct tutti_comm *comm)
{
	comm->recording.capacity = 0; /* no operation's number */
	if (comm->recorder->fd >= 0)
		tt_flight_extend(comm->recorder->flight, comm->recorder->fd);
}

/* ---- plans */

static _Atomic uint64_t *word_at(struct tt_flight *flight, uint64_t place)
{
	return &flight->plans[place % TT_FLIGHT_PLANS / 8];
}

static void put_words(_Atomic uint64_t *to, const void *from, size_t bytes)
{
	const uint8_t *at = from;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word;

		memcpy(&word, at + i, 8);
		atomic_store_explicit(&to[i / 8], word, memory_order_relaxed);
	}
}

static uint64_t bytes_of_run(const struct tt_plan *plan, const struct tt_ref *run, uint32_t n)
{
	const struct tt_layout *lengths = tt_plan_lengths(plan, run->buffer);
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < n; k++)
		bytes += tt_layout_at(lengths, plan->element, 1, 0, run->block + k).length;
	return bytes;
}

static uint64_t bytes_of_route(const struct tt_plan *plan, const struct tt_route *route)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < route->n; i++) {
		const struct tt_step *step =
			&plan->sched.steps[plan->entries[route->first + i].step];

		bytes += bytes_of_run(plan, &step->a, step->n);
	}
	return bytes;
}

/* Where the schedule is shared: what is read of each peer's memory. */
static uint64_t find_read(struct tt_flight_peer *peers, const struct tt_plan *plan,
			  const struct tutti_comm *comm)
{
	uint32_t n = 0; /* of the reduction at hand */
	uint64_t found = 0;

	memset(peers, 0, (size_t)comm->size * sizeof(*peers));
	for (uint32_t i = 0; i < plan->sched.nsteps; i++) {
		const struct tt_step *step = &plan->sched.steps[i];

		if (step->kind == TT_STEP_REDUCE)
			n = step->n;
		else if (step->kind == TT_STEP_SOURCE && step->peer != comm->rank)
			peers[step->peer].received += bytes_of_run(plan, &step->a, n);
	}
	for (int rank = 0; rank < comm->size; rank++)
		if (peers[rank].received > 0)
			peers[found++] =
				(struct tt_flight_peer){ .rank = (uint64_t)rank,
							 .received = peers[rank].received };
	return found;
}

/* Elsewhere; both directions of a peer follow each other. Of many ranks few are looked at. */
static uint64_t find_routes(struct tt_flight_peer *peers, const struct tt_plan *plan)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < plan->nroutes; i++) {
		const struct tt_route *route = &plan->routes[i];
		const uint64_t rank = (uint64_t)route->peer;

		if (found == 0 || peers[found - 1].rank != rank)
			peers[found++] = (struct tt_flight_peer){ .rank = rank };
		*(route->sending ? &peers[found - 1].sent : &peers[found - 1].received) =
			bytes_of_route(plan, route);
	}
	return found;
}

void tt_recorder_plan(struct tutti_comm *comm, struct tt_plan *plan)
{
	struct tt_flight *flight = comm->recorder->flight;
	uint64_t place = atomic_load_explicit(&flight->plans_end, memory_order_relaxed);
	struct tt_flight_plan record = { .header = plan->header };
	struct tt_flight_peer *peers = comm->recorder->peers;

	/* what is about to be written over is written again, for the operations to come */
	if (plan->record && place - plan->record < TT_FLIGHT_PLANS / 2)
		return;
	const uint64_t found = plan->algorithm->shared ? find_read(peers, plan, comm)
						       : find_routes(peers, plan),
		       capacity = (TT_FLIGHT_PLAN_MAX - sizeof(record)) / sizeof(*peers);
	record.npeers = found < capacity ? found : capacity;
	record.peers_left_out = found - record.npeers;
	const size_t bytes = sizeof(record) + record.npeers * sizeof(*peers);
	if (place % TT_FLIGHT_PLANS + bytes > TT_FLIGHT_PLANS) /* a record is in one piece */
		place += TT_FLIGHT_PLANS - place % TT_FLIGHT_PLANS;
	if (place + bytes > TT_FLIGHT_PLANS_FIRST && comm->recording.capacity)
		tt_recorder_extend(comm);
	atomic_store_explicit(&flight->plans_end,
			      place + (bytes + TT_FLIGHT_PLACES - 1) / TT_FLIGHT_PLACES *
					      TT_FLIGHT_PLACES,
			      memory_order_relaxed);
	/* release: pairs with the acquire fence in tt_flight_read_plan() */
	atomic_thread_fence(memory_order_release);
	put_words(word_at(flight, place), &record, sizeof(record)); /* place 0: not yet */
	put_words(word_at(flight, place + sizeof(record)), peers, record.npeers * sizeof(*peers));
	/* release: pairs with the acquire in tt_flight_read_plan() */
	atomic_store_explicit(word_at(flight, place), place, memory_order_release);
	plan->record = place;
}

/* ---- what the program says of a call */

/* `from` begins with the line's number. */
static void put_line(void *line, const void *from, size_t bytes)
{
	_Atomic uint64_t *words = line;
	uint64_t number;

	memcpy(&number, from, sizeof(number));
	atomic_store_explicit(words, 0, memory_order_relaxed);
	/* release: pairs with the acquire fence in tt_flight_read_line() */
	atomic_thread_fence(memory_order_release);
	put_words(words + 1, (const uint8_t *)from + sizeof(number), bytes - sizeof(number));
	/* release: pairs with the acquire in tt_flight_read_line() */
	atomic_store_explicit(words, number, memory_order_release);
}

void tt_recorder_caller(struct tutti_comm *comm, uint64_t number, const char *caller)
{
	struct tt_flight *flight = comm->recorder->flight;
	struct tt_flight_caller line = { .number = number };

	if (comm->recording.capacity)
		tt_recorder_extend(comm);
	memcpy(line.text, caller, strnlen(caller, sizeof(line.text) - 1));
	put_line(&flight->callers[number % TT_FLIGHT_CALLERS], &line, sizeof(line));
}

/* ---- calls on streams */

uint64_t tt_recorder_stream(struct tutti_comm *comm, const struct tt_call *call,
			    enum tt_flight_way way, bool captured, int device)
{
	struct tt_recorder *recorder = comm->recorder;
	const bool message = call->collective == TT_SEND_RECV;

	if (comm->recording.capacity)
		tt_recorder_extend(comm);
	const struct tt_flight_stream line = {
		.number = recorder->next_stream++,
		.posted = tt_ticks(comm->recording.counter),
		.count = call->count,
		.sequence = message ? 0 : ++recorder->stream_collectives,
		.op = call->op,
		.root = call->root,
		.device = (int16_t)device,
		.kind = !message	? TT_FLIGHT_COLLECTIVE
			: call->sending ? TT_FLIGHT_SEND
					: TT_FLIGHT_RECV,
		.collective = (uint8_t)call->collective,
		.dtype = (uint8_t)call->dtype,
		.way = (uint8_t)way,
		.captured = captured,
	};
	put_line(&recorder->flight->streams[line.number % TT_FLIGHT_STREAMS], &line, sizeof(line));
	return line.number;
}

void tt_recorder_stream_waits(struct tutti_comm *comm, uint64_t first, uint64_t last,
			      uint64_t waits)
{
	/* of a group with more calls than are kept, the last ones */
	for (uint64_t number = last >= first + TT_FLIGHT_STREAMS ? last - TT_FLIGHT_STREAMS + 1
								 : first;
	     number <= last; number++)
		atomic_store_explicit(
			&comm->recorder->flight->streams[number % TT_FLIGHT_STREAMS].waits, waits,
			memory_order_relaxed);
}
