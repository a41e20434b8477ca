/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of an input file. zlib reads plain files as they are. */
#include "batches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "bits.h"

enum {
	FIRST_ROOM = 1 << 16,
	READ_MAX = 1 << 20,
	MARKS = 16,	  /* a file's places that tell it from others … */
	MARK_BYTES = 4096 /* … and how much is at each */
};

/* `most`: what is ever needed. */
static bool grow(struct input *input, size_t *capacity, size_t most)
{
	const size_t twice = *capacity ? 2 * *capacity : FIRST_ROOM,
		     wanted = twice < most ? twice : most;
	char *bytes = realloc(input->bytes, wanted);

	if (!bytes)
		return why_no_memory(input->path);
	input->bytes = bytes;
	*capacity = wanted;
	return true;
}

/* gzread() reports a stream that ends early only by gzerror(), after handing out what it had. */
static bool check_end(gzFile file, const struct input *input, int got)
{
	int code = Z_OK;
	const char *text = gzerror(file, &code), *cause = strstr(text, ": ");

	if (got >= 0 && code == Z_OK)
		return true;
	if (code == Z_ERRNO)
		return why_set(TUTTI_ERR_SYSTEM, "%s: read failed after %zu bytes: %s", input->path,
			       input->length, strerror(errno));
	if (code == Z_BUF_ERROR)
		return why_set(
			TUTTI_ERR_INVALID,
			"%s: truncated: the gzip stream ends early, after %zu bytes of content; "
			"fetch the file again",
			input->path, input->length);
	return why_set(
		TUTTI_ERR_INVALID,
		"%s: corrupt gzip stream after %zu bytes of content (%s); fetch the file again",
		input->path, input->length, cause ? cause + 2 : text); /* behind "<fd:4>" */
}

static bool refuse_length(const char *path, size_t most)
{
	return why_set(
		TUTTI_ERR_INVALID,
		"%s: found more than %zu bytes of content, expected at most as many; if the file is what it should be and memory allows, "
		"raise --data-limit",
		path, most);
}

static bool read_all(gzFile file, size_t most, struct input *input)
{
	size_t capacity = 0;
	int got = 1;

	while (got > 0) {
		if (capacity - input->length < 2) { /* a byte, and the zero behind the last */
			if (!grow(input, &capacity, most + 2))
				return false;
		}
		const size_t left = capacity - input->length - 1;

		got = gzread(file, input->bytes + input->length,
			     left < READ_MAX ? (unsigned)left : READ_MAX);
		if (got > 0)
			input->length += (size_t)got;
		if (input->length > most)
			return refuse_length(input->path, most);
	}
	input->bytes[input->length] = '\0';
	return check_end(file, input, got);
}

/* A directory would only fail later, and less clearly, and a pipe not at all: opening one does
 * not wait for its other end here. */
static bool open_regular(const char *path, int *fd)
{
	struct stat status;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0)
		return why_set(TUTTI_ERR_SYSTEM,
			       "%s: cannot be read: %s; give a file that exists and can be read",
			       path, strerror(errno));
	if (fstat(*fd, &status) == 0 && S_ISREG(status.st_mode))
		return true;
	close(*fd);
	return why_set(TUTTI_ERR_INVALID, "%s: is not a regular file; give one", path);
}

bool input_read(const char *path, size_t most, struct input *out)
{
	struct input input = { .path = path };
	int fd;
	bool ok = open_regular(path, &fd);

	if (!ok)
		return false;
	const gzFile file = gzdopen(fd, "rb");

	if (!file) {
		close(fd);
		return why_no_memory(path);
	}
	ok = read_all(file, most, &input);
	gzclose(file);
	if (!ok) {
		input_finish(&input);
		return false;
	}
	*out = input;
	return true;
}

/* All of `count` bytes, unless the file ends before. */
static bool read_range(int fd, size_t first, size_t count, struct input *input)
{
	char *bytes = realloc(input->bytes, input->length + count + 1);
	size_t got = 0;

	if (!bytes)
		return why_no_memory(input->path);
	input->bytes = bytes;
	while (got < count) {
		const ssize_t some =
			pread(fd, bytes + input->length + got, count - got, (off_t)(first + got));

		if (some < 0 && errno == EINTR)
			continue;
		if (some < 0)
			return why_set(TUTTI_ERR_SYSTEM, "%s: read failed at byte %zu: %s",
				       input->path, first + got, strerror(errno));
		if (some == 0)
			break;
		got += (size_t)some;
	}
	input->length += got;
	bytes[input->length] = '\0';
	return true;
}

