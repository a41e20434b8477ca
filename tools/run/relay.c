/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the passing on of what is typed to rank 0. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "loop.h"

int relay_init(struct relay *relay)
{
	int ends[2];

	*relay = (struct relay){ .in = -1, .out = -1 };
	if (!isatty(STDIN_FILENO))
		return STDIN_FILENO;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	relay->in = STDIN_FILENO;
	relay->out = ends[1];
	return ends[0];
}

bool relay_step(struct relay *relay)
{
	ssize_t moved;

	if (relay->length == 0) {
		moved = read(relay->in, relay->bytes, sizeof(relay->bytes));
		if (moved < 0 && (errno == EINTR || errno == EAGAIN))
			return true;
		/* EIO: in the background, where the terminal gives nothing */
		if (moved <= 0)
			return false;
		relay->head = 0;
		relay->length = (size_t)moved;
	}
	moved = write(relay->out, relay->bytes + relay->head, relay->length);
	if (moved < 0)
		return errno == EINTR || errno == EAGAIN;
	relay->head += (size_t)moved;
	relay->length -= (size_t)moved;
	return true;
}

void relay_finish(struct relay *relay)
{
	if (relay->out >= 0)
		close(relay->out);
	relay->in = relay->out = -1;
}
