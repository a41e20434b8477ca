/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the fabrics of the process, by communicator. The list of them is the only state of the
 * process here; a fabric is in it while it has users. Lock order: the list, then a fabric. */
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "fabric.h"
#include "log.h"
#include "loop.h"
#include "news.h"
#include "thread.h"

static struct {
	pthread_mutex_t lock;
	struct loop_fabric *first;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Locking these cannot fail: they are initialised and not taken twice by one thread. */
void tt_loop_fabric_lock(struct loop_fabric *fabric)
{
	pthread_mutex_lock(&fabric->lock);
}

void tt_loop_fabric_unlock(struct loop_fabric *fabric)
{
	pthread_mutex_unlock(&fabric->lock);
}

static void free_fabric(struct loop_fabric *fabric)
{
	if (fabric->pipes)
		for (int i = 0; i < fabric->size * fabric->size * TT_CHANNELS; i++)
			tt_loop_pipe_destroy(fabric->pipes[i]);
	while (fabric->segments) {
		struct loop_segment *segment = fabric->segments;

		fabric->segments = segment->next;
		munmap(segment->memory, segment->bytes + 1);
		free(segment);
	}
	pthread_cond_destroy(&fabric->changed);
	pthread_mutex_destroy(&fabric->lock);
	free(fabric->pipes);
	free(fabric->ranks);
	free(fabric);
}

static void init_locks(struct loop_fabric *fabric)
{
	tt_thread_condition(&fabric->changed);
	pthread_mutex_init(&fabric->lock, NULL);
}

static tutti_result_t make_fabric(const struct tt_endpoint_config *config, struct loop_fabric **out)
{
	const size_t size = (size_t)config->size;
	struct loop_fabric *fabric = calloc(1, sizeof(*fabric));
	tutti_result_t result;

	if (!fabric)
		return tt_fail_errno(LOOP, "make the fabric of %zu ranks", size);
	init_locks(fabric);
	fabric->comm_id = config->comm_id;
	fabric->size = config->size;
	result = tt_loop_faults_read(&fabric->faults);
	if (result != TUTTI_OK)
		goto free_fabric;
	fabric->ranks = calloc(size, sizeof(*fabric->ranks));
	fabric->pipes = calloc(size * size * TT_CHANNELS, sizeof(struct loop_pipe *));
	if (!fabric->ranks || !fabric->pipes) {
		result = tt_fail_errno(LOOP, "make the fabric of %zu ranks", size);
		goto free_fabric;
	}
	for (size_t rank = 0; rank < size; rank++)
		fabric->ranks[rank].bell.timer.fd = fabric->ranks[rank].alarm.fd = -1;
	*out = fabric;
	return TUTTI_OK;
free_fabric:
	free_fabric(fabric);
	return result;
}

/* Under the lock of the registry. */
static tutti_result_t find_fabric(const struct tt_endpoint_config *config, struct loop_fabric **out)
{
	tutti_result_t result;

	for (struct loop_fabric *fabric = registry.first; fabric; fabric = fabric->next) {
		if (fabric->comm_id != config->comm_id)
			continue;
		if (fabric->size != config->size)
			return tt_fail(TUTTI_ERR_INVALID, LOOP,
				       "rank %d says that the communicator has %d ranks, others "
				       "said %d: all must say the same",
				       config->rank, config->size, fabric->size);
		*out = fabric;
		return TUTTI_OK;
	}
	result = make_fabric(config, out);
	if (result == TUTTI_OK) {
		(*out)->next = registry.first;
		registry.first = *out;
	}
	return result;
}

/* Under the lock of the registry. */
static void drop_if_unused(struct loop_fabric *fabric)
{
	struct loop_fabric **link = &registry.first;

	if (fabric->users > 0)
		return;
	while (*link != fabric)
		link = &(*link)->next;
	*link = fabric->next;
	free_fabric(fabric);
}

static tutti_result_t take_place(struct loop_fabric *fabric, int rank, struct loop_entry *entry)
{
	struct loop_rank *place = &fabric->ranks[rank];
	const bool twice =
		place->state == LOOP_HERE && pthread_equal(place->opener, pthread_self());

	if (place->joined || twice)
		return tt_fail(
			TUTTI_ERR_INVALID, LOOP,
			"rank %d has entered this communicator before: each rank enters once",
			rank);
	const int bell = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (bell < 0)
		return tt_fail_errno(LOOP, "make the timer that wakes rank %d", rank);
	const int alarm = fabric->faults.news_ns
				  ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
				  : -1;
	if (fabric->faults.news_ns && alarm < 0) {
		close(bell);
		return tt_fail_errno(LOOP, "make the timer that informs rank %d of news", rank);
	}
	place->bell = (struct loop_bell){ .timer.fd = bell };
	place->alarm = (struct loop_timer){ .fd = alarm };
	place->state = LOOP_HERE;
	place->opener = pthread_self();
	*entry = (struct loop_entry){ rank, ++place->entries, bell, alarm };
	return TUTTI_OK;
}

tutti_result_t tt_loop_fabric_enter(const struct tt_endpoint_config *config,
				    struct loop_fabric **out, struct loop_entry *entry)
{
	struct loop_fabric *fabric = NULL;
	tutti_result_t result;

