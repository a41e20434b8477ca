/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims on sleeping: what ends a sleep, and that a sleep is one. Rank 0 sleeps, and says when it
 * is about to; only then rank 1 does what is to wake it. */
#include <poll.h>
#include <sys/resource.h>

#include "log.h"
#include "transport_suite.h"

#define QUIET_MS     100
#define QUIET_ROUNDS 5
#define MEBIBYTE     (1u << 20)

/* What the sleeper waits for, and whether it has said that it is armed. */
struct sleeper {
	struct suite_stream *stream; /* for bytes or room; NULL: for SUITE_EVENT to be `event` */
	uint64_t event;
	bool armed;
};

static bool awake(struct suite_rank *rank, void *context)
{
	struct sleeper *sleeper = context;
	bool moved;

	if (sleeper->stream)
		moved = suite_stream_pass(rank, sleeper->stream);
	else
		moved = suite_value(rank, SUITE_EVENT) >= sleeper->event;
	/* also if it moved: room can come by itself, as the kernel's buffers grow, and the peer
	 * waits for this word */
	if (!sleeper->armed) {
		sleeper->armed = true;
		suite_post(rank, SUITE_ARMED);
	}
	return moved;
}

/* Sleep, as often as it takes, until what `sleeper` waits for has come. */
static void sleep_until(struct suite_rank *rank, struct sleeper sleeper, bool by_poll,
			const char *what)
{
	const size_t before =
		sleeper.stream ? sleeper.stream->in_done + sleeper.stream->out_done : 0;

	for (;;) {
		suite_at(rank, "asleep: %s", what);
		suite_sleep(rank, awake, &sleeper, by_poll, what);
		if (sleeper.stream) {
			if (sleeper.stream->in_done + sleeper.stream->out_done > before)
				return;
		} else if (suite_value(rank, SUITE_EVENT) >= sleeper.event) {
			return;
		}
	}
}

SUITE_CLAIM(bytes_wake, 2, SUITE_POLLS)
{
	suite_connect(rank, 1 - rank->rank, TT_CHANNEL_P2P);
	for (unsigned round = 0; round < 20; round++) {
		struct suite_stream stream =
			suite_stream(rank, 1 - rank->rank, TT_CHANNEL_P2P, (size_t)rank->rank,
				     (size_t)(1 - rank->rank));

		if (rank->rank == 0)
			sleep_until(rank, (struct sleeper){ .stream = &stream }, round % 2,
				    "waiting for a byte");
		else
			suite_await(rank, SUITE_ARMED, round + 1);
		suite_pump(rank, &stream, 1, "the byte that wakes");
		suite_barrier(rank);
	}
}

/* A full link takes no more, and goes on when there is room. */
SUITE_CLAIM(room_wakes, 2, SUITE_POLLS)
{
	const int peer = 1 - rank->rank;

	for (int channel = 0; channel < TT_CHANNELS; channel++) {
		suite_connect_up(rank, (enum tt_channel)channel);
		struct suite_stream stream =
			suite_stream(rank, peer, (enum tt_channel)channel, 0, 0);

		if (rank->rank == 0) {
			suite_stream_fill(rank, &stream);
			suite_require(rank, stream.out_done > 0,
				      "a link that is ready takes no bytes");
			stream.out_total += MEBIBYTE;
			suite_set(rank, SUITE_FIRST_FREE + channel, stream.out_total);
			sleep_until(rank, (struct sleeper){ .stream = &stream }, channel,
				    "waiting for room");
		} else {
			suite_await(rank, SUITE_ARMED, (uint64_t)channel + 1);
			stream.in_total = (size_t)suite_value(rank, SUITE_FIRST_FREE + channel);
		}
		suite_pump(rank, &stream, 1, "after waiting for room");
		suite_barrier(rank);
	}
}

SUITE_CLAIM(wake_wakes_the_host, 3, SUITE_SHARES | SUITE_POLLS)
{
	for (unsigned round = 0; round < 20; round++) {
		if (rank->rank > 0) {
			sleep_until(rank, (struct sleeper){ .event = round + 1 }, round % 2,
				    "waiting for wake()");
		} else {
			suite_await(rank, SUITE_ARMED, (uint64_t)(rank->size - 1) * (round + 1));
			suite_post(rank, SUITE_EVENT);
			rank->ops->memory->wake(rank->endpoint);
		}
		suite_barrier(rank);
	}
}

/* A thread beside that of the rank: it makes no progress, and ends without a word if the claim has
 * failed. */
struct beside {
	struct suite_rank rank; /* without an endpoint */
	struct tt_endpoint *endpoint;
	pthread_mutex_t *lock;
	uint64_t event; /* sleeps until SUITE_EVENT is that … */
	bool by_poll;	/* … by poll() of fd() */
	pthread_t thread;
};

static void start_beside(struct suite_rank *rank, struct beside *beside, void *(*body)(void *))
{
	beside->rank = *rank;
	beside->rank.endpoint = NULL;
	beside->endpoint = rank->endpoint;
	suite_require(rank, pthread_create(&beside->thread, NULL, body, beside) == 0,
		      "start a thread");
}

