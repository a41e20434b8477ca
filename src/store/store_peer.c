/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the question whose process a pending client is. The kernel's list of TCP connections says it
 * for those of this machine. */
#include "store_peer.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unix_peer.h"

#define ESTABLISHED 1 /* and so not closed by its process: the kernel gives closed ones to root */
#define NAME_ROOM   64

/* An end of a connection as the list writes it: the address in words of 32 bits, the port. */
static void name_end(const struct sockaddr_storage *end, char name[NAME_ROOM])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)end;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)end;
	uint32_t words[4];

	if (end->ss_family == AF_INET) {
		snprintf(name, NAME_ROOM, "%08X:%04X", in->sin_addr.s_addr, ntohs(in->sin_port));
		return;
	}
	memcpy(words, &in6->sin6_addr, sizeof(words));
	snprintf(name, NAME_ROOM, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
		 ntohs(in6->sin6_port));
}

/* The user of the connection from `from` to `to`; -1: it is not in the list. */
static long user_of(const char *path, const char *from, const char *to)
{
	char line[256], local[NAME_ROOM], remote[NAME_ROOM];
	FILE *file = fopen(path, "re");
	long user = -1, uid;
	unsigned state;

	while (file && user < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*d: %63s %63s %x %*s %*s %*s %ld", local, remote, &state,
			   &uid) == 4 &&
		    state == ESTABLISHED && strcmp(local, from) == 0 && strcmp(remote, to) == 0)
			user = uid;
	if (file)
		fclose(file);
	return user;
}

/* No other machine has this one's address. */
static bool is_here(const struct sockaddr_storage *here, const struct sockaddr_storage *there)
{
	if (here->ss_family != there->ss_family)
		return false;
	if (here->ss_family == AF_INET)
		return ((const struct sockaddr_in *)here)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)there)->sin_addr.s_addr;
	return here->ss_family == AF_INET6 &&
	       memcmp(&((const struct sockaddr_in6 *)here)->sin6_addr,
		      &((const struct sockaddr_in6 *)there)->sin6_addr,
		      sizeof(struct in6_addr)) == 0;
}

static bool is_own(const struct sockaddr_storage *here, const struct sockaddr_storage *there)
{
	char from[NAME_ROOM], to[NAME_ROOM];
	long uid;

	name_end(there, from);
	name_end(here, to);
	uid = user_of(here->ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", from, to);
	return uid >= 0 && uid == (long)geteuid();
}

/* An end of a socket for IPv6 that speaks IPv4. */
static bool unmap(struct sockaddr_storage *end)
{
	const struct sockaddr_in6 mapped = *(const struct sockaddr_in6 *)end;
	struct sockaddr_in *in = (struct sockaddr_in *)end;

	if (!IN6_IS_ADDR_V4MAPPED(&mapped.sin6_addr))
		return false;
	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = mapped.sin6_port };
	memcpy(&in->sin_addr, mapped.sin6_addr.s6_addr + 12, sizeof(in->sin_addr));
	return true;
}

bool tt_store_peer_is_own(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t here_length = sizeof(here), there_length = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&here, &here_length) < 0)
		return false;
	if (here.ss_family == AF_UNIX)
		return tt_unix_peer_trusted(fd);
	if (getpeername(fd, (struct sockaddr *)&there, &there_length) < 0 ||
	    !is_here(&here, &there))
		return false;
	if (is_own(&here, &there))
		return true;
	/* the client's end may be a socket for IPv4, which is in the other list */
	return here.ss_family == AF_INET6 && unmap(&here) && unmap(&there) && is_own(&here, &there);
}
