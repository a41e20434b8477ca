/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a key: of a config, of TUTTI_KEY, and of the file TUTTI_KEY_FILE. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "key_read.h"
#include "log.h"

static void check(tutti_result_t result, const struct tt_key *key, const char *text)
{
	uint8_t bits = 0;

	FUZZ_PROMISE(result == TUTTI_OK || result == TUTTI_ERR_INVALID);
	for (int i = 0; i < TT_KEY_BYTES; i++)
		bits |= key->bytes[i];
	if (result) {
		FUZZ_PROMISE(!key->set && !bits && tt_thread_error()[0]);
		/* a wrong key is nearly a right one */
		FUZZ_PROMISE(strlen(text) < 8 || !strstr(tt_thread_error(), text));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	char *text = calloc(size + 1, 1);
	struct tt_key given, configured, filed;

	if (fd < 0) {
		fd = memfd_create("key", MFD_CLOEXEC);
		FUZZ_PROMISE(fd >= 0 && fchmod(fd, 0600) == 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	FUZZ_PROMISE(text && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	memcpy(text, data, size);
	setenv("TUTTI_KEY", text, 1);
	unsetenv("TUTTI_KEY_FILE");
	const tutti_result_t result = tt_key_read(NULL, 0, &given);
	check(result, &given, text);
	unsetenv("TUTTI_KEY");
	if (*text) {
		FUZZ_PROMISE(tt_key_read(text, 0, &configured) == result);
		FUZZ_PROMISE(memcmp(configured.bytes, given.bytes, TT_KEY_BYTES) == 0);
	}
	setenv("TUTTI_KEY_FILE", path, 1);
	check(tt_key_read(NULL, 0, &filed), &filed, text);
	FUZZ_PROMISE(!given.set || strlen(text) != size ||
		     memcmp(filed.bytes, given.bytes, TT_KEY_BYTES) == 0);
	free(text);
	return 0;
}
