/* SPDX-License-Identifier: BSD-3-Clause */
/* What a child of fork() inherits, and what it must not touch.
 *
 * A child has copies of the communicators, stores and requests that its parent made, but none of
 * the threads that work on them. The peers know the parent alone. So every object remembers its
 * owner process, and every public call compares: what was made before a fork is refused. The child
 * closes its copies of the descriptors noted here as soon as it begins: peers take the end of a
 * connection for the end of a process, and a connection does not end while any copy is open.
 * Memory that processes share is not inherited at all (MADV_DONTFORK). All of this concerns
 * children that do not call exec(). That call closes and unmaps by itself, because every
 * descriptor is close-on-exec. */
#ifndef TT_SPI_FORK_H
#define TT_SPI_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Forks between this process and the first of its line that has the library; changes only where
 * a child begins. */
extern uint32_t tt_forks;

/* The process that made an object. */
struct tt_owner {
	uint32_t forks;
	int32_t pid;
};

struct tt_owner tt_owner_here(void);

static inline bool tt_owned_here(const struct tt_owner *owner)
{
	return __builtin_expect(owner->forks == tt_forks, 1);
}

/* TUTTI_ERR_INVALID, with the error message: `call` was made on a `what` that a parent made. */
tutti_result_t tt_fail_inherited(const struct tt_owner *owner, const char *call, const char *what);

/* The library's descriptors that a child must not keep: sockets, and what stands for memory,
 * processes and waits.
 *   fd = TT_FD(socket(…));   notes it; no fork() falls in between. -1 with errno stays. It
 *			      is none of the standard streams' numbers.
 *   tt_fd_close(fd);	      forgets it, and closes; -1 is fine, errno is kept. */
#define TT_FD(make) (tt_fd_hold(), tt_fd_note(make))
void tt_fd_hold(void); /* no fork() until tt_fd_note() or tt_fd_let_go(): for calls that return
			* at once */
int tt_fd_note(int fd);
void tt_fd_close(int fd);
/* Where one call makes several: hold, add each, let go. Gives `fd`, or another in its place, or -1
 * with errno: it is closed then. */
int tt_fd_add(int fd);
void tt_fd_let_go(void);
/* For descriptors that another library closes: hold, forget, have it closed, let go. -1 is
 * fine. */
void tt_fd_forget(int fd);

/* From now on call `look` before each fork(), while descriptors are held: for what is mapped
 * under tt_fd_hold() and must not be inherited. There is one. */
void tt_fork_watch(void (*look)(void));

#endif