static void *sleep_beside(void *argument)
{
	struct beside *beside = argument;
	const struct tt_transport *ops = beside->rank.ops;
	struct pollfd bell = { .events = POLLIN };
	bool armed = false;

	while (suite_value(&beside->rank, SUITE_EVENT) < beside->event) {
		pthread_mutex_lock(beside->lock);
		ops->doorbell->arm(beside->endpoint);
		bell.fd = beside->by_poll ? ops->doorbell->fd(beside->endpoint) : -1;
		pthread_mutex_unlock(beside->lock);
		if (!armed)
			suite_post(&beside->rank, SUITE_ARMED);
		armed = true;
		const bool waits = suite_value(&beside->rank, SUITE_EVENT) < beside->event;

		if (waits && bell.fd >= 0)
			poll(&bell, 1, SUITE_SLEEP_MS);
		else if (waits)
			ops->doorbell->sleep(beside->endpoint, SUITE_SLEEP_MS);
		pthread_mutex_lock(beside->lock);
		ops->doorbell->disarm(beside->endpoint);
		pthread_mutex_unlock(beside->lock);
	}
	return NULL;
}

/* Rank 0's thread interrupts three others of it. */
SUITE_CLAIM(interrupt_wakes_every_thread_that_sleeps, 2, SUITE_POLLS)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct tt_endpoint *const endpoint = rank->endpoint;
	enum { THREADS = 3 };
	struct beside beside[THREADS];

	for (unsigned round = 1; round <= 20 && rank->rank == 0; round++) {
		for (int i = 0; i < THREADS; i++) {
			beside[i] = (struct beside){ .lock = &lock,
						     .event = round,
						     .by_poll = (round + (unsigned)i) % 2 };
			start_beside(rank, &beside[i], sleep_beside);
		}
		rank->endpoint = NULL; /* the threads have it: no progress while waiting */
		suite_await(rank, SUITE_ARMED, round * THREADS);
		suite_post(rank, SUITE_EVENT);
		const uint64_t began = tt_now();

		rank->ops->doorbell->interrupt(endpoint);
		for (int i = 0; i < THREADS; i++)
			pthread_join(beside[i].thread, NULL);
		rank->endpoint = endpoint;
		suite_require(rank, (int)((tt_now() - began) / 1000000) < SUITE_SLEEP_MS / 2,
			      "not all of %d threads were woken", (int)THREADS);
	}
	suite_barrier(rank);
}

static void *arm_beside(void *argument)
{
	struct beside *beside = argument;

	beside->rank.ops->doorbell->arm(beside->endpoint);
	return NULL;
}

/* Rank 0's thread is armed, is woken, and goes to sleep only when another thread of it has armed.
 */
SUITE_CLAIM(arming_does_not_hide_a_wake_up, 2, SUITE_SHARES)
{
	struct beside beside;
	uint64_t began;

	if (rank->rank == 0) {
		rank->ops->doorbell->arm(rank->endpoint);
		suite_post(rank, SUITE_ARMED);
		suite_await(rank, SUITE_EVENT, 1);
		start_beside(rank, &beside, arm_beside);
		pthread_join(beside.thread, NULL);
		began = tt_now();
		rank->ops->doorbell->sleep(rank->endpoint, SUITE_SLEEP_MS);
		suite_require(rank, (int)((tt_now() - began) / 1000000) < SUITE_SLEEP_MS / 2,
			      "another thread's arm() hid the wake-up");
		rank->ops->doorbell->disarm(rank->endpoint);
		rank->ops->doorbell->disarm(rank->endpoint);
	} else {
		suite_await(rank, SUITE_ARMED, 1);
		rank->ops->memory->wake(rank->endpoint);
		suite_post(rank, SUITE_EVENT);
	}
	suite_barrier(rank);
}

/* How often this thread has gone to sleep. */
static long sleeps(void)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return used.ru_nvcsw;
}

/* With nothing to do, a sleep lasts about as long as it may. */
static void require_quiet(struct suite_rank *rank, const char *what)
{
	const uint64_t until = tt_now() + QUIET_ROUNDS * QUIET_MS * 1000000ull;
	const long slept = sleeps();
	unsigned rounds = 0;

	while (tt_now() < until) {
		rank->ops->doorbell->arm(rank->endpoint);
		rank->ops->progress(rank->endpoint, true);
		rank->ops->doorbell->sleep(rank->endpoint, QUIET_MS);
		rank->ops->doorbell->disarm(rank->endpoint);
		rounds++;
	}
	suite_require(rank, rounds <= 10 * QUIET_ROUNDS, "%s: woke %u times in %u ms", what, rounds,
		      QUIET_ROUNDS * QUIET_MS);
	/* one that spins does not */
	suite_require(rank, 2 * (sleeps() - slept) >= (long)rounds,
		      "%s: slept %ld times in %u rounds", what, sleeps() - slept, rounds);
}

SUITE_CLAIM(sleeping_rank_does_not_spin, 2, SUITE_NOTHING)
{
	suite_barrier(rank);
	require_quiet(rank, "without links");
	suite_connect_all(rank);
	suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 5, 5, "before the quiet");
	suite_barrier(rank);
	require_quiet(rank, "with idle links");
	suite_barrier(rank);
}

/* As when a peer has sent early: nobody wants the bytes yet, and others are waited for. */
SUITE_CLAIM(unread_bytes_do_not_keep_it_awake, 2, SUITE_NOTHING)
{
	suite_connect_all(rank);
	struct suite_stream early = suite_stream(rank, 1 - rank->rank, TT_CHANNEL_P2P, 1000, 0);

	suite_pump(rank, &early, 1, "writing early");
	suite_exchange(rank, 1 - rank->rank, TT_CHANNEL_COLLECTIVE, 5, 5, "on the other channel");
	suite_barrier(rank);
	require_quiet(rank, "with bytes that nobody reads");
	suite_barrier(rank);
	early.in_total = 1000;
	suite_pump(rank, &early, 1, "reading late");
	suite_barrier(rank);
}
