/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection that is encrypted, with somebody on the way to one of its ends: what the other end
 * said arrives changed, in part, not at all, or behind what it never said, during the handshake and
 * after it; and an end that has nobody behind it but a stranger. The input: what:1, then what is
 * done to the way, one by one: how:1 length:1, and `length` bytes to change or to insert. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "log.h"
#include "tls.h"

enum {
	DIALS = 1,
	OTHER_KEY = 2,
	SHAKEN = 4
}; /* the end at the stranger's mercy; the other end; both, to begin with */
enum how { CARRY, CHANGE, INSERT, LOSE, SPEAK, END, HOWS };
enum { PIECE = 65536 };

struct end {
	int fd, connection; /* its socket, and the way's end of it */
	struct tt_tls_stream *stream;
	tutti_result_t result; /* of the handshake */
	bool over;	       /* nothing more is to come */
	size_t written, read;
};

struct pair {
	struct end victim, other;
	bool heard; /* the victim, of the other end */
};

static struct tt_tls *ours, *theirs;

static void begin(void)
{
	static const struct tt_key key = { .set = true, .bytes = { 1, 2, 3 }, .encrypt = true };
	static const struct tt_key another = { .set = true, .bytes = { 1, 2, 4 }, .encrypt = true };

	if (ours)
		return;
	FUZZ_PROMISE(tt_tls_open(&key, "fuzzed connections", &ours) == TUTTI_OK &&
		     tt_tls_open(&another, "fuzzed connections", &theirs) == TUTTI_OK);
}

static void open_end(struct end *end, struct tt_tls *tls, bool dials)
{
	int fds[2];

	FUZZ_PROMISE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	*end = (struct end){ .fd = fds[0], .connection = fds[1], .result = TUTTI_IN_PROGRESS };
	FUZZ_PROMISE(tt_tls_stream_open(tls, end->fd, dials, -1, &end->stream) == TUTTI_OK);
}

static void close_end(struct end *end)
{
	tt_tls_stream_close(end->stream);
	close(end->fd);
	close(end->connection);
}

static void shake(struct end *end)
{
	if (end->result != TUTTI_IN_PROGRESS)
		return;
	end->result = tt_tls_handshake(end->stream);
	FUZZ_PROMISE(end->result >= 0 || tt_thread_error()[0]);
	end->over = end->result < 0;
	if (end->over)
		shutdown(end->fd, SHUT_WR);
}

/* What each end says is the same bytes, from the first. */
static uint8_t byte_at(size_t at)
{
	return (uint8_t)(at * 31 + at / 251);
}

static void speak(struct end *end, size_t length)
{
	uint8_t bytes[2048];
	const struct iovec iov[] = { { bytes, length / 2 },
				     { bytes + length / 2, length - length / 2 } };

	if (end->result != TUTTI_OK)
		return;
	for (size_t i = 0; i < length; i++)
		bytes[i] = byte_at(end->written + i);
	const ssize_t n = tt_tls_write(end->stream, iov, 2);

	FUZZ_PROMISE(n <= (ssize_t)length);
	end->written += n > 0 ? (size_t)n : 0;
}

/* Nothing but what the other end wrote, in its order; and nothing behind the end of it. */
static void hear(struct end *end, const struct end *from)
{
	uint8_t bytes[1000];
	const struct iovec iov = { bytes, sizeof(bytes) };
	ssize_t n;

	if (end->result != TUTTI_OK)
		return;
	while ((n = tt_tls_read(end->stream, &iov, 1)) > 0) {
		FUZZ_PROMISE(!end->over && (size_t)n <= sizeof(bytes) &&
			     end->read + (size_t)n <= from->written);
		for (ssize_t i = 0; i < n; i++)
			FUZZ_PROMISE(bytes[i] == byte_at(end->read + (size_t)i));
		end->read += (size_t)n;
	}
	end->over |= n == 0 || errno != EAGAIN;
}

/* From the wire of one end to that of another, at most `most` bytes, some of which are changed;
 * false: nothing was there. */
static bool carry(const struct end *from, const struct end *to, size_t most, const uint8_t *mask)
{
	uint8_t bytes[PIECE];
	const ssize_t n = recv(from->connection, bytes, most, 0);

	for (ssize_t i = 0; mask && i < n; i++)
		bytes[i] ^= mask[i];
	return n > 0 && send(to->connection, bytes, (size_t)n, MSG_NOSIGNAL) >= 0;
}

static void look(struct pair *p, bool key)
{
	shake(&p->victim);
	hear(&p->victim, &p->other);
	speak(&p->victim, 10);
	carry(&p->victim, &p->other, PIECE, NULL);
	shake(&p->other);
	hear(&p->other, &p->victim);
	/* without the key nobody gets through, and neither does who says nothing */
	FUZZ_PROMISE(p->victim.result != TUTTI_OK || (key && p->heard));
	FUZZ_PROMISE(p->other.result != TUTTI_OK || key);
}

static void shake_hands(struct pair *p)
{
	p->heard = true;
	do
		look(p, true);
	while (carry(&p->other, &p->victim, PIECE, NULL));
	FUZZ_PROMISE(p->victim.result == TUTTI_OK && p->other.result == TUTTI_OK);
}

/* Bytes of the input that it has used. */
static size_t meddle(struct pair *p, enum how how, const uint8_t *bytes, size_t size, size_t length)
{
	uint8_t lost[256];

	length = length < size || how == CARRY || how == LOSE || how == SPEAK ? length : size;
	p->heard |= how == CARRY || how == CHANGE;
	switch (how) {
	case CARRY: carry(&p->other, &p->victim, length, NULL); break;
	case CHANGE: carry(&p->other, &p->victim, length, bytes); break;
	case INSERT: send(p->victim.connection, bytes, length, MSG_NOSIGNAL); break;
	case LOSE: recv(p->other.connection, lost, length, 0); break;
	case SPEAK: speak(&p->other, 8 * length); break;
	default: shutdown(p->victim.connection, SHUT_WR);
	}
	return how == CHANGE || how == INSERT ? length : 0;
}

FUZZ(tls)
{
	struct pair p = { 0 };

	if (size == 0)
		return;
	begin();
	const int before = fuzz_descriptors();
	const bool dials = data[0] & DIALS, key = !(data[0] & OTHER_KEY);

	open_end(&p.victim, ours, dials);
	open_end(&p.other, key ? ours : theirs, !dials);
	if (key && (data[0] & SHAKEN))
		shake_hands(&p);
	look(&p, key);
	data++;
	size--;
	while (size >= 2) {
		const size_t used = 2 + meddle(&p, data[0] % HOWS, data + 2, size - 2, data[1]);

		look(&p, key);
		data += used;
		size -= used;
	}
	close_end(&p.victim);
	close_end(&p.other);
	FUZZ_PROMISE(fuzz_descriptors() == before);
}
