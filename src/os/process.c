/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the look at another process in /proc. */
#include "process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct process {
	char state; /* as in proc(5); 0: unknown */
	int threads;
};

static struct process look_at(int32_t pid)
{
	struct process process = { 0 };
	char path[32], line[512] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return process;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	/* "PID (NAME) STATE …", where the name may have anything in it; the threads are the 20th */
	const char *name_end = strrchr(line, ')');
	if (!name_end ||
	    sscanf(name_end,
		   ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
		   &process.state, &process.threads) != 2)
		return (struct process){ 0 };
	return process;
}

bool tt_process_has_ended(int32_t pid)
{
	const struct process process = look_at(pid);

	if (!process.state)
		return kill(pid, 0) < 0 && errno == ESRCH;
	/* the thread that began the process may have ended before the others */
	return process.state == 'X' || (process.state == 'Z' && process.threads <= 1);
}

bool tt_process_is_stopped(int32_t pid)
{
	const char state = look_at(pid).state;

	return state == 'T' || state == 't';
}
