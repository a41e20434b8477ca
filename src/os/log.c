/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the log's levels and sink, and each thread's last error. The levels and the sink are the
 * only state of the process here; the levels are read from TUTTI_LOG once, before main(). */
#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "callback.h"
#include "file.h"
#include "log.h"
#include "nearest.h"
#include "numbers.h"
#include "printable.h"
#include "transport.h"

#define QUOTA_NS 10000000000u
#define SINK_NS	 2000000000u /* a line that waits longer for the sink goes to standard error */

uint8_t tt_log_levels[TT_LOG_SUBSYSTEM_COUNT];

static const char *const subsystem_names[] = {
	[TT_LOG_COMM] = "comm", [TT_LOG_STORE] = "store",   [TT_LOG_PLAN] = "plan",
	[TT_LOG_EXEC] = "exec", [TT_LOG_MEM] = "mem",	    [TT_LOG_SHM] = "shm",
	[TT_LOG_TCP] = "tcp",	[TT_LOG_LOOP] = "loop",	    [TT_LOG_RDMA] = "rdma",
	[TT_LOG_CUDA] = "cuda", [TT_LOG_KERNEL] = "kernel",
};
static_assert(sizeof(subsystem_names) / sizeof(subsystem_names[0]) == TT_LOG_SUBSYSTEM_COUNT,
	      "every subsystem has a name");

static const char *const level_names[] = { "error", "warn", "info", "debug", "trace" };
#define LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))

static struct {
	pthread_mutex_t lock;
	tutti_log_fn_t sink;
	void *context;
} out = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local char last_error[TT_ERROR_MAX];

static int name_index(const char *const *names, int count, const char *name, size_t length)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
			return i;
	return -1;
}

/* One part of TUTTI_LOG: "debug" or "tcp:trace". */
static bool set_level(const char *part, size_t length)
{
	const char *colon = memchr(part, ':', length);
	const char *level_name = colon ? colon + 1 : part;
	const int level =
		name_index(level_names, LEVELS, level_name, length - (size_t)(level_name - part));

	if (level < 0)
		return false;
	if (!colon) {
		memset(tt_log_levels, level, sizeof(tt_log_levels));
		return true;
	}
	const int subsystem =
		name_index(subsystem_names, TT_LOG_SUBSYSTEM_COUNT, part, (size_t)(colon - part));
	if (subsystem < 0)
		return false;
	tt_log_levels[subsystem] = (uint8_t)level;
	return true;
}

/* Of the name in the part that is none: the level, or else the subsystem. */
static const char *hint_of(const char *part, size_t length, char hint[TT_NEAREST_HINT])
{
	const char *colon = memchr(part, ':', length);
	const char *level = colon ? colon + 1 : part;
	const size_t level_length = length - (size_t)(level - part);
	const bool of_level = name_index(level_names, LEVELS, level, level_length) < 0;
	struct tt_nearest nearest = of_level ? tt_nearest_to(level, level_length)
					     : tt_nearest_to(part, (size_t)(colon - part));

	for (int i = 0; of_level && i < LEVELS; i++)
		tt_nearest_offer(&nearest, level_names[i]);
	for (int i = 0; !of_level && i < TT_LOG_SUBSYSTEM_COUNT; i++)
		tt_nearest_offer(&nearest, subsystem_names[i]);
	return tt_nearest_hint(&nearest, hint);
}

void tt_log_read(const char *text)
{
	char hint[TT_NEAREST_HINT];

	memset(tt_log_levels, TUTTI_LOG_WARN, sizeof(tt_log_levels));
	while (text && *text) {
		const size_t length = strcspn(text, ",");

		if (length > 0 && !set_level(text, length))
			fprintf(stderr,
				"tutti: TUTTI_LOG has \"%.*s\"%s: expected a level (error, warn, "
				"info, debug, trace), or SUBSYSTEM:LEVEL with a subsystem of comm, "
				"store, plan, exec, mem, shm, tcp, loop, rdma, cuda, kernel\n",
				(int)length, text, hint_of(text, length, hint));
		text += length;
		text += *text == ',';
	}
}

__attribute__((constructor)) static void read_levels(void)
{
	tt_log_read(getenv("TUTTI_LOG"));
}

static void print(tutti_log_level_t level, enum tt_log_subsystem subsystem, const char *line)
{
	struct tt_file_guard guard;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	tt_file_guard_begin(&guard); /* it may be a file */
	fprintf(stderr, "tutti %ld.%06ld %d %s %s: %s\n", (long)(now.tv_sec % 100000),
		now.tv_nsec / 1000, (int)getpid(), level_names[level], subsystem_names[subsystem],
		line);
	tt_file_guard_end(&guard);
}

static const char sink_name[] = "the sink of tutti_log_set_sink()";

/* Of a thread that is in the sink, or has left it by a jump. */
static bool has_lock(void)
{
	return tt_callback_here() == sink_name;
}

