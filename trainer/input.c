/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of an input file. zlib reads plain files as they are. */
#include "data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { FIRST_ROOM = 1 << 16, READ_MAX = 1 << 20 };

/* `most`: what is ever needed. */
static tutti_result_t grow(struct input *input, size_t *capacity, size_t most, struct why *why)
{
	const size_t twice = *capacity ? 2 * *capacity : FIRST_ROOM,
		     wanted = twice < most ? twice : most;
	char *bytes = realloc(input->bytes, wanted);

	if (!bytes)
		return why_no_memory(why, input->path);
	input->bytes = bytes;
	*capacity = wanted;
	return TUTTI_OK;
}

/* gzread() reports a stream that ends early only by gzerror(), after handing out what it had. */
static tutti_result_t check_end(gzFile file, const struct input *input, int got, struct why *why)
{
	int code = Z_OK;
	const char *text = gzerror(file, &code);

	if (got >= 0 && code == Z_OK)
		return TUTTI_OK;
	if (code == Z_ERRNO)
		return why_set(why, TUTTI_ERR_SYSTEM, "%s: read failed after %zu bytes: %s",
			       input->path, input->length, strerror(errno));
	if (code == Z_BUF_ERROR)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"%s: truncated: the gzip stream ends early, after %zu bytes of content; "
			"fetch the file again",
			input->path, input->length);
	return why_set(
		why, TUTTI_ERR_INVALID,
		"%s: corrupt gzip stream after %zu bytes of content (%s); fetch the file again",
		input->path, input->length, text);
}

static tutti_result_t refuse_length(const char *path, size_t most, struct why *why)
{
	return why_set(
		why, TUTTI_ERR_INVALID,
		"%s: found more than %zu bytes of content, expected at most as many; if the file is what it should be and memory allows, "
		"raise --data-limit",
		path, most);
}

static tutti_result_t read_all(gzFile file, size_t most, struct input *input, struct why *why)
{
	size_t capacity = 0;
	int got = 1;

	while (got > 0) {
		if (capacity - input->length < 2) { /* a byte, and the zero behind the last */
			const tutti_result_t result = grow(input, &capacity, most + 2, why);

			if (result != TUTTI_OK)
				return result;
		}
		const size_t left = capacity - input->length - 1;

		got = gzread(file, input->bytes + input->length,
			     left < READ_MAX ? (unsigned)left : READ_MAX);
		if (got > 0)
			input->length += (size_t)got;
		if (input->length > most)
			return refuse_length(input->path, most, why);
	}
	input->bytes[input->length] = '\0';
	return check_end(file, input, got, why);
}

/* A directory would only fail later, and less clearly, and a pipe not at all: opening one does
 * not wait for its other end here. */
static tutti_result_t open_regular(const char *path, int *fd, struct why *why)
{
	struct stat status;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0)
		return why_set(why, TUTTI_ERR_SYSTEM,
			       "%s: cannot be read: %s; give a file that exists and can be read",
			       path, strerror(errno));
	if (fstat(*fd, &status) == 0 && S_ISREG(status.st_mode))
		return TUTTI_OK;
	close(*fd);
	return why_set(why, TUTTI_ERR_INVALID, "%s: is not a regular file; give one", path);
}

tutti_result_t input_read(const char *path, size_t most, struct input *out, struct why *why)
{
	struct input input = { .path = path };
	int fd;
	tutti_result_t result = open_regular(path, &fd, why);

	if (result != TUTTI_OK)
		return result;
	const gzFile file = gzdopen(fd, "rb");
	if (!file) {
		close(fd);
		return why_no_memory(why, path);
	}
	result = read_all(file, most, &input, why);
	gzclose(file);
	if (result != TUTTI_OK) {
		input_finish(&input);
		return result;
	}
	*out = input;
	return TUTTI_OK;
}

void input_finish(struct input *input)
{
	free(input->bytes);
	input->bytes = NULL;
	input->length = 0;
}
