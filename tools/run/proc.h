/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes that /proc lists. */
#ifndef RUN_PROC_H
#define RUN_PROC_H

#include <stdbool.h>
#include <sys/types.h>

struct family {
	int live;
	int zombies; /* ended, but not waited for */
};

/* Close every descriptor from `first` on. */
void proc_close_from(int first);

/* A descriptor of the process, readable once it has ended; -1 with errno. */
int proc_open(pid_t pid);
/* Does this error of proc_open() say that the kernel has none: before Linux 5.3, under valgrind, in
 * some sandboxes? */
bool proc_is_unknown(int error);

/* Send `sig` (0: none) to every live child of this process that `spared` does not name; how many
 * children there are but those. */
struct family proc_signal_children(int sig, bool (*spared)(const void *context, pid_t pid),
				   const void *context);

/* Send `sig` to `pid` if it handles that signal, otherwise to its nearest descendants that do:
 * nobody is ended by it. How many got it. */
int proc_signal_handlers(pid_t pid, int sig);

/* By a signal, and not by a debugger. */
bool proc_is_stopped(pid_t pid);

/* Is one of the processes of group `group` such as `found` says? */
bool proc_group_has(pid_t group, bool (*found)(const void *context, pid_t pid),
		    const void *context);

/* Send SIGKILL to every process of this user whose environment holds `entry` ("K=V"), but not to
 * this one; how many there were. */
int proc_kill_marked(const char *entry);

#endif
