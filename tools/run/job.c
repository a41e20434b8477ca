/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the ranks from their start to their end, and the order in which a job is ended.
 *
 * This process is the subreaper of all descendants: whatever a rank started becomes its child when
 * the rank is gone, and is found among the children then. A rank is waited for only in
 * job_reap_rank(), so that `running` says whether its number may still be signalled. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"
#include "losses.h"
#include "proc.h"

#define FAILURE_GRACE 3.0
#define GATHER	      0.1 /* seconds in which failures count as one event */
/* seconds for what ranks have left to end by itself, as Python's resource tracker does */
#define LEFTOVER_GRACE 2.0

enum { READ_BYTES = 1 << 16, DRAIN_BYTES = 1 << 20 };

double job_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool same_file(int a, int b)
{
	struct stat of_a, of_b;

	return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
	       of_a.st_ino == of_b.st_ino;
}

bool job_init(struct job *job, const struct options *options)
{
	*job = (struct job){ .options = options, .start = job_now(), .failure = { .rank = -1 } };
	job->losses.restarts = options->restarts;
	job->losses.last.rank = -1;
	job->losses.open = calloc((size_t)options->ranks, sizeof(*job->losses.open));
	job->ranks = calloc((size_t)options->ranks, sizeof(*job->ranks));
	if (!job->ranks || !job->losses.open)
		return false;
	for (int i = 0; i < SPAWN_STREAMS; i++) {
		sink_init(&job->sinks[i], i + 1);
		job->sink_of[i] = &job->sinks[i];
	}
	/* two queues into one file could cut each other's lines */
	if (same_file(1, 2))
		job->sink_of[1] = &job->sinks[0];
	return true;
}

void job_finish(struct job *job)
{
	for (int i = 0; i < job->started; i++)
		for (int k = 0; k < SPAWN_STREAMS; k++)
			lines_finish(&job->ranks[i].lines[k]);
	for (int k = 0; k < SPAWN_STREAMS; k++)
		sink_finish(&job->sinks[k]);
	exits_finish(&job->exits);
	free(job->losses.open);
	free(job->ranks);
}

