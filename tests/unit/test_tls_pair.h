/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of TLS with the wire between them in the test's hands: it carries as many bytes at a
 * time as asked for, keeps what it carried, and may change a byte. */
#ifndef TEST_TLS_PAIR_H
#define TEST_TLS_PAIR_H

#include <sys/socket.h>

#include "tutti_asserts.h"
#include "log.h"
#include "tls.h"

#define PIECE_MAX 65536
#define PATTERN	  "these words are for the other rank alone"

static const struct tt_key ours = { .set = true, .bytes = { 1, 2, 3 }, .encrypt = true };

struct end {
	int fd, connection; /* this end's socket, and the wire's end of it */
	struct tt_tls *tls;
	struct tt_tls_stream *stream;
	tutti_result_t result; /* of the handshake */
	char why[TT_ERROR_MAX];
};

/* What was taken from one end and not given to the other. */
struct hand {
	uint8_t bytes[PIECE_MAX];
	size_t begin, end;
};

struct pair {
	struct end end[2]; /* 0 dials */
	struct hand hand[2];
	size_t piece;  /* bytes that the wire carries at a time */
	uint8_t *seen; /* all that it has carried */
	size_t seen_bytes, seen_capacity;
};

/* A connection of the kernel's, both ends non-blocking: AF_UNIX, or AF_INET by loopback. */
void open_sockets(int domain, int fds[2]);

/* `domain`: of each end's sockets; an end without a key is one without TLS. */
void pair_open(struct pair *p, const int domain[2], const struct tt_key *dialer,
	       const struct tt_key *listener);
void pair_close(struct pair *p);

/* Carry what is there from each end to the other; false: nothing was. Bytes for which there is
 * no room stay in hand. */
bool carry(struct pair *p);
/* Until there is something to carry or to read; what went over TCP may be a moment on its way. */
void wait_for_bytes(const struct pair *p);
/* What one end has to do for the handshake. */
void step(struct end *end);

ssize_t write_bytes(struct end *end, const void *bytes, size_t length);
ssize_t read_bytes(struct end *end, void *bytes, size_t length);
bool seen(const struct pair *p, const char *text);

/* Megabytes both ways at once, in cards and payloads, over a wire that takes little at a time;
 * they arrive as they were. */
void pass_long_streams(struct pair *p);

#endif
