/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the options of sockets and the way they are closed. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"

#define DROP_MAX 4096 /* reads before a close: more than the largest receive buffer holds */

static void set(int fd, int level, int name, int value, const char *what)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		tt_log(DEBUG, TCP, "set %s to %d: %s", what, value, strerror(errno));
}

/* BBR paces its segments by a clock, which a path without a wire need not wait for. */
static void leave_bbr(int fd)
{
	static const char *const better[] = { "cubic", "reno" };
	char name[16] = "";
	socklen_t length = sizeof(name) - 1;

	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) < 0 ||
	    strncmp(name, "bbr", 3) != 0)
		return;
	for (int i = 0; i < 2; i++) {
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, better[i],
			       (socklen_t)strlen(better[i])) == 0) {
			tt_log(DEBUG, TCP, "congestion control %s instead of %s on this machine",
			       better[i], name);
			return;
		}
	}
	tt_log(DEBUG, TCP, "congestion control stays %s: %s", name, strerror(errno));
}

/* `local`: both ends are on this machine. Dialling sockets come here before they connect, accepted
 * ones when it is known where they come from. */
void tt_tcp_tune(const struct tcp_endpoint *e, int fd, bool local)
{
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	if (local)
		leave_bbr(fd);
	if (e->buffer) {
		set(fd, SOL_SOCKET, SO_SNDBUF, e->buffer, "SO_SNDBUF");
		set(fd, SOL_SOCKET, SO_RCVBUF, e->buffer, "SO_RCVBUF");
	}
}

/* Probes after half of the time and every tenth of it from then on, or every second; the user
 * timeout ends the connection at the first probe that comes later, and where sent bytes are not
 * acknowledged.
 *
 * For control links only: the kernel would also give up a data connection whose peer, computing,
 * leaves its receive buffer full for that long. */
void tt_tcp_watch_silence(int fd, double seconds)
{
	const int idle = (int)(seconds / 2), interval = (int)(seconds / 10);

	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle > 1 ? idle : 1, "TCP_KEEPIDLE");
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval > 1 ? interval : 1, "TCP_KEEPINTVL");
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(seconds * 1000), "TCP_USER_TIMEOUT");
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

static bool in_loopback(const struct sockaddr_storage *a)
{
	const struct in6_addr *a6 = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(a6) || (IN6_IS_ADDR_V4MAPPED(a6) && a6->s6_addr[12] == 127);
}

/* Are both ends of the connection in one network stack? */
bool tt_tcp_is_local(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t m = sizeof(here), n = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&here, &m) < 0 ||
	    getpeername(fd, (struct sockaddr *)&there, &n) < 0)
		return false;
	return same_host(&here, &there) || in_loopback(&there);
}

void tt_tcp_peer_text(int fd, char text[TCP_ADDRESS_TEXT])
{
	struct sockaddr_storage there = { 0 };
	socklen_t n = sizeof(there);

	if (getpeername(fd, (struct sockaddr *)&there, &n) == 0)
		tt_tcp_text(&there, text);
	else
		memcpy(text, "unknown", 8);
}

/* Closing with received bytes unread makes the kernel reset the connection and throw away what is
 * still to be sent: end our direction first, then take what there is, but not for ever from a peer
 * that goes on sending. */
void tt_tcp_close_orderly(struct tt_connection connection)
{
	const int fd = connection.fd;
	char dropped[16384];
	ssize_t n = 1;

	tt_tls_stream_close(connection.tls);
	if (fd < 0)
		return;
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < DROP_MAX && (n > 0 || (n < 0 && errno == EINTR)); i++)
		n = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
	tt_fd_close(fd);
}
