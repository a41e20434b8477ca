/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of the system that the library makes when it sets up and tears down, counted on
 * their way: a program's own definitions come before those of the C library. Calls that a wait
 * repeats are left out, so that the count is about the same in every run. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "victim.h"

#define COUNTED(name, parameters, ...)                                                             \
	int name parameters                                                                        \
	{                                                                                          \
		/* relaxed: all threads find the same */                                           \
		static int(*_Atomic found) parameters;                                             \
		int(*real) parameters = atomic_load_explicit(&found, memory_order_relaxed);        \
                                                                                                   \
		if (!real)                                                                         \
			real = (int(*) parameters)dlsym(RTLD_NEXT, #name);                         \
		atomic_store_explicit(&found, real, memory_order_relaxed);                         \
		victim_call_is_made();                                                             \
		return real(__VA_ARGS__);                                                          \
	}

COUNTED(socket, (int domain, int type, int protocol), domain, type, protocol)
COUNTED(bind, (int fd, __CONST_SOCKADDR_ARG address, socklen_t n), fd, address, n)
COUNTED(listen, (int fd, int backlog), fd, backlog)
COUNTED(connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t n), fd, address, n)
COUNTED(memfd_create, (const char *name, unsigned flags), name, flags)
COUNTED(epoll_create1, (int flags), flags)
COUNTED(epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event), epoll, op, fd, event)
COUNTED(eventfd, (unsigned value, int flags), value, flags)
COUNTED(munmap, (void *at, size_t length), at, length)
COUNTED(shutdown, (int fd, int how), fd, how)
COUNTED(close, (int fd), fd)

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	victim_call_is_made();
	return sendto(fd, bytes, n, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	victim_message_is_said();
	return syscall(SYS_sendmsg, fd, message, flags);
}
