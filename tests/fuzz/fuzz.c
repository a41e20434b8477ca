/* SPDX-License-Identifier: BSD-3-Clause */
/* What fuzzers share. */
#include "fuzz.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "printable.h"

void fuzz_be_quiet(void)
{
	FILE *nowhere = fopen("/dev/null", "we");

	FUZZ_PROMISE(nowhere);
	stderr = nowhere;
}

struct fuzz_in fuzz_cut(struct fuzz_in *in, size_t bytes)
{
	const struct fuzz_in cut = { in->at, bytes < in->left ? bytes : in->left };

	in->at += cut.left;
	in->left -= cut.left;
	return cut;
}

size_t fuzz_take(struct fuzz_in *in, void *out, size_t bytes)
{
	const struct fuzz_in there = fuzz_cut(in, bytes);

	memset(out, 0, bytes);
	if (there.left)
		memcpy(out, there.at, there.left);
	return there.left;
}

bool fuzz_next(struct fuzz_in *in, struct fuzz_piece *out)
{
	uint8_t head[2];

	if (in->left < sizeof(head))
		return false;
	fuzz_take(in, head, sizeof(head));
	const struct fuzz_in bytes = fuzz_cut(in, head[1]);
	*out = (struct fuzz_piece){ head[0], head[1], bytes.at, bytes.left };
	return true;
}

void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *copy = malloc(size + !size);

	FUZZ_PROMISE(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = calloc(size + 1, 1);

	FUZZ_PROMISE(text);
	if (size)
		memcpy(text, data, size);
	return text;
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];

	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		FUZZ_PROMISE(fd >= 0 && fchmod(fd, 0600) == 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	FUZZ_PROMISE(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	return path;
}

void fuzz_promise_text(const char *text, size_t capacity)
{
	char *shown = strndup(text, capacity);

	FUZZ_PROMISE(shown && strlen(shown) < capacity && strcmp(tt_printable(shown), text) == 0);
	free(shown);
}

int fuzz_descriptors(void)
{
	struct pollfd all[256];
	int count = 0;

	for (int i = 0; i < 256; i++)
		all[i] = (struct pollfd){ .fd = i };
	FUZZ_PROMISE(poll(all, 256, 0) >= 0);
	for (int i = 0; i < 256; i++)
		count += !(all[i].revents & POLLNVAL);
	return count;
}
