/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the count of forks, and the set of descriptors that a child of fork() closes when it
 * begins.
 *
 * The lock is held over fork(), so that the set is whole in the child and holds every descriptor
 * that the child has; it is only ever held around calls that return at once, and never while the
 * program's own functions run. */
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"

#define WORD_BITS 64

#define USUAL_LIMIT 1024 /* a lower soft limit of descriptors was somebody's intention */
#define SPARE	    64	 /* descriptors below the limit before it is raised */

uint32_t tt_forks;

static struct {
	pthread_mutex_t lock;
	uint64_t *bits; /* [words], one for each descriptor */
	size_t words;
	void (*look)(void); /* or NULL */
} noted = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct tt_owner tt_owner_here(void)
{
	return (struct tt_owner){ tt_forks, (int32_t)getpid() };
}

tutti_result_t tt_fail_inherited(const struct tt_owner *owner, const char *call, const char *what)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"%s: this %s was made by process %d and cannot be used in its child %d (after fork): make a new one "
		"here, or call exec()",
		call, what, (int)owner->pid, (int)getpid());
}

/* ---- descriptors */

/* Room for `fd`; false with ENOMEM. */
static bool reach(int fd)
{
	const size_t words = (size_t)fd / WORD_BITS + 1;
	uint64_t *grown;

	if (words <= noted.words)
		return true;
	grown = realloc(noted.bits, words * sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + noted.words, 0, (words - noted.words) * sizeof(*grown));
	noted.bits = grown;
	noted.words = words;
	return true;
}

/* The soft limit is one for select(), which tutti does not use: where `fd` comes near it, and the hard
 * one allows, it is doubled. */
static void raise_limit(int fd)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < USUAL_LIMIT ||
	    (rlim_t)fd + SPARE < limit.rlim_cur || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_cur < limit.rlim_max / 2 ? 2 * limit.rlim_cur : limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void tt_fd_hold(void)
{
	pthread_mutex_lock(&noted.lock);
}

void tt_fd_let_go(void)
{
	pthread_mutex_unlock(&noted.lock);
}

/* Of a program that has closed its standard streams: what it writes there nevertheless, and the log,
 * must not come into connections, or into memory that ranks share. */
static int above_standard_streams(int fd)
{
	if (fd > STDERR_FILENO)
		return fd;
	const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), saved = errno;

	close(fd);
	errno = saved;
	return moved;
}

int tt_fd_add(int fd)
{
	fd = fd < 0 ? fd : above_standard_streams(fd);
	if (fd < 0)
		return fd;
	raise_limit(fd);
	if (!reach(fd)) {
		close(fd);
		errno = ENOMEM;
		return -1;
	}
	noted.bits[fd / WORD_BITS] |= UINT64_C(1) << (fd % WORD_BITS);
	return fd;
}

int tt_fd_note(int fd)
{
	const int added = tt_fd_add(fd);

	tt_fd_let_go();
	return added;
}

void tt_fd_forget(int fd)
{
	if (fd >= 0 && (size_t)fd / WORD_BITS < noted.words)
		noted.bits[fd / WORD_BITS] &= ~(UINT64_C(1) << (fd % WORD_BITS));
}

void tt_fd_close(int fd)
{
	const int saved = errno;

	if (fd < 0)
		return;
	tt_fd_hold();
	tt_fd_forget(fd);
	close(fd);
	tt_fd_let_go();
	errno = saved;
}

/* ---- fork() */

/* Closed, not shut down: the connections go on in the parent. */
static void close_all(void)
{
	for (size_t word = 0; word < noted.words; word++) {
		for (; noted.bits[word]; noted.bits[word] &= noted.bits[word] - 1)
			close((int)(word * WORD_BITS) + __builtin_ctzll(noted.bits[word]));
	}
}

void tt_fork_watch(void (*look)(void))
{
	tt_fd_hold();
	noted.look = look;
	tt_fd_let_go();
}

/* A thread that makes a heap holds it while its descriptor is noted: in this order. */
static void before(void)
{
	tt_heap_hold();
	tt_fd_hold();
	if (noted.look)
		noted.look();
}

static void be_parent(void)
{
	tt_fd_let_go();
	tt_heap_let_go();
}

static void be_child(void)
{
	tt_forks++;
	close_all();
	tt_fd_let_go();
	tt_heap_inherit();
}

/* So early that the C library need not allocate to keep it. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before, be_parent, be_child);
}
