/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of the trainer's, plain or compressed by gzip, as a whole and in parts. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data.h"
#include "fuzz.h"

#define MOST (1u << 20) /* bytes of content */

/* Parts of lines are all of the file, one after the other. */
static void read_parts(const char *path, const uint8_t *data, size_t size)
{
	const int count = 1 + (int)(size % 5);
	struct why why = { "" };
	size_t at = 0;

	for (int i = 0; i < count; i++) {
		const struct data_part part = { i, count };
		const struct data_source idx = { .path = path, .labels = path, .most = MOST },
					 csv = { .path = path, .most = MOST };
		struct input input = { 0 };
		struct data samples = { 0 };

		if (input_read_lines(path, part, MOST, &input, &why) == TUTTI_OK) {
			FUZZ_PROMISE(input.length == 0 ||
				     (input.begins == at && input.length <= size - at &&
				      memcmp(input.bytes, data + at, input.length) == 0));
			at += input.length;
			FUZZ_PROMISE(i < count - 1 || at == size);
		} else {
			FUZZ_PROMISE(why.text[0] && !input.bytes);
			at = size; /* all parts are refused */
		}
		input_finish(&input);
		if (data_read_part(&idx, part, &samples, &why) == TUTTI_OK)
			FUZZ_PROMISE(samples.rows <= size);
		data_finish(&samples);
		if (data_read_part(&csv, part, &samples, &why) == TUTTI_OK)
			FUZZ_PROMISE(samples.rows <= size);
		data_finish(&samples);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	struct input input = { 0 };
	struct why why = { "" };

	if (fd < 0) {
		fd = memfd_create("input", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	FUZZ_PROMISE(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	if (input_read(path, MOST, &input, &why) == TUTTI_OK) {
		FUZZ_PROMISE(input.length <= MOST && input.bytes &&
			     input.bytes[input.length] == '\0');
		if (size < 2 || data[0] != 0x1f || data[1] != 0x8b) /* as it is */
			FUZZ_PROMISE(input.length == size && memcmp(input.bytes, data, size) == 0);
	} else {
		FUZZ_PROMISE(why.text[0] && !input.bytes);
	}
	input_finish(&input);
	if (size <= MOST)
		read_parts(path, data, size);
	return 0;
}
