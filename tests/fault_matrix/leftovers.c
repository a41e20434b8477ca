/* SPDX-License-Identifier: BSD-3-Clause */
#include "leftovers.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "../held.h"
#include "harness.h"

static int threads_now(void)
{
#if defined(__SANITIZE_THREAD__)
	return 0; /* the sanitizer adds one of its own to the first */
#else
	return count_entries("/proc/self/task");
#endif
}

struct holdings holdings_now(void)
{
	return (struct holdings){
		.descriptors = open_descriptors(),
		.mappings = count_lines("/proc/self/maps", "memfd:tutti"),
		.threads = threads_now(),
	};
}

/* The system lists a thread for a moment after it has been joined. */
static void await_threads(int count)
{
	const double enough = seconds_now() + bound_s(1);

	while (threads_now() > count && seconds_now() < enough)
		look_again();
}

bool holdings_equal(const struct holdings *before, char *out, size_t size)
{
	await_threads(before->threads);
	const struct holdings now = holdings_now();

	if (now.descriptors == before->descriptors && now.mappings == before->mappings &&
	    now.threads == before->threads)
		return true;
	snprintf(out, size, "left behind: %+d descriptors, %+d mappings, %+d threads",
		 now.descriptors - before->descriptors, now.mappings - before->mappings,
		 now.threads - before->threads);
	return false;
}

/* Sockets that live: in /proc/net/tcp, state 01 is a connection, 0A listens. Those that end by
 * themselves are not ours. */
static int live_sockets(void)
{
	static const char *const tables[] = { "/proc/self/net/tcp", "/proc/self/net/tcp6" };
	int n = count_lines("/proc/self/net/unix", "@tutti");

	for (int i = 0; i < 2; i++)
		n += count_lines(tables[i], " 01 ") + count_lines(tables[i], " 0A ");
	return n;
}

bool own_files(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL) == 0;
}

bool nothing_is_left(bool own_network, bool own_shm, char *out, size_t size)
{
	const bool processes = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
	const int sockets = own_network ? live_sockets() : 0;
	const int files = own_shm ? count_entries("/dev/shm") - 2 : 0;

	if (!processes && !sockets && !files)
		return true;
	snprintf(out, size, "left behind: %s, %d sockets, %d files in /dev/shm",
		 processes ? "processes" : "no process", sockets, files);
	return false;
}