/* The same for the same file: of its length, and of what is at some places. */
static uint64_t mark_of(int fd, size_t length)
{
	uint64_t mark = hash_word(0, length);
	unsigned char some[MARK_BYTES];

	for (size_t i = 0; i <= MARKS; i++) {
		const size_t last = length > sizeof(some) ? length - sizeof(some) : 0;
		const ssize_t got = pread(fd, some, sizeof(some), (off_t)(last / MARKS * i));

		if (got > 0)
			mark = hash_bytes(mark, some, (size_t)got);
	}
	return mark;
}

static bool open_plain(const char *path, int *fd, size_t *length)
{
	const bool ok = open_regular(path, fd);
	unsigned char magic[2] = { 0 };
	struct stat status;

	if (!ok)
		return false;
	const bool read = fstat(*fd, &status) == 0 && pread(*fd, magic, 2, 0) >= 0;
	const int error = errno;

	if (read && !(magic[0] == 0x1f && magic[1] == 0x8b)) {
		*length = (size_t)status.st_size;
		return true;
	}
	close(*fd);
	if (!read)
		return why_set(TUTTI_ERR_SYSTEM, "%s: cannot be read: %s", path, strerror(error));
	return why_set(TUTTI_ERR_UNSUPPORTED,
		       "%s: found a gzip stream with --shard, which can only be read from its "
		       "beginning; unpack it, or leave --shard out",
		       path);
}

bool input_read_bytes(const char *path, size_t first, size_t count, struct input *out, size_t *all)
{
	struct input input = { .path = path, .part = true, .begins = first };
	int fd;
	bool ok = open_plain(path, &fd, all);

	if (!ok)
		return false;
	ok = read_range(fd, first, count, &input);
	input.mark = mark_of(fd, *all);
	close(fd);
	if (!ok) {
		input_finish(&input);
		return false;
	}
	*out = input;
	return true;
}

static bool refuse_shorter(const char *path)
{
	return why_set(TUTTI_ERR_INVALID, "%s: it became shorter while it was read", path);
}

/* Until the line has ended that the last byte is of. */
static bool read_line_end(int fd, size_t at, size_t length, size_t most, struct input *input)
{
	bool ok = true;
	size_t seen = input->length > 0 ? input->length - 1 : 0;

	while (ok && at < length && !memchr(input->bytes + seen, '\n', input->length - seen)) {
		const size_t before = input->length;

		if (before > most)
			return refuse_length(input->path, most);
		ok = read_range(fd, at, FIRST_ROOM, input);
		if (ok && input->length == before)
			return refuse_shorter(input->path);
		seen = before;
		at += input->length - before;
	}
	return ok;
}

/* The bytes begin with one before the part, unless this is at the file's beginning: a line that begins
 * with the part has its end before it. */
static void cut_lines(struct input *input, size_t begin, size_t part)
{
	const size_t before = begin > 0;
	const char *const first = before ? memchr(input->bytes, '\n', input->length) : input->bytes;
	size_t from = first ? (size_t)(first - input->bytes) + before : input->length, to = from;

	if (from <
	    before + part) { /* one begins here, and they end with the line of its last byte */
		const char *last = memchr(input->bytes + before + part - 1, '\n',
					  input->length - (before + part - 1));

		to = last ? (size_t)(last - input->bytes) + 1 : input->length;
	}
	memmove(input->bytes, input->bytes + from, to - from);
	input->length = to - from;
	input->bytes[input->length] = '\0';
	input->begins = begin - before + from;
}

bool input_read_lines(const char *path, struct data_part part, size_t most, struct input *out)
{
	struct input input = { .path = path, .part = true };
	size_t length;
	int fd;
	bool ok = open_plain(path, &fd, &length);

	if (!ok)
		return false;
	const struct slice mine = slice_of(length, part.index, part.count);
	const size_t before = mine.first > 0;

	ok = mine.count > most ? refuse_length(path, most)
			       : read_range(fd, mine.first - before, mine.count + before, &input);
	if (ok && input.length < mine.count + before)
		ok = refuse_shorter(path);
	ok = ok && read_line_end(fd, mine.first + mine.count, length, most, &input);
	input.mark = mark_of(fd, length);
	close(fd);
	if (!ok) {
		input_finish(&input);
		return false;
	}
	cut_lines(&input, mine.first, mine.count);
	*out = input;
	return true;
}

void input_finish(struct input *input)
{
	free(input->bytes);
	input->bytes = NULL;
	input->length = 0;
}
