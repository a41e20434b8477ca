/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of the trainer's, plain or compressed by gzip. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data.h"
#include "fuzz.h"

#define MOST (1u << 20) /* bytes of content */

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
	return 0;
}
