/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection between two ranks is cut, of those that carry data or faults: all are told the
 * same, and of one of the two. All connections of a rank are: all are told of that one, itself
 * too.
 *
 *   test_cut tcp|mixed */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests.h"
#include "harness.h"

#define RANKS	    4
#define SOCKETS_MAX 32
#define FDS_MAX	    256
#define COUNT	    20000
#define SOON_S	    bound_s(15.0)

/* A connection as its owner sees it. */
struct end {
	int fd;
	uint16_t here, there; /* ports */
};

struct outcome {
	tutti_result_t result;
	int culprit;
	double took;
	char error_text[512];
};

struct play {
	int from, to; /* the pair; `to` -1: and all others */
	int which;    /* of its connections, by the descriptor in `from` */
	bool moving;  /* while data moves; otherwise between two calls */
	atomic_int known, cut, over;
	_Atomic double cut_at;
	int count[RANKS], found;
	struct end end[RANKS][SOCKETS_MAX];
	struct outcome outcome[RANKS];
};

static uint16_t port_of(const struct sockaddr_storage *at)
{
	return ntohs(at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
					       : ((const struct sockaddr_in *)at)->sin_port);
}

static void list_sockets(struct play *play, int rank)
{
	for (int fd = 3; fd < FDS_MAX && play->count[rank] < SOCKETS_MAX; fd++) {
		struct sockaddr_storage here, there;
		socklen_t here_length = sizeof(here), there_length = sizeof(there);

		if (getsockname(fd, (struct sockaddr *)&here, &here_length) < 0 ||
		    here.ss_family == AF_UNIX ||
		    getpeername(fd, (struct sockaddr *)&there, &there_length) < 0)
			continue;
		play->end[rank][play->count[rank]++] =
			(struct end){ fd, port_of(&here), port_of(&there) };
	}
}

static void cut_all(struct play *play)
{
	atomic_store(&play->cut_at, seconds_now());
	for (int i = 0; i < play->count[play->from]; i++)
		shutdown(play->end[play->from][i].fd, SHUT_RDWR);
}

/* Cuts the connection; false: there are not so many. */
static bool cut(struct play *play)
{
	int n = 0;

	if (play->to < 0) {
		cut_all(play);
		return true;
	}
	for (int i = 0; i < play->count[play->from]; i++) {
		const struct end *mine = &play->end[play->from][i];

		for (int k = 0; k < play->count[play->to]; k++) {
			const struct end *theirs = &play->end[play->to][k];

			if (mine->here != theirs->there || mine->there != theirs->here ||
			    n++ != play->which)
				continue;
			atomic_store(&play->cut_at, seconds_now());
			shutdown(mine->fd, SHUT_RDWR);
			return true;
		}
	}
	return false;
}

static void *cut_in_a_while(void *argument)
{
	struct play *play = argument;

	await_count(&play->cut, 200);
	play->found = cut(play);
	atomic_store(&play->over, !play->found);
	return NULL;
}

static tutti_result_t call_until(tutti_comm_t comm, struct play *play, int rank, float *in,
				 float *out)
{
	tutti_result_t result = TUTTI_OK;
	int32_t go_on = 1;

	while (!result && go_on) {
		result = tutti_all_reduce(comm, in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);
		if (!result)
			result =
				tutti_all_to_all(comm, in, out, COUNT / RANKS, TUTTI_FLOAT32, NULL);
		if (rank == play->from) {
			atomic_fetch_add(&play->cut, 1);
			go_on = !atomic_load(&play->over);
		}
		if (!result)
			result = tutti_broadcast(comm, &go_on, &go_on, 1, TUTTI_INT32, play->from,
						 NULL);
	}
	return result;
}

static int be(tutti_comm_t comm, void *argument)
{
	struct play *play = argument;
	const int rank = tutti_comm_rank(comm);
	struct outcome *o = &play->outcome[rank];
	float *in = calloc(COUNT, sizeof(*in)), *out = calloc(COUNT, sizeof(*out));
	pthread_t thread;

	/* all links are there */
	SUCCEEDS(tutti_all_to_all(comm, in, out, COUNT / RANKS, TUTTI_FLOAT32, NULL));
	SUCCEEDS(tutti_all_reduce(comm, in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	SUCCEEDS(tutti_barrier(comm, NULL));
	list_sockets(play, rank);
	meet_at(&play->known, RANKS);
	if (rank == play->from && play->moving) {
		CLAIM(pthread_create(&thread, NULL, cut_in_a_while, play) == 0, "no thread");
	} else if (rank == play->from) {
		play->found = cut(play);
		atomic_store(&play->over, !play->found);
	}
	o->result = call_until(comm, play, rank, in, out);
	o->took = seconds_now() - atomic_load(&play->cut_at);
	o->culprit = -1;
	snprintf(o->error_text, sizeof(o->error_text), "%s", tutti_last_error(comm));
	tutti_comm_error(comm, &o->culprit);
	if (rank == play->from && play->moving)
		pthread_join(thread, NULL);
	free(in);
	free(out);
	return 0;
}

static void judge(const struct play *play)
{
	for (int rank = 0; rank < RANKS; rank++) {
		const struct outcome *o = &play->outcome[rank];
		const bool alike =
			play->to < 0 || strcmp(o->error_text, play->outcome[0].error_text) ==
						0; /* who is cut off hears of nothing */

		if (o->result != TUTTI_ERR_PEER_LOST ||
		    (o->culprit != play->from && o->culprit != play->to) || o->took > SOON_S ||
		    !alike)
			fail_msg(
				"connection %d of ranks %d and %d is cut %s: rank %d is told of rank %d after %.2f s: %s (%s)",
				play->which, play->from, play->to,
				play->moving ? "while data moves" : "between two calls", rank,
				o->culprit, o->took, o->error_text, tutti_strerror(o->result));
	}
}

/* False: the pair has not so many connections. */
static bool plays(struct play *play, int from, int to, int which, bool moving)
{
	memset(play, 0, sizeof(*play));
	play->from = from;
	play->to = to;
	play->which = which;
	play->moving = moving;
	HOLDS(.ranks = RANKS, .body = be, .argument = play);
	if (!play->found)
		return false;
	judge(play);
	return true;
}

TEST(all_are_told_of_one_of_the_two)
{
	struct play *play = shared_memory(sizeof(*play));

	for (int from = 0; from < RANKS; from++)
		for (int to = from + 1; to < RANKS; to++)
			for (int moving = 0; moving < 2; moving++)
				for (int which = 0; plays(play, from, to, which, moving);)
					which++;
}

TEST(all_are_told_of_the_one_that_is_cut_off)
{
	struct play *play = shared_memory(sizeof(*play));

	for (int from = 0; from < RANKS; from++)
		for (int moving = 0; moving < 2; moving++)
			assert_true(plays(play, from, -1, 0, moving));
}