	if (config->rank < 0 || config->rank >= config->size)
		return tt_fail(TUTTI_ERR_INVALID, LOOP,
			       "rank %d of %d: expected a rank from 0 to %d", config->rank,
			       config->size, config->size - 1);
	pthread_mutex_lock(&registry.lock);
	result = find_fabric(config, &fabric);
	if (result == TUTTI_OK) {
		tt_loop_fabric_lock(fabric);
		result = take_place(fabric, config->rank, entry);
		tt_loop_fabric_unlock(fabric);
		if (result == TUTTI_OK) {
			fabric->users++;
			*out = fabric;
		} else {
			drop_if_unused(fabric);
		}
	}
	pthread_mutex_unlock(&registry.lock);
	return result;
}

/* Others that sleep poll again: they may wait for a rank that has now left. The dead say nothing.
 */
static void vacate(struct loop_fabric *fabric, struct loop_rank *place)
{
	place->bell = (struct loop_bell){ .timer.fd = -1 };
	place->alarm = (struct loop_timer){ .fd = -1 };
	if (place->state == LOOP_HERE) {
		place->state = LOOP_LEFT;
		place->gone_at = tt_now();
	}
	pthread_cond_broadcast(&fabric->changed);
	tt_loop_fabric_ring_all(fabric);
}

bool tt_loop_fabric_has(const struct loop_fabric *fabric, const struct loop_entry *entry)
{
	return fabric->ranks[entry->rank].entries == entry->number;
}

void tt_loop_fabric_leave(struct loop_fabric *fabric, const struct loop_entry *entry)
{
	pthread_mutex_lock(&registry.lock);
	tt_loop_fabric_lock(fabric);
	close(entry->bell_fd);
	if (entry->alarm_fd >= 0)
		close(entry->alarm_fd);
	if (tt_loop_fabric_has(fabric, entry))
		vacate(fabric, &fabric->ranks[entry->rank]);
	tt_loop_fabric_unlock(fabric);
	fabric->users--;
	drop_if_unused(fabric);
	pthread_mutex_unlock(&registry.lock);
}

struct loop_pipe *tt_loop_fabric_pipe(struct loop_fabric *fabric, int from, int to,
				      enum tt_channel channel)
{
	struct loop_pipe **pipe =
		&fabric->pipes[(from * fabric->size + to) * TT_CHANNELS + (int)channel];

