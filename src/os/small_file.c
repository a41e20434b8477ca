/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of small files. */
#include "small_file.h"

#include <errno.h>
#include <stdio.h>

int tt_small_file_read(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");

	*out = 0;
	if (!file)
		return errno;
	errno = 0;
	const size_t bytes = fread(out, 1, size - 1, file);
	const int error = ferror(file) ? errno : bytes == 0 ? ENODATA : 0;
	out[error ? 0 : bytes] = 0;
	fclose(file);
	return error;
}
