/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call at random for a long time: any collective, of any type, operation and size; blocking, pending several at a
 * time, or in groups; on the whole communicator and on parts that come and go; in memory that peers can map and in memory that
 * they cannot. Every result is checked, and once it has warmed up, no rank's memory grows and no descriptor is left.
 *
 *   soak [--seconds N] [--seed N] [--ranks N] [--transport shm|tcp|mixed]
 *
 * Memory is that which the process has in use for itself; it may be TOLERANCE_KB and a tenth above what it was at most while
 * warming up, which is a third of the time. What it shares with others (boards and rings, whose pages come as they are used) may
 * be SHARED_KB more than then without parts of the communicator. Descriptors must be as many as then, with nothing in flight. */
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "harness.h"

#define SLOTS	     4	 /* calls in flight */
#define PARTS	     2	 /* parts of the communicator at a time */
#define BUFFER_BYTES (1u << 20)
#define ROUND	     200 /* calls between two looks at what the process holds */
#define TOLERANCE_KB 16384
#define SHARED_KB    (64 * 1024)

struct options {
	double seconds;
	uint64_t seed;
	int ranks;
	const char *transport;
};

struct soak {
	struct options options;
	atomic_ullong calls; /* of all ranks */
	_Atomic long kilobytes[RANKS_MAX][2]; /* while warming up, and at the end: at most */
};

struct rank {
	tutti_comm_t world, parts[PARTS];
	uint64_t random; /* the same on all ranks */
	void *send[SLOTS], *recv[SLOTS];
};

/* ---- what a rank calls */

static tutti_comm_t draw_comm(struct rank *r)
{
	const uint64_t place = soak_random(&r->random) % (2 * PARTS);

	return place < PARTS && r->parts[place] ? r->parts[place] : r->world;
}

static int finish(tutti_comm_t comm, tutti_request_t *request, const struct soak_call *call)
{
	SUCCEEDS(tutti_wait(request));
	CLAIM(soak_check(comm, call), "a result is wrong");
	return 0;
}

/* Calls that are all posted before the first is waited for; each may be on another communicator. Parts have other members: what
 * is drawn must not depend on that. */
static int call_several(struct rank *r, int calls)
{
	const bool blocking = calls == 1 && soak_random(&r->random) % 2;
	struct soak_call call[SLOTS];
	tutti_request_t request[SLOTS] = { NULL };
	tutti_comm_t on[SLOTS];

	for (int i = 0; i < calls; i++) {
		uint64_t own = soak_random(&r->random);
		const tutti_comm_t comm = on[i] = draw_comm(r);

		soak_draw(&own, tutti_comm_size(comm), BUFFER_BYTES, &call[i]);
		call[i].send = r->send[i];
		call[i].recv = r->recv[i];
		SUCCEEDS(soak_start(comm, &call[i], blocking ? NULL : &request[i]));
	}
	for (int i = 0; i < calls; i++)
		if (finish(on[i], &request[i], &call[i]))
			return 1;
	return 0;
}

static int call_in_a_group(struct rank *r, int calls)
{
	const tutti_comm_t comm = draw_comm(r);
	struct soak_call call[SLOTS];
	tutti_request_t request = NULL;

	SUCCEEDS(tutti_group_begin(comm));
	for (int i = 0; i < calls; i++) {
		uint64_t own = soak_random(&r->random);

		do
			soak_draw(&own, tutti_comm_size(comm), BUFFER_BYTES, &call[i]);
		while (call[i].kind == SOAK_SENDRECV);
		call[i].send = r->send[i];
		call[i].recv = r->recv[i];
		SUCCEEDS(soak_start(comm, &call[i], NULL));
	}
	SUCCEEDS(tutti_group_end(comm, soak_random(&r->random) % 2 ? &request : NULL));
	SUCCEEDS(tutti_wait(&request));
	for (int i = 0; i < calls; i++)
		CLAIM(soak_check(comm, &call[i]), "a result of a group is wrong");
	return 0;
}

/* Another part takes the place of one. */
static int change_part(struct rank *r)
{
	const tutti_comm_t comm = r->world;
	const uint64_t place = soak_random(&r->random) % PARTS, ways = 1 + soak_random(&r->random) % 3;

	tutti_comm_destroy(r->parts[place]);
	SUCCEEDS(tutti_comm_split(comm, (int)((uint64_t)tutti_comm_rank(comm) % ways), 0, &r->parts[place]));
	return 0;
}

static int call_at_random(struct rank *r)
{
	const uint64_t what = soak_random(&r->random) % 100;
	const int calls = 1 + (int)(soak_random(&r->random) % SLOTS);

	if (what == 0)
		return change_part(r);
	return what < 20 ? call_in_a_group(r, calls) : call_several(r, what < 60 ? 1 : calls);
}

/* ---- what it holds */

static void note_memory(struct soak *s, int rank, bool warm)
{
	const long now = private_memory_in_use();

	if (now > atomic_load(&s->kilobytes[rank][warm]))
		atomic_store(&s->kilobytes[rank][warm], now);
}

static int drop_parts(struct rank *r)
{
	const tutti_comm_t comm = r->world;

	for (int i = 0; i < PARTS; i++) {
		tutti_comm_destroy(r->parts[i]);
		r->parts[i] = NULL;
	}
	SUCCEEDS(tutti_barrier(comm, NULL));
	return 0;
}

/* ---- a rank */

