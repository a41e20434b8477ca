/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of an input file. zlib reads plain files as they are. */
#include "batches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "bits.h"

enum {
	READ_LEAST = 1 << 16,
	READ_MOST = 1 << 30, /* an int has the length */
	MARKS = 16,	     /* a file's places that tell it from others … */
	MARK_BYTES = 4096    /* … and how much is at each */
};

/* gzread() reports a stream that ends early only by gzerror(), after handing out what it had. */
static bool check_stream(const struct input *input)
{
	int code = Z_OK;
	const char *text = gzerror(input->file, &code), *cause = strstr(text, ": ");

	if (code == Z_OK)
		return true;
	if (code == Z_ERRNO)
		return why_set(TUTTI_ERR_SYSTEM, "%s: read failed after %zu bytes: %s", input->path,
			       input->length, strerror(errno));
	if (code == Z_BUF_ERROR)
		return data_refuse(input->path,
				   "truncated: the gzip stream ends early, after %zu bytes of "
				   "content; fetch the file again",
				   input->length);
	return data_refuse(input->path,
			   "corrupt gzip stream after %zu bytes of content (%s); fetch the file "
			   "again",
			   input->length, cause ? cause + 2 : text); /* behind "<fd:4>" */
}

static bool refuse_length(const struct input *input)
{
	return data_refuse(input->path,
			   "found more than %zu bytes of content, expected at most as many; if "
			   "the file is what it should be and memory allows, raise --data-limit",
			   input->most);
}

/* Up to `count` bytes more, as many at a time as there are already: so each is moved about once. */
static bool read_on(struct input *input, size_t count)
{
	int got = 1;

	while (got > 0) {
		const size_t least = input->length > READ_LEAST ? input->length : READ_LEAST,
			     most = least < READ_MOST ? least : READ_MOST,
			     some = count < most ? count : most;
		char *bytes = realloc(input->bytes, input->length + some + 1);

		if (!bytes)
			return why_no_memory(input->path);
		input->bytes = bytes;
		got = gzread(input->file, bytes + input->length, (unsigned)some);
		input->length += got > 0 ? (size_t)got : 0;
		count -= got > 0 ? (size_t)got : 0;
	}
	input->bytes[input->length] = '\0';
	return check_stream(input);
}

/* The same for the same file: of its length, and of what is at some places. */
static uint64_t mark_of(const struct input *input)
{
	const size_t last = input->all > MARK_BYTES ? input->all - MARK_BYTES : 0;
	uint64_t mark = hash_word(0, input->all);
	unsigned char some[MARK_BYTES];

	for (size_t i = 0; i <= MARKS; i++) {
		gzseek(input->file, (off_t)(last / MARKS * i), SEEK_SET);
		const int got = gzread(input->file, some, sizeof(some));

		mark = hash_bytes(mark, some, got > 0 ? (size_t)got : 0);
	}
	return mark;
}

/* A directory would only fail later, and less clearly, and a pipe not at all: opening one does
 * not wait for its other end here. */
static bool open_file(const char *path, struct data_part part, size_t most, struct input *out)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	*out = (struct input){ .path = path, .part = part, .most = most };
	if (fd < 0)
		return why_set(TUTTI_ERR_SYSTEM,
			       "%s: cannot be read: %s; give a file that exists and can be read",
			       path, strerror(errno));
	out->file = gzdopen(fd, "rb");
	if (!out->file) {
		close(fd);
		return why_no_memory(path);
	}
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return data_refuse(path, "is not a regular file; give one");
	if (most == INPUT_PLAIN && !gzdirect(out->file))
		return data_refuse(path, "found a gzip stream, expected the file as it was "
					 "written; unpack it");
	if (part.count == 1)
		return true;
	if (!gzdirect(out->file))
		return why_set(TUTTI_ERR_UNSUPPORTED,
			       "%s: found a gzip stream with --shard, which can only be read from "
			       "its beginning; unpack it, or leave --shard out",
			       path);
	out->all = (size_t)status.st_size;
	out->mark = mark_of(out);
	return check_stream(out);
}

/* `count` bytes from `first` on, behind those that are there. */
static bool add(struct input *input, size_t first, size_t count)
{
	const size_t before = input->length;

	if (gzseek(input->file, (off_t)first, SEEK_SET) >= 0 && !read_on(input, count))
		return false;
	return input->length - before == count ||
	       data_refuse(input->path, "it became shorter while it was read");
}

/* The beginning of the first line behind the head that begins at `at` or behind it; else the end of
 * the file. */
static size_t line_from(const struct input *input, size_t at)
{
	int byte = 0;

	at = at > input->head ? at : input->head;
	gzseek(input->file, at > 0 ? (off_t)at - 1 : 0, SEEK_SET);
	while (at > 0 && byte != '\n' && byte >= 0)
		byte = gzgetc(input->file);
	return (size_t)gztell(input->file);
}

/* The head is the first two lines, which are of the first part. */
static bool find_lines(struct input *input)
{
	const struct slice mine = slice_of(input->all, input->part.index, input->part.count);

	input->head = line_from(input, line_from(input, 1) + 1);
	input->begins = line_from(input, mine.first);
	input->ends = line_from(input, mine.first + mine.count);
	return check_stream(input);
}

static bool read_part(struct input *input)
{
	if (!add(input, 0, input->all < IDX_HEADER_MOST ? input->all : IDX_HEADER_MOST) ||
	    !(idx_looks_like(input) ? idx_find : find_lines)(input))
		return false;
	const size_t count = input->ends - input->begins;

	input->length = 0;
	return (input->head + count <= input->most || refuse_length(input)) &&
	       add(input, 0, input->head) && add(input, input->begins, count);
}

bool input_read(const char *path, struct data_part part, size_t most, struct input *out)
{
	if (!open_file(path, part, most, out))
		return false;
	if (part.count > 1)
		return read_part(out);
	if (most == INPUT_PLAIN)
		return read_on(out, SIZE_MAX);
	return read_on(out, most + 1) && (out->length <= most || refuse_length(out));
}

size_t input_lines_left_out(const struct input *input)
{
	size_t lines = 0;

	gzseek(input->file, (off_t)input->head, SEEK_SET);
	for (size_t at = input->head; at < input->begins; at++)
		lines += gzgetc(input->file) == '\n';
	return lines;
}

bool input_ends_blank(const struct input *input)
{
	int before, byte = '\n';

	if (input->ends == input->all)
		return true;
	gzseek(input->file, (off_t)input->ends, SEEK_SET);
	do {
		before = byte;
		byte = gzgetc(input->file);
	} while (byte == '\n' || (byte == '\r' && before == '\n'));
	return byte < 0;
}

void input_finish(struct input *input)
{
	if (input->file)
		gzclose(input->file);
	free(input->bytes);
	*input = (struct input){ 0 };
}
