/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory of a test's own, files in it, and what comes of samples that are read. */
#ifndef TRAIN_FILES_H
#define TRAIN_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data.h"

#define MOST (1 << 20) /* bytes of content that a file may have */

/* IDX: two samples of two bytes each, and their labels. */
static const char two_images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2, 3, -1 };
static const char two_labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 0 };

static char directory[] = "/tmp/tutti-train-XXXXXX";

static int make_directory(void **state)
{
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	return rmdir(directory);
}

/* It stays until seven others have been asked for. */
static inline const char *path_of(const char *name)
{
	static char paths[8][128];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%.80s", directory, name);
	return path;
}

static inline void write_file(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static inline const char *file_with(const char *name, const void *bytes, size_t length)
{
	const char *path = path_of(name);

	write_file(path, bytes, length);
	return path;
}

static inline const char *text_file(const char *name, const char *text)
{
	return file_with(name, text, strlen(text));
}

/* Samples, or why there are none. */
struct reading {
	bool ok;
	struct data data;
};

static inline struct reading read_source(const struct data_source *source)
{
	struct reading r;

	r.ok = data_read(source, &r.data);
	return r;
}

static inline struct data well(struct reading r)
{
	if (!r.ok)
		fail_msg("refused: %s", why.text);
	return r.data;
}

static inline void refused_as(tutti_result_t result, struct reading r, const char *error_text)
{
	assert_false(r.ok);
	assert_int_equal(why.result, result);
	assert_says(why.text, error_text);
	assert_null(r.data.x);
}

static inline void refused(struct reading r, const char *error_text)
{
	refused_as(TUTTI_ERR_INVALID, r, error_text);
}

#endif
