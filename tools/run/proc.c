/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the search for processes through /proc. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc.h"

/* The next number that `dir` lists; 0 at its end. */
static int next_number(DIR *dir)
{
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			return atoi(entry->d_name);
	return 0;
}

void proc_close_from(int first)
{
	DIR *dir = opendir("/proc/self/fd");
	int fd;

	while (dir && (fd = next_number(dir)))
		if (fd >= first && fd != dirfd(dir))
			close(fd);
	if (dir)
		closedir(dir);
}

int proc_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool proc_is_unknown(int error)
{
	return error == ENOSYS || error == EPERM;
}

/* A process that is held keeps its number: nobody else is hit by a signal to it. Where the kernel
 * has no descriptors of processes `*fd` is -1, and that is only likely. */
static bool hold(pid_t pid, int *fd)
{
	*fd = proc_open(pid);
	return *fd >= 0 || proc_is_unknown(errno);
}

static bool send_held(pid_t pid, int fd, int sig)
{
	return (fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) : kill(pid, sig)) == 0;
}

static void let_go(int fd)
{
	if (fd >= 0)
		close(fd);
}

static FILE *open_of(pid_t pid, const char *file)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return fopen(path, "re");
}

/* 0 if there is no such process. */
static char state_of(pid_t pid, int *parent)
{
	FILE *file = open_of(pid, "stat");
	char line[512];
	const char *tail;
	char state;

	if (!file)
		return 0;
	/* "pid (name) state ppid …": the name may hold anything, also ')' */
	if (!fgets(line, sizeof(line), file) || !(tail = strrchr(line, ')')) ||
	    sscanf(tail + 1, " %c %d", &state, parent) != 2)
		state = 0;
	fclose(file);
	return state;
}

bool proc_is_stopped(pid_t pid)
{
	int parent;

	return state_of(pid, &parent) == 'T';
}

struct family proc_signal_children(int sig, bool (*spared)(const void *context, pid_t pid),
				   const void *context)
{
	DIR *dir = opendir("/proc");
	struct family family = { 0 };
	pid_t pid;

	if (!dir)
		return family;
	while ((pid = next_number(dir))) {
		int parent = 0;
		const char state = state_of(pid, &parent);

		if (!state || parent != (int)getpid() || spared(context, pid))
			continue;
		if (state == 'Z' || state == 'X') {
			family.zombies++;
			continue;
		}
		family.live++;
		/* a child's number stays its own until it is waited for: no other process is hit */
		if (sig)
			kill(pid, sig);
	}
	closedir(dir);
	return family;
}

bool proc_group_has(pid_t group, bool (*found)(const void *context, pid_t pid), const void *context)
{
	DIR *dir = opendir("/proc");
	bool has = false;
	pid_t pid;

	if (!dir)
		return false;
	while (!has && (pid = next_number(dir)))
		has = getpgid(pid) == group && found(context, pid);
	closedir(dir);
	return has;
}

/* Has the process a handler for `sig`? That it blocks it says nothing: shells block all while
 * they wait. */
static bool handles(pid_t pid, int sig)
{
	FILE *file = open_of(pid, "status");
	unsigned long long caught = 0;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "SigCgt: %llx", &caught) == 1)
			break;
	fclose(file);
	return caught >> (sig - 1) & 1;
}

/* Of the children that thread `thread` of `pid` has. */
static int signal_children_of(pid_t pid, pid_t thread, int sig)
{
	char name[48];
	int child, count = 0;

	snprintf(name, sizeof(name), "task/%d/children", (int)thread);
	FILE *file = open_of(pid, name);
	while (file && fscanf(file, "%d", &child) == 1)
		count += proc_signal_handlers(child, sig);
	if (file)
		fclose(file);
	return count;
}

int proc_signal_handlers(pid_t pid, int sig)
{
	char path[64];
	int fd, count = 0;
	pid_t thread;

	if (!hold(pid, &fd))
		return 0;
	if (handles(pid, sig)) {
		count = send_held(pid, fd, sig);
	} else {
		snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
		DIR *dir = opendir(path);

		while (dir && (thread = next_number(dir)))
			count += signal_children_of(pid, thread, sig);
		if (dir)
			closedir(dir);
	}
	let_go(fd);
	return count;
}

static bool is_marked(pid_t pid, const char *entry)
{
	FILE *file = open_of(pid, "environ");
	char *line = NULL;
	size_t capacity = 0;
	bool yes = false;

	if (!file)
		return false;
	while (!yes && getdelim(&line, &capacity, '\0', file) > 0)
		yes = strcmp(line, entry) == 0;
	free(line);
	fclose(file);
	return yes;
}

int proc_kill_marked(const char *entry)
{
	DIR *dir = opendir("/proc");
	int count = 0;
	pid_t pid;

	if (!dir)
		return 0;
	while ((pid = next_number(dir))) {
		int fd;

		if (pid == getpid() || !hold(pid, &fd))
			continue;
		if (is_marked(pid, entry) && send_held(pid, fd, SIGKILL)) {
			struct pollfd end = { .fd = fd, .events = POLLIN };

			poll(&end, 1, fd >= 0 ? 1000 : 10);
			count++;
		}
		let_go(fd);
	}
	closedir(dir);
	return count;
}