static bool lock_sink(void)
{
	return tt_callback_lock(&out.lock, &tt_callback_sink_calls, SINK_NS);
}

static void hand_over(tutti_log_level_t level, enum tt_log_subsystem subsystem, const char *line)
{
	TT_CALLBACK callback = tt_callback_begin_alone(sink_name, &tt_callback_sink_calls);

	out.sink(level, subsystem_names[subsystem], line, out.context);
	tt_callback_end(&callback);
}

static void emit(tutti_log_level_t level, enum tt_log_subsystem subsystem, const char *line)
{
	if (has_lock() || !lock_sink()) {
		print(level, subsystem, line);
		return;
	}
	if (out.sink)
		hand_over(level, subsystem, line);
	else
		print(level, subsystem, line);
	pthread_mutex_unlock(&out.lock);
}

void tt_log_write(tutti_log_level_t level, enum tt_log_subsystem subsystem, const char *format, ...)
{
	const int saved = errno;
	char line[1024];
	va_list args;

	va_start(args, format);
	tt_print_list(line, sizeof(line), format, args);
	va_end(args);
	tt_printable(line); /* it may tell what others sent */
	emit(level, subsystem, line);
	errno = saved;
}

bool tt_log_due(struct tt_log_quota *quota, char more[TT_LOG_MORE])
{
	const uint64_t now = tt_now();

	if (now < quota->due_at) {
		quota->left_out++;
		return false;
	}
	more[0] = '\0';
	if (quota->left_out > 0)
		snprintf(more, TT_LOG_MORE, " (and %u like it since the last such line)",
			 quota->left_out);
	*quota = (struct tt_log_quota){ .due_at = now + QUOTA_NS };
	return true;
}

tutti_result_t tt_fail_write(tutti_result_t result, enum tt_log_subsystem subsystem,
			     const char *format, ...)
{
	const int saved = errno;
	va_list args;

	va_start(args, format);
	tt_print_list(last_error, sizeof(last_error), format, args);
	va_end(args);
	tt_printable(last_error);
	/* the caller is told by tutti_last_error(): the log repeats it only for those who ask */
	if (TUTTI_LOG_INFO <= tt_log_levels[subsystem])
		emit(TUTTI_LOG_ERROR, subsystem, last_error);
	errno = saved;
	return result;
}

const char *tt_errno_text(int error, char text[TT_ERRNO_MAX])
{
	struct rlimit limit;

	if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		snprintf(
			text, TT_ERRNO_MAX,
			"%s: this process may have %llu (at most %llu); raise the limit (ulimit -n)",
			strerror(error), (unsigned long long)limit.rlim_cur,
			(unsigned long long)limit.rlim_max);
	else if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
		 limit.rlim_cur != RLIM_INFINITY)
		snprintf(
			text, TT_ERRNO_MAX,
			"%s: files of this process may have %llu bytes; raise the limit (ulimit -f)",
			strerror(error), (unsigned long long)limit.rlim_cur);
	else if (error == ENOMEM && getrlimit(RLIMIT_AS, &limit) == 0 &&
		 limit.rlim_cur != RLIM_INFINITY)
		snprintf(
			text, TT_ERRNO_MAX,
			"%s: this process may have %llu bytes of address space; raise the limit (ulimit -v)",
			strerror(error), (unsigned long long)limit.rlim_cur);
	else if (error == ENFILE)
		snprintf(text, TT_ERRNO_MAX, "%s: raise the machine's limit (sysctl fs.file-max)",
			 strerror(error));
	else
		snprintf(text, TT_ERRNO_MAX, "%s", strerror(error));
	return text;
}

bool tt_errno_is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
	       error == ENOSPC;
}

tutti_result_t tt_fail_errno_write(enum tt_log_subsystem subsystem, const char *format, ...)
{
	const int saved = errno;
	char what[384], why[TT_ERRNO_MAX];
	va_list args;

	va_start(args, format);
	tt_print_list(what, sizeof(what), format, args);
	va_end(args);
	return tt_fail_write(saved == ENOMEM ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM, subsystem,
			     "%s: %s", what, tt_errno_text(saved, why));
}

const char *tt_thread_error(void)
{
	return last_error;
}

void tt_thread_error_set(const char *error_text)
{
	snprintf(last_error, sizeof(last_error), "%s", error_text);
}

TUTTI_API void tutti_log_set_sink(tutti_log_fn_t sink, void *context)
{
	if (sink)
		atomic_store_explicit(&tt_callbacks_exist, true, memory_order_relaxed);
	const bool locked = !has_lock() && lock_sink();

	out.sink = sink;
	out.context = context;
	if (locked)
		pthread_mutex_unlock(&out.lock);
}

/* The thread that held the lock, if any did, is not there. */
static void renew_lock(void)
{
	pthread_mutex_init(&out.lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, renew_lock);
}
