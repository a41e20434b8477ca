/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the event loop of tutti-run.
 *
 * Ends of ranks are handled in the order in which the kernel queued them, which is that of the
 * deaths: it decides who failed first. Where the kernel has no descriptors of processes, the signal
 * names the first. While an output is congested the streams are not read, so
 * that ranks wait for a slow reader as they would without tutti-run; signals and time limits still
 * work then. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop.h"
#include "losses.h"

enum { EVENTS = 64 };

enum source { SOURCE_SIGNALS, SOURCE_STREAMS, SOURCE_INPUT, SOURCE_SINK, SOURCE_RANK };

static bool control(int epoll, int what, int fd, uint32_t events, enum source source, int index)
{
	struct epoll_event event = { .events = events };

	event.data.u64 = (uint64_t)source << 32 | (uint32_t)index;
	return epoll_ctl(epoll, what, fd, &event) == 0;
}

static bool watch(int epoll, int fd, uint32_t events, enum source source, int index)
{
	return control(epoll, EPOLL_CTL_ADD, fd, events, source, index);
}

bool loop_init(struct loop *loop, struct job *job, struct spawn *spawn, struct relay *relay,
	       int signals)
{
	*loop = (struct loop){ .job = job, .spawn = spawn, .relay = relay, .signals = signals };
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->streams = epoll_create1(EPOLL_CLOEXEC);
	loop->streams_wanted = true;
	if (loop->epoll < 0 || loop->streams < 0)
		return false;
	if (relay->in >= 0 && !(watch(loop->epoll, relay->in, EPOLLIN, SOURCE_INPUT, 0) &&
				watch(loop->epoll, relay->out, 0, SOURCE_INPUT, 1)))
		return false;
	for (int i = 0; i < SPAWN_STREAMS; i++)
		/* EPERM: a file, which is always ready */
		if (!watch(loop->epoll, job->sinks[i].fd, 0, SOURCE_SINK, i) && errno != EPERM)
			return false;
	return watch(loop->epoll, signals, EPOLLIN, SOURCE_SIGNALS, 0) &&
	       watch(loop->epoll, loop->streams, EPOLLIN, SOURCE_STREAMS, 0);
}

static bool watch_rank(struct loop *loop, int rank)
{
	const struct process *process = &loop->job->ranks[rank].process;

	for (int i = 0; i < SPAWN_STREAMS; i++)
		if (!watch(loop->streams, process->streams[i], EPOLLIN, (enum source)i, rank))
			return false;
	return process->pidfd < 0 || watch(loop->epoll, process->pidfd, EPOLLIN, SOURCE_RANK, rank);
}

int loop_start_rank(struct loop *loop, int rank, bool replaces)
{
	const struct seat seat = { .rank = rank,
				   .joins = replaces,
				   .restarts = loop->job->losses.restarts - replaces };
	struct process process;
	const int status = spawn_rank(loop->spawn, &seat, &process);

	if (status)
		return status;
	job_add_rank(loop->job, &seat, &process);
	if (watch_rank(loop, rank))
		return 0;
	fprintf(stderr, "tutti-run: cannot watch a rank: %s\n", strerror(errno));
	job_drop_rank(loop->job, rank);
	return RUN_FAILED;
}

static void replace_lost(struct loop *loop)
{
	int rank;

	while ((rank = losses_next(loop->job)) >= 0) {
		const int status = loop_start_rank(loop, rank, true);

		if (status == 0)
			losses_replaced(loop->job, rank);
		else
			losses_not_replaced(loop->job, rank, status);
	}
}

static void read_streams(struct loop *loop)
{
	struct epoll_event events[EVENTS];
	const int count = epoll_wait(loop->streams, events, EVENTS, 0);

	/* a stream that ends is closed, which takes it out of the set */
	for (int i = 0; i < count; i++)
		job_read_stream(loop->job, (int)(uint32_t)events[i].data.u64,
				(int)(events[i].data.u64 >> 32));
}

static void want(int epoll, int fd, uint32_t events, enum source source, int index)
{
	control(epoll, EPOLL_CTL_MOD, fd, events, source, index);
}

static void pass_input(struct loop *loop, bool from_pipe, uint32_t events)
{
	struct relay *relay = loop->relay;
	const bool reader_gone = from_pipe && (events & (EPOLLERR | EPOLLHUP));

	if (relay->in < 0)
		return;
	if (reader_gone || !relay_step(relay)) {
		epoll_ctl(loop->epoll, EPOLL_CTL_DEL, relay->in, NULL);
		relay_finish(relay);
		return;
	}
	/* either there is something to write or room to read */
	want(loop->epoll, relay->in, relay->length > 0 ? 0 : EPOLLIN, SOURCE_INPUT, 0);
	want(loop->epoll, relay->out, relay->length > 0 ? EPOLLOUT : 0, SOURCE_INPUT, 1);
}

/* That a sink has room needs no word: flush() follows after every round. */
static void look_at_sink(struct loop *loop, int index, uint32_t events)
{
	struct sink *sink = &loop->job->sinks[index];

	if (!(events & (EPOLLERR | EPOLLHUP)))
		return;
	sink_break(sink);
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, sink->fd, NULL);
}

/* false: the user wants no more output either */
static bool handle(struct loop *loop, const struct epoll_event *event)
{
	const int index = (int)(uint32_t)event->data.u64;

	switch ((enum source)(event->data.u64 >> 32)) {
	case SOURCE_SIGNALS: return signals_read(loop->signals, loop->job);
	case SOURCE_STREAMS: read_streams(loop); break;
	case SOURCE_INPUT: pass_input(loop, index == 1, event->events); break;
	case SOURCE_RANK: job_reap_rank(loop->job, index); break;
	case SOURCE_SINK: look_at_sink(loop, index, event->events); break;
	}
	return true;
}

/* Write what can be written, and wait for what cannot; true when nothing is left. */
static bool flush(struct loop *loop)
{
	bool congested = false, empty = true;

	for (int i = 0; i < SPAWN_STREAMS; i++) {
		struct sink *sink = &loop->job->sinks[i];
		const bool all = sink_flush(sink);

		want(loop->epoll, sink->fd, all ? 0 : EPOLLOUT, SOURCE_SINK, i);
		congested |= sink_congested(sink);
		empty &= all;
	}
	if (loop->streams_wanted == congested) {
		loop->streams_wanted = !congested;
		want(loop->epoll, loop->streams, congested ? 0 : EPOLLIN, SOURCE_STREAMS, 0);
	}
	return empty;
}

static void close_streams(struct job *job)
{
	for (int i = 0; i < job->started; i++) {
		job_drain_rank(job, i);
		for (int k = 0; k < SPAWN_STREAMS; k++)
			lines_end(&job->ranks[i].lines[k]);
	}
}

void loop_run(struct loop *loop)
{
	struct epoll_event events[EVENTS];
	bool go_on = true;

	while (go_on) {
		const int count = epoll_wait(loop->epoll, events, EVENTS, job_wait_ms(loop->job));

		if (count < 0)
			continue; /* this process was stopped: SIGCONT comes before what its time says */
		for (int i = 0; go_on && i < count; i++)
			go_on = handle(loop, &events[i]);
		losses_settle(loop->job);
		replace_lost(loop);
		left_out_settle(loop->job);
		job_tick(loop->job);
		if (job_gone(loop->job))
			close_streams(loop->job);
		if (flush(loop) && loop->job->gone)
			return;
	}
}

void loop_finish(struct loop *loop)
{
	relay_finish(loop->relay);
	if (loop->epoll >= 0)
		close(loop->epoll);
	if (loop->streams >= 0)
		close(loop->streams);
}
