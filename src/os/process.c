/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the look at another process in /proc. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fork.h"
#include "small_file.h"

#define EXITING 0x4 /* PF_EXITING of the kernel: set before files are closed */

struct process {
	char state; /* as in proc(5); 0: unknown */
	unsigned flags;
	int threads;
};

static struct process look_at(int32_t pid)
{
	struct process process = { 0 };
	char path[32], line[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	tt_small_file_read(path, line, sizeof(line));
	/* "PID (NAME) STATE …", where the name may have anything in it; the flags are the 9th, the
	 * threads the 20th */
	const char *name_end = strrchr(line, ')');
	if (!name_end ||
	    sscanf(name_end,
		   ") %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
		   &process.state, &process.flags, &process.threads) != 3)
		return (struct process){ 0 };
	return process;
}

/* The thread that began the process may have ended before the others. */
static bool has_ended(const struct process *process)
{
	return process->state == 'X' || (process->state == 'Z' && process->threads <= 1);
}

bool tt_process_has_ended(int32_t pid)
{
	const struct process process = look_at(pid);

	return process.state ? has_ended(&process) : kill(pid, 0) < 0 && errno == ESRCH;
}

bool tt_process_is_ending(int32_t pid)
{
	const struct process process = look_at(pid);

	return process.state && process.flags & EXITING && !has_ended(&process);
}

bool tt_process_is_stopped(int32_t pid)
{
	const char state = look_at(pid).state;

	return state == 'T' || state == 't';
}

struct tt_process_file tt_process_file(int fd)
{
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		return (struct tt_process_file){ .fd = -1 };
	return (struct tt_process_file){ fd, 1, (uint64_t)info.st_dev, (uint64_t)info.st_ino };
}

static bool is_that(const struct tt_process_file *file, const struct stat *info)
{
	return S_ISREG(info->st_mode) && (uint64_t)info->st_dev == file->device &&
	       (uint64_t)info->st_ino == file->inode;
}

int tt_process_open(int32_t pid, const struct tt_process_file *file)
{
	struct stat info;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)file->fd);
	/* looked at before it is opened: it may be anything, such as a pipe, if the number is
	 * another file's */
	if (stat(path, &info) < 0)
		return -1;
	errno = ESTALE;
	if (!is_that(file, &info))
		return -1;
	const int fd = TT_FD(open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
	if (fd < 0 || (fstat(fd, &info) == 0 && is_that(file, &info)))
		return fd;
	tt_fd_close(fd);
	errno = ESTALE;
	return -1;
}
