/* SPDX-License-Identifier: BSD-3-Clause */
/* The reports of flight recorders that tutti-trace reads: up to three, one after another with a
 * zero byte between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "analysis.h"

#define FILES 3

static FILE *nowhere;

/* What is said of files that are none, and of jobs, is not looked at. */
static void be_silent(void)
{
	if (nowhere)
		return;
	nowhere = fopen("/dev/null", "we");
	FUZZ_PROMISE(nowhere);
	stderr = nowhere;
}

static void read_part(struct flights *flights, const uint8_t *data, size_t size)
{
	const int fd = memfd_create("report", MFD_CLOEXEC);
	const size_t before = flights->n + flights->nexits, useless = flights->unreadable;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	FUZZ_PROMISE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	flights_read(flights, path);
	FUZZ_PROMISE(flights->n + flights->nexits + flights->unreadable == before + useless + 1);
	close(fd);
}

/* Nothing in it is for a terminal to act on. */
static void print_analysis(const struct flights *flights)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	FUZZ_PROMISE(out);
	analysis_print(out, flights);
	FUZZ_PROMISE(fclose(out) == 0);
	for (size_t i = 0; i < length; i++)
		FUZZ_PROMISE(text[i] == '\n' || ((unsigned char)text[i] >= ' ' && text[i] != 0x7f));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flights flights = { 0 };

	be_silent();
	for (int i = 0; i < FILES && size > 0; i++) {
		const uint8_t *end = memchr(data, 0, size);
		const size_t length = end ? (size_t)(end - data) : size;

		read_part(&flights, data, length);
		data += length + (end != NULL);
		size -= length + (end != NULL);
	}
	if (flights_select(&flights, NULL)) {
		flights_arrange(&flights);
		print_analysis(&flights);
		FUZZ_PROMISE(chrome_write(&flights, "/dev/null"));
	}
	flights_finish(&flights);
	return 0;
}