/* Every connection is made, and every buffer touched. */
static int warm_up(struct rank *r)
{
	const tutti_comm_t comm = r->world;
	const int size = tutti_comm_size(comm);

	for (int i = 0; i < SLOTS; i++) {
		memset(r->send[i], 0, BUFFER_BYTES);
		SUCCEEDS(tutti_all_to_all(comm, r->send[i], r->recv[i], BUFFER_BYTES / (size_t)size, TUTTI_INT8, NULL));
	}
	SUCCEEDS(tutti_group_begin(comm));
	for (int peer = 0; peer < size; peer++) {
		SUCCEEDS(tutti_send(comm, r->send[0], 1, TUTTI_INT8, peer, NULL));
		SUCCEEDS(tutti_recv(comm, (char *)r->recv[0] + peer, 1, TUTTI_INT8, peer, NULL));
	}
	SUCCEEDS(tutti_group_end(comm, NULL));
	return 0;
}

/* How the time is over is rank 0's to say, as all must make the same calls. */
static int time_is_over(tutti_comm_t comm, double until, int32_t *over)
{
	*over = seconds_now() >= until;
	SUCCEEDS(tutti_broadcast(comm, over, over, 1, TUTTI_INT32, 0, NULL));
	return 0;
}

static int call_until(struct rank *r, struct soak *s, double until, bool warm)
{
	int32_t over = 0;

	while (!over) {
		for (int i = 0; i < ROUND; i++)
			if (call_at_random(r))
				return 1;
		atomic_fetch_add(&s->calls, ROUND);
		note_memory(s, tutti_comm_rank(r->world), warm);
		if (time_is_over(r->world, until, &over))
			return 1;
	}
	return drop_parts(r);
}

static int check_memory(struct soak *s, tutti_comm_t comm)
{
	const int rank = tutti_comm_rank(comm);
	const long before = atomic_load(&s->kilobytes[rank][0]), after = atomic_load(&s->kilobytes[rank][1]);

	CLAIM(after <= before + before / 10 + TOLERANCE_KB, "memory has grown from %ld to %ld KiB", before, after);
	return 0;
}

static int soak(tutti_comm_t comm, void *argument)
{
	struct soak *s = argument;
	struct rank r = { .world = comm, .random = s->options.seed };
	const double start = seconds_now(), seconds = s->options.seconds;

	for (int i = 0; i < SLOTS; i++) {
		if (i % 2) {
			SUCCEEDS(tutti_mem_alloc(BUFFER_BYTES, &r.send[i]));
			SUCCEEDS(tutti_mem_alloc(BUFFER_BYTES, &r.recv[i]));
		} else {
			r.send[i] = malloc(BUFFER_BYTES);
			r.recv[i] = malloc(BUFFER_BYTES);
			CLAIM(r.send[i] && r.recv[i], "no memory");
		}
	}
	if (warm_up(&r) || call_until(&r, s, start + seconds / 3, false))
		return 1;
	const int descriptors = open_descriptors();
	const long shared = shared_memory_in_use();
	if (call_until(&r, s, start + seconds, true))
		return 1;
	const int left = open_descriptors();
	CLAIM(left <= descriptors, "%d descriptors are open, %d were", left, descriptors);
	CLAIM(shared_memory_in_use() <= shared + SHARED_KB, "shared memory has grown from %ld to %ld KiB", shared,
	      shared_memory_in_use());
	if (check_memory(s, comm))
		return 1;
	for (int i = 0; i < SLOTS; i++) {
		(i % 2 ? tutti_mem_free : free)(r.send[i]);
		(i % 2 ? tutti_mem_free : free)(r.recv[i]);
	}
	return 0;
}

/* ---- the parent */

static bool read_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "seconds", required_argument, NULL, 's' },   { "seed", required_argument, NULL, 'S' },
		{ "ranks", required_argument, NULL, 'r' },     { "transport", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 's': o->seconds = atof(optarg); break;
		case 'S': o->seed = strtoull(optarg, NULL, 0); break;
		case 'r': o->ranks = atoi(optarg); break;
		case 't': o->transport = optarg; break;
		default: return false;
		}
	}
	return optind == argc && o->seconds > 0 && o->ranks >= 1 && o->ranks <= RANKS_MAX;
}

static long most_kilobytes(struct soak *s, bool warm)
{
	long most = 0;

	for (int rank = 0; rank < s->options.ranks; rank++)
		if (atomic_load(&s->kilobytes[rank][warm]) > most)
			most = atomic_load(&s->kilobytes[rank][warm]);
	return most;
}

int main(int argc, char **argv)
{
	struct soak *s = shared_memory(sizeof(*s));

	s->options = (struct options){ .seconds = 600, .seed = (uint64_t)(seconds_now() * 1e6), .ranks = 8, .transport = "mixed" };
	if (!read_options(argc, argv, &s->options) ||
	    choose_transport(2, (char *[]){ argv[0], (char *)s->options.transport, NULL })) {
		fprintf(stderr, "usage: soak [--seconds N] [--seed N] [--ranks N] [--transport shm|tcp|mixed]\n");
		return 2;
	}
	const struct job job = { .ranks = s->options.ranks, .body = soak, .argument = s, .limit_s = s->options.seconds + 120 };
	const int failed = run_job(&job);

	printf("soak: %d ranks over %s, %g s, seed %llu: %llu steps of each rank, %s; memory at most %ld KiB warming up, "
	       "%ld KiB after\n",
	       s->options.ranks, s->options.transport, s->options.seconds, (unsigned long long)s->options.seed,
	       (unsigned long long)atomic_load(&s->calls) / (unsigned long long)s->options.ranks,
	       failed ? "FAILED" : "all results right", most_kilobytes(s, false), most_kilobytes(s, true));
	return failed != 0;
}
