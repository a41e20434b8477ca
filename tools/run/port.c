/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: looks for a port that will still be free when a rank listens on it. The kernel gives
 * ports from 32768 on to whoever connects (ip_local_port_range), so the port lies below, at a place
 * that differs between jobs. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port.h"

enum { FIRST = 20000, COUNT = 12000 };

static bool is_free(int port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)port),
					     .sin_addr.s_addr = htonl(INADDR_ANY) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool free =
		fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;

	if (fd >= 0)
		close(fd);
	return free;
}

int port_choose(void)
{
	const int start = (int)(getpid() % COUNT);

	for (int i = 0; i < COUNT; i++)
		if (is_free(FIRST + (start + i) % COUNT))
			return FIRST + (start + i) % COUNT;
	return FIRST + start;
}
