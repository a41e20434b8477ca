/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the question who is to blame when a control connection has ended: the peer, or this rank,
 * which all of its peers lose at once where something ends its connections.
 *
 * The connections of a rank do not end at the same instant, so who finds the first looks for the
 * others a moment longer. It blocks for that; the communicator has ended by then in any case. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "endpoint.h"

#define OTHERS_NS 20000000u /* for the other connections to end, too */
#define DEATH_NS                                                                                   \
	100000000u /* for the kernel to say that a process has ended, which it does after it
		    * closed its connections */

/* Its bytes have been read. */
static bool has_ended(const struct tcp_control *control)
{
	char byte;
	const int fd = control->source.connection.fd;
	const ssize_t n = fd < 0 ? 0 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

struct survey {
	int links, ended; /* but for those of ranks that said good-bye */
	bool dead;	  /* one of the peers is, as can be seen */
	bool alive;	  /* and one is not */
	bool apart;	  /* two of them are on different hosts */
};

static struct survey poll_all(const struct tcp_endpoint *e)
{
	struct survey s = { 0 };
	int host = -1;

	for (const struct tcp_control *c = e->controls; c; c = c->next) {
		const struct tt_peer *peer = &e->known[c->peer];
		const bool died = tt_tcp_has_died(e, c->peer);

		if (e->peers[c->peer].left)
			continue;
		s.links++;
		s.ended += has_ended(c);
		s.dead |= died;
		s.alive |= peer->pid > 0 && !died;
		s.apart |= host >= 0 && host != peer->host;
		host = peer->host;
	}
	return s;
}

bool tt_tcp_is_cut_off(struct tcp_endpoint *e)
{
	const uint64_t start = tt_now();

	for (;;) {
		const bool fault = tt_tcp_receive_all(e);
		const struct survey s = poll_all(e);
		const uint64_t waited = tt_now() - start;

		if (fault || s.dead || s.links < 2)
			return false;
		if (s.ended < s.links && waited >= OTHERS_NS)
			return false;
		if (waited >= DEATH_NS)
			return s.alive || s.apart;
		poll(NULL, 0, 1);
	}
}

void tt_tcp_report_cut_off(const struct tcp_endpoint *e, struct tt_fault *fault)
{
	size_t used = 0;
	char ranks[96] = "";

	for (const struct tcp_control *c = e->controls; c && used < sizeof(ranks); c = c->next)
		used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, "%s%d",
					 used ? ", " : "", c->peer);
	*fault = (struct tt_fault){ .result = TUTTI_ERR_PEER_LOST, .rank = e->rank };
	snprintf(
		fault->text, sizeof(fault->text),
		"rank %d lost its control connections with all that it has (ranks %s) at once, and none of them died as far as it sees: "
		"something on its host, or on the way from there, ended them; look at the host's network and firewall",
		e->rank, ranks);
}
