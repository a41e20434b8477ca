/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory of a test's own, and files in it. */
#ifndef TRAIN_FILES_H
#define TRAIN_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/tmp/tutti-train-XXXXXX";

static int make_directory(void **state)
{
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	return rmdir(directory);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%.80s", directory, name);
	return path;
}

static inline void write_file(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

#endif