	if (!*pipe)
		*pipe = tt_loop_pipe_create((size_t)fabric->faults.capacity);
	return *pipe;
}

struct loop_segment *tt_loop_fabric_segment(struct loop_fabric *fabric, int host, unsigned number,
					    size_t bytes)
{
	struct loop_segment *segment;

	for (segment = fabric->segments; segment; segment = segment->next)
		if (segment->host == host && segment->number == number)
			return segment;
	segment = malloc(sizeof(*segment));
	if (!segment)
		return NULL;
	*segment = (struct loop_segment){ .host = host, .number = number, .bytes = bytes };
	/* pages exist once they are touched, as in a transport's arena */
	segment->memory = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (segment->memory == MAP_FAILED) {
		free(segment);
		return NULL;
	}
	segment->next = fabric->segments;
	fabric->segments = segment;
	return segment;
}

bool tt_loop_fabric_wait(struct loop_fabric *fabric, uint64_t deadline)
{
	const struct timespec until = tt_timespec(deadline);

	return pthread_cond_timedwait(&fabric->changed, &fabric->lock, &until) != ETIMEDOUT;
}

void tt_loop_fabric_die(struct loop_fabric *fabric, int rank)
{
	if (fabric->ranks[rank].state == LOOP_DEAD)
		return;
	fabric->ranks[rank].state = LOOP_DEAD;
	fabric->ranks[rank].gone_at = tt_now();
	tt_log(DEBUG, LOOP, "rank %d dies, as it was asked to", rank);
	pthread_cond_broadcast(&fabric->changed);
	tt_loop_fabric_ring_all(fabric);
	tt_loop_news_spread(fabric, fabric->ranks[rank].gone_at);
}

void tt_loop_kill(pthread_t thread)
{
	pthread_mutex_lock(&registry.lock);
	for (struct loop_fabric *fabric = registry.first; fabric; fabric = fabric->next) {
		tt_loop_fabric_lock(fabric);
		for (int rank = 0; rank < fabric->size; rank++)
			if (fabric->ranks[rank].state == LOOP_HERE &&
			    pthread_equal(fabric->ranks[rank].opener, thread))
				tt_loop_fabric_die(fabric, rank);
		tt_loop_fabric_unlock(fabric);
	}
	pthread_mutex_unlock(&registry.lock);
}

/* Set the timer to `at`, 0: not at all; what it said before is forgotten. Fails only for arguments
 * that make no sense. A time of one nanosecond has always passed. */
static void set_timer(struct loop_timer *timer, uint64_t at)
{
	const struct itimerspec when = { .it_value = tt_timespec(at) };

	timer->at = at;
	timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void tt_loop_fabric_ring(struct loop_fabric *fabric, int rank, uint64_t time)
{
	struct loop_bell *bell = &fabric->ranks[rank].bell;
	const uint64_t at = time > 0 ? time : 1;

	/* one that rings already calls those, too, who came since */
	for (int i = 0; bell->rang && time == 0 && i < bell->armed; i++)
		bell->sleepers[i].called = true;
	if (bell->armed > 0 && !bell->rang && (bell->timer.at == 0 || at < bell->timer.at))
		set_timer(&bell->timer, at);
}

void tt_loop_fabric_ring_all(struct loop_fabric *fabric)
{
	for (int rank = 0; rank < fabric->size; rank++)
		tt_loop_fabric_ring(fabric, rank, 0);
}

/* When bytes or news come that have not come yet; 0: none. */
static uint64_t next_due(struct loop_fabric *fabric, int rank, uint64_t now)
{
	uint64_t next = tt_loop_news_next(fabric, rank, now);

	for (int i = 0; i < fabric->size * TT_CHANNELS; i++) {
		struct loop_pipe *pipe =
			fabric->pipes[(i / TT_CHANNELS * fabric->size + rank) * TT_CHANNELS +
				      i % TT_CHANNELS];
		const uint64_t due = pipe ? tt_loop_pipe_next_due(pipe, now) : 0;

		if (due > 0 && (next == 0 || due < next))
			next = due;
	}
	return next;
}

/* Before the list of sleepers changes: a bell that rang called all of them. */
static void note_ring(struct loop_bell *bell, uint64_t now)
{
	if (bell->rang || bell->timer.at == 0 || bell->timer.at > now)
		return;
	bell->rang = true;
	for (int i = 0; i < bell->armed; i++)
		bell->sleepers[i].called = true;
}

/* A bell rings until all whom it called are up, so that nobody's call is lost; and no longer, so
 * that threads which come and go do not keep each other awake. */
static void hush(struct loop_fabric *fabric, int rank, uint64_t now)
{
	struct loop_bell *bell = &fabric->ranks[rank].bell;

	for (int i = 0; i < bell->armed; i++)
		if (bell->sleepers[i].called)
			return;
	if (bell->rang || (bell->armed == 0 && bell->timer.at != 0)) {
		bell->rang = false;
		set_timer(&bell->timer, bell->armed > 0 ? next_due(fabric, rank, now) : 0);
	}
}

void tt_loop_fabric_arm(struct loop_fabric *fabric, int rank)
{
	struct loop_bell *bell = &fabric->ranks[rank].bell;
	const uint64_t now = tt_now(), due = next_due(fabric, rank, now);

	note_ring(bell, now);
	hush(fabric, rank, now); /* what it rang for before is found by the pass that follows */
	assert(bell->armed < LOOP_SLEEPERS_MAX);
	bell->sleepers[bell->armed++] = (struct loop_sleeper){ pthread_self(), false };
	if (due > 0)
		tt_loop_fabric_ring(fabric, rank, due);
}

void tt_loop_fabric_disarm(struct loop_fabric *fabric, int rank)
{
	struct loop_bell *bell = &fabric->ranks[rank].bell;
	const uint64_t now = tt_now();
	int i = 0;

	note_ring(bell, now);
	while (i < bell->armed - 1 && !pthread_equal(bell->sleepers[i].thread, pthread_self()))
		i++; /* the last, if this thread disarms for another */
	bell->sleepers[i] = bell->sleepers[--bell->armed];
	hush(fabric, rank, now);
}

void tt_loop_fabric_set_alarm(struct loop_fabric *fabric, int rank, uint64_t time)
{
	struct loop_timer *alarm = &fabric->ranks[rank].alarm;

	if (alarm->fd >= 0 && alarm->at != time)
		set_timer(alarm, time);
}
