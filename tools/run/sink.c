/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way of lines and bytes to a descriptor that may be slow.
 *
 * The descriptor is shared with others (the shell's terminal), so it stays blocking: a write
 * follows only on poll() and is no longer than what a ready pipe takes at once. The live line is
 * written by sink_flush() alone, after all complete lines, and erased before the next one. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sink.h"

enum { CONGESTED_BYTES = 1 << 20, DEFAULT_COLUMNS = 80 };

static const char erase_line[] = "\r\033[K";

void sink_init(struct sink *sink, int fd)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	const bool terminal = isatty(fd);

	*sink = (struct sink){ .fd = fd, .terminal = terminal };
	sink->colour =
		terminal && !(no_colour && *no_colour) && !(term && strcmp(term, "dumb") == 0);
}

void sink_finish(struct sink *sink)
{
	free(sink->queue);
	free(sink->live);
}

bool sink_reserve(char **bytes, size_t *capacity, size_t needed)
{
	size_t more = *capacity ? *capacity : 256;
	char *grown;

	while (more < needed)
		more *= 2;
	if (more == *capacity)
		return true;
	grown = realloc(*bytes, more);
	if (!grown)
		return false;
	*bytes = grown;
	*capacity = more;
	return true;
}

void sink_lose(struct sink *sink)
{
	sink->error = ENOMEM;
}

void sink_bytes(struct sink *sink, const char *text, size_t length)
{
	if (length == 0 || sink->broken)
		return;
	if (sink->head > 0 && sink->head + sink->length + length > sink->capacity) {
		memmove(sink->queue, sink->queue + sink->head, sink->length);
		sink->head = 0;
	}
	if (!sink_reserve(&sink->queue, &sink->capacity, sink->head + sink->length + length)) {
		sink_lose(sink);
		return;
	}
	memcpy(sink->queue + sink->head + sink->length, text, length);
	sink->length += length;
	sink->midline = text[length - 1] != '\n';
}

static void hide_live(struct sink *sink)
{
	if (!sink->live_shown)
		return;
	sink_bytes(sink, erase_line, sizeof(erase_line) - 1);
	sink->live_shown = false;
	sink->midline = false;
}

void sink_line(struct sink *sink, const char *prefix, const char *text, size_t length)
{
	hide_live(sink);
	if (sink->midline)
		sink_bytes(sink, "\n", 1);
	sink_bytes(sink, prefix, strlen(prefix));
	sink_bytes(sink, text, length);
	sink_bytes(sink, "\n", 1);
}

/* Bytes of `text` that fit into `columns`: continuation bytes of UTF-8 and escape sequences take
 * none. */
static size_t fitting(const char *text, size_t length, size_t columns)
{
	bool escape = false;
	size_t used = 0, i = 0;

	for (; i < length; i++) {
		const unsigned char c = (unsigned char)text[i];

		if (c == 0x1b)
			escape = true;
		else if (escape)
			escape = !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
		else if ((c & 0xc0) != 0x80 && ++used > columns)
			break;
	}
	return i;
}

static size_t columns_of(int fd)
{
	struct winsize size;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : DEFAULT_COLUMNS;
}

void sink_live(struct sink *sink, const void *owner, const char *prefix, const char *text,
	       size_t length)
{
	char *line;
	size_t prefix_length = strlen(prefix);

	if (!sink->terminal || !(line = malloc(prefix_length + length + 1)))
		return;
	memcpy(line, prefix, prefix_length);
	memcpy(line + prefix_length, text, length);
	/* a line that wraps could not be erased */
	line[fitting(line, prefix_length + length, columns_of(sink->fd) - 1)] = '\0';
	hide_live(sink);
	free(sink->live);
	sink->live = line;
	sink->live_owner = owner;
}

void sink_live_end(struct sink *sink, const void *owner)
{
	if (sink->live_owner != owner)
		return;
	hide_live(sink);
	free(sink->live);
	sink->live = NULL;
	sink->live_owner = NULL;
}

static void show_live(struct sink *sink)
{
	if (!sink->live || sink->live_shown)
		return;
	sink_bytes(sink, sink->live, strlen(sink->live));
	sink->live_shown = true;
}

void sink_break(struct sink *sink)
{
	sink->broken = true;
	sink->length = 0;
	sink->head = 0;
}

bool sink_flush(struct sink *sink)
{
	show_live(sink);
	while (sink->length > 0) {
		struct pollfd ready = { .fd = sink->fd, .events = POLLOUT };
		const size_t most = sink->length < PIPE_BUF ? sink->length : PIPE_BUF;

		if (poll(&ready, 1, 0) <= 0 || ready.revents == 0)
			return false;
		const ssize_t written = write(sink->fd, sink->queue + sink->head, most);
		if (written < 0 && (errno == EINTR || errno == EAGAIN))
			return false;
		if (written < 0) {
			if (errno != EPIPE)
				sink->error = errno;
			sink_break(sink);
			break;
		}
		sink->head += (size_t)written;
		sink->length -= (size_t)written;
	}
	sink->head = 0;
	return true;
}

bool sink_congested(const struct sink *sink)
{
	return sink->length > CONGESTED_BYTES;
}
