/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how the limit of file sizes is kept without its signal. The kernel sends that to the
 * thread that made the call, so it is enough to block it there, and to take it before it is let
 * through again. Its disposition is the program's. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

uint64_t tt_file_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
		       ? limit.rlim_cur
		       : UINT64_MAX;
}

static bool is_waiting(void)
{
	sigset_t waiting;

	return sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ);
}

static void only(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGXFSZ);
}

void tt_file_guard_begin(struct tt_file_guard *guard)
{
	sigset_t set;

	only(&set);
	guard->idle = is_waiting();
	pthread_sigmask(SIG_BLOCK, &set, &guard->before);
}

void tt_file_guard_end(const struct tt_file_guard *guard)
{
	const int saved = errno;
	sigset_t set;

	only(&set);
	if (!guard->idle && is_waiting())
		sigtimedwait(&set, NULL, &(struct timespec){ 0 });
	pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
	errno = saved;
}

int tt_file_resize(int fd, uint64_t bytes)
{
	struct tt_file_guard guard;

	tt_file_guard_begin(&guard);
	const int result = ftruncate(fd, (off_t)bytes);
	tt_file_guard_end(&guard);
	return result;
}

int tt_file_reserve(int fd, uint64_t offset, uint64_t bytes)
{
	struct tt_file_guard guard;
	int error;

	tt_file_guard_begin(&guard);
	do
		error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
	while (error == EINTR);
	tt_file_guard_end(&guard);
	return error;
}

int tt_file_write(int fd, uint64_t offset, const void *bytes, size_t length)
{
	struct tt_file_guard guard;
	size_t done = 0;
	int error = 0;

	tt_file_guard_begin(&guard);
	while (done < length && !error) {
		const ssize_t n = pwrite(fd, (const uint8_t *)bytes + done, length - done,
					 (off_t)(offset + done));

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			error = errno;
	}
	tt_file_guard_end(&guard);
	return error;
}