void job_say(struct job *job, const char *format, ...)
{
	char text[LINES_LAST_BYTES + 256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sink_line(job->sink_of[1], "tutti-run: ", text, strlen(text));
}

static double failure_grace(const struct job *job)
{
	return job->options->grace < 0 ? FAILURE_GRACE : job->options->grace;
}

static void close_stream(struct job *job, int rank, int stream)
{
	struct rank *r = &job->ranks[rank];

	lines_end(&r->lines[stream]);
	close(r->process.streams[stream]);
	r->open[stream] = false;
}

/* One read: its size, 0 when there is nothing now, -1 when the stream is closed. */
static ssize_t read_once(struct job *job, int rank, int stream)
{
	static char bytes[READ_BYTES];
	struct rank *r = &job->ranks[rank];
	ssize_t got;

	if (!r->open[stream])
		return -1;
	got = read(r->process.streams[stream], bytes, sizeof(bytes));
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	/* a pseudo terminal ends with EIO; a writer whose reader is gone shall notice, too */
	if (got <= 0 || job->sink_of[stream]->broken) {
		close_stream(job, rank, stream);
		return -1;
	}
	lines_feed(&r->lines[stream], bytes, (size_t)got);
	return got;
}

bool job_read_stream(struct job *job, int rank, int stream)
{
	return read_once(job, rank, stream) >= 0;
}

void job_drain_rank(struct job *job, int rank)
{
	for (int stream = 0; stream < SPAWN_STREAMS; stream++) {
		ssize_t got, total = 0;

		/* bounded: something it started may write on for ever */
		while (total < DRAIN_BYTES && (got = read_once(job, rank, stream)) > 0)
			total += got;
	}
}

static void note_failure(struct job *job, const struct rank_exit *failure)
{
	struct losses *losses = &job->losses;

	if (losses->open_count == 0)
		losses->settle_at = job_now() + (options_outlive(job->options) ? GATHER : 0);
	losses->open[losses->open_count++] = *failure;
}

void job_add_rank(struct job *job, const struct seat *seat, const struct process *process)
{
	const int rank = seat->rank;
	struct rank *r = &job->ranks[rank];

	/* a process that a failed rank has left may hold its streams */
	for (int i = 0; i < SPAWN_STREAMS; i++) {
		if (r->open[i])
			close_stream(job, rank, i);
		lines_finish(&r->lines[i]);
	}
	*r = (struct rank){ .process = *process, .running = true };
	r->ticket = seat->joins ? seat->restarts : -1;
	for (int i = 0; i < SPAWN_STREAMS; i++) {
		r->open[i] = true;
		lines_init(&r->lines[i], job->sink_of[i], rank, job->options->label);
	}
	if (job->started <= rank)
		job->started = rank + 1;
	job->running++;
	job->leftover_at = 0;
	job->family_changed = true;
}

static void reaped(struct job *job, int rank)
{
	struct rank *r = &job->ranks[rank];

	r->running = false;
	job->running--;
	job->family_changed = true;
	left_out_look(job);
	if (r->process.pidfd >= 0)
		close(r->process.pidfd);
	job_drain_rank(job, rank);
}

void job_reap_rank(struct job *job, int rank)
{
	const pid_t pid = job->ranks[rank].process.pid;
	siginfo_t info = { 0 };
	bool failed;

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
		return;
	failed = info.si_code != CLD_EXITED || info.si_status != 0;
	/* what it has started must not go on as the rank that the others lost (a shell that is
	 * killed leaves its program); the number is its own until it is waited for */
	if (failed && job->ending == ENDING_NOT && options_outlive(job->options))
		kill(-pid, SIGKILL);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
	const struct rank_exit end = {
		.rank = rank,
		.pid = pid,
		.by_signal = info.si_code != CLD_EXITED,
		.core = info.si_code == CLD_DUMPED,
		.asked = job->ending != ENDING_NOT,
		.code = info.si_status,
		.after = job_now() - job->start,
	};
	exits_note(&job->exits, &end);
	reaped(job, rank);
	/* those that tutti-run ends by itself do not fail */
	if (failed && (job->ending == ENDING_NOT || job->forwarded))
		note_failure(job, &end);
	/* a replacement that nobody took in has done no rank's work */
	job->ended_well += !failed && !losses_waits(job, &job->ranks[rank]);
}

void job_drop_rank(struct job *job, int rank)
{
	const pid_t pid = job->ranks[rank].process.pid;

	kill(-pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	reaped(job, rank);
}

/* The rank that is not waited for yet; -1: none. */
static int rank_of(const struct job *job, pid_t pid)
{
	for (int i = 0; i < job->started; i++)
		if (job->ranks[i].running && job->ranks[i].process.pid == pid)
			return i;
	return -1;
}

/* Those that the search for orphans passes over: the reaper, and ranks not waited for. */
static bool is_no_orphan(const void *context, pid_t pid)
{
	const struct job *job = context;

	return pid == job->reaper || rank_of(job, pid) >= 0;
}

/* False: the child is waited for elsewhere, as the reaper is, and a rank of whose end an event of
 * its own tells, in the order in which ranks ended. */
static bool reap_child(struct job *job, pid_t pid)
{
	const int rank = rank_of(job, pid);
	siginfo_t info;

	if (pid == job->reaper || (rank >= 0 && job->ranks[rank].process.pidfd >= 0))
		return false;
	if (rank >= 0)
		job_reap_rank(job, rank);
	else
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
	return true;
}

void job_reap_children(struct job *job, pid_t first)
{
	siginfo_t info;

	job->family_changed = true;
	if (first > 0)
		reap_child(job, first);
	do {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return;
	} while (reap_child(job, info.si_pid));
}

void job_signal_groups(struct job *job, int sig)
{
	for (int i = 0; i < job->started; i++)
		if (job->ranks[i].running)
			kill(-job->ranks[i].process.pid, sig);
}

void job_signal_ranks(struct job *job, int sig)
{
	for (int i = 0; i < job->started; i++)
		if (job->ranks[i].running &&
		    proc_signal_handlers(job->ranks[i].process.pid, sig) == 0)
			job_say(job,
				"rank %d does not handle signal %d (%s): not forwarded, as it would end it",
				i, sig, strsignal(sig));
}

void job_end(struct job *job, int sig, double grace)
{
	if (job->ending != ENDING_NOT)
		return;
	job->ending = ENDING_ASKED;
	job->asked_with = sig;
	job->grace = grace;
	job->kill_at = job_now() + grace;
	job_signal_groups(job, sig);
	proc_signal_children(sig, is_no_orphan, job);
	/* whoever is stopped could not act on it */
	job_signal_groups(job, SIGCONT);
}

void job_kill(struct job *job)
{
	job->ending = ENDING_KILLED;
	job_signal_groups(job, SIGKILL);
	proc_signal_children(SIGKILL, is_no_orphan, job);
}

void job_stop(struct job *job)
{
	job_end(job, SIGTERM, failure_grace(job));
}

void job_fail(struct job *job, const struct rank_exit *failure)
{
	job->failure = *failure;
	job_stop(job);
}

void job_tick(struct job *job)
{
	const double now = job_now();
	const double timeout = job->options->timeout;

	if (job->ending == ENDING_NOT && job->running > 0 && timeout > 0 &&
	    now >= job->start + timeout) {
		job->timed_out = true;
		report_timeout(job);
		job_stop(job);
	}
	if (job->ending == ENDING_NOT && job->leftover_at > 0 && now >= job->leftover_at)
		job->family_changed = true; /* for job_gone() to look once more */
	if (job->ending == ENDING_ASKED && !job->gone && now >= job->kill_at) {
		report_kill(job);
		job_kill(job);
	}
}

static double earlier(double at, double other)
{
	return other > 0 && other < at ? other : at;
}

int job_wait_ms(const struct job *job)
{
	const struct losses *losses = &job->losses;
	double at = INFINITY;

	if (job->ending == ENDING_ASKED && !job->gone)
		at = job->kill_at;
	else if (job->ending == ENDING_NOT && job->running > 0 && job->options->timeout > 0)
		at = job->start + job->options->timeout;
	if (losses->open_count > 0)
		at = earlier(at, losses->settle_at);
	at = earlier(at, losses->look_at);
	if (job->ending == ENDING_NOT)
		at = earlier(earlier(at, losses->left_out_at), job->leftover_at);
	if (isinf(at))
		return -1;
	const double ms = ceil((at - job_now()) * 1e3);
	return ms < 0 ? 0 : ms > 1e6 ? 1000000 : (int)ms;
}

static void end_leftovers(struct job *job, int count)
{
	const double now = job_now();

	if (job->leftover_at == 0)
		job->leftover_at = now + LEFTOVER_GRACE;
	if (now < job->leftover_at)
		return;
	job_say(job, "all ranks are done, but left %d process%s running: ending %s", count,
		count == 1 ? "" : "es", count == 1 ? "it" : "them");
	job_end(job, SIGTERM, failure_grace(job));
}

bool job_gone(struct job *job)
{
	static const int signals[] = { [ENDING_ASKED] = SIGTERM, [ENDING_KILLED] = SIGKILL };
	struct family left;

	if (job->running > 0 || !job->family_changed)
		return job->gone;
	job_reap_children(job, 0);
	job->family_changed = false;
	/* some are found only now, when those that started them are gone */
	left = proc_signal_children(signals[job->ending], is_no_orphan, job);
	job->gone = left.live == 0 && left.zombies == 0;
	if (left.live > 0 && job->ending == ENDING_NOT)
		end_leftovers(job, left.live);
	return job->gone;
}

int job_status(const struct job *job)
{
	/* the last that failed may have left nobody but replacements, which had nothing to do */
	const struct rank_exit *failure =
		job->failure.rank < 0 && job->ended_well == 0 ? &job->losses.last : &job->failure;

	if (job->timed_out)
		return RUN_TIMED_OUT;
	if (failure->rank < 0)
		return 0;
	if (!failure->by_signal)
		return failure->code;
	if (job->forwarded && failure->code == SIGKILL)
		return 128 + job->forwarded;
	return 128 + failure->code;
}
