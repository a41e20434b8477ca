/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the end of streams. Bytes wait in a stream's buffer, and some file systems say only on
 * close() that there was no space for them. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int status_of_failure;
static int first_error; /* of standard output */

/* What output_flush() has not seen may have failed when the buffer was full: the stream remembers
 * that it did, and not why. */
static void check_standard_output(void)
{
	const bool failed = ferror(stdout);

	if (fclose(stdout) != 0 && !first_error)
		first_error = errno;
	else if (failed && !first_error)
		first_error = EIO;
	if (!first_error)
		return;
	fprintf(stderr, "%s: cannot write the standard output: %s; " OUTPUT_ADVICE "\n",
		program_invocation_short_name, strerror(first_error));
	_exit(status_of_failure);
}

/* For reading alone: a write fails as it does on a descriptor that is closed. */
static void open_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

bool output_flush(FILE *stream)
{
	if (fflush(stream) == 0)
		return true;
	if (stream == stdout && !first_error)
		first_error = errno;
	return false;
}

void output_begin(int failed)
{
	open_standard_streams();
	status_of_failure = failed;
	atexit(check_standard_output); /* the first is called last */
}

static bool write_all(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "we");
	int error = 0;

	if (!file)
		return false;
	if (fwrite(bytes, 1, length, file) < length || fflush(file) != 0 ||
	    (fsync(fileno(file)) < 0 && errno != EINVAL)) /* it is no file */
		error = errno;
	if (fclose(file) != 0 && !error)
		error = errno;
	errno = error;
	return !error;
}

/* Beside the old one, which it then replaces. */
static bool replace(const char *path, const void *bytes, size_t length)
{
	char *beside;
	int error = 0;

	if (asprintf(&beside, "%s.%d.tmp", path, (int)getpid()) < 0)
		return false;
	if (!write_all(beside, bytes, length) || rename(beside, path) < 0) {
		error = errno;
		unlink(beside);
	}
	free(beside);
	errno = error;
	return !error;
}

bool output_file(const char *path, const void *bytes, size_t length)
{
	char *const end = realpath(path, NULL); /* of links */
	struct stat info;
	const bool special = stat(path, &info) == 0 && !S_ISREG(info.st_mode),
		   done = special ? write_all(path, bytes, length)
				  : replace(end ? end : path, bytes, length);
	const int error = errno;

	free(end);
	errno = error;
	return done;
}
