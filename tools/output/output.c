/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the end of streams, and the way to a file that is whole or as it was.
 *
 * Bytes wait in a stream's buffer, and some file systems say only on close() that there was no
 * space for them.
 *
 * A draft of a file is written beside it, and takes its place when it is complete and on disk. It
 * is locked (flock) while it is written. One that nobody locks is of a process that was killed, and
 * is removed before the next one is made. Where a file system has no such locks, drafts that were
 * left stay. */
#include "output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
	signal(SIGXFSZ, SIG_IGN);
	atexit(check_standard_output); /* the first is called last */
}

/* ---- whole files */

static bool write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		const ssize_t n = write(fd, bytes, length);

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		if (n > 0) {
			bytes += n;
			length -= (size_t)n;
		}
	}
	return fsync(fd) == 0 || errno == EINVAL; /* it is no file */
}

/* To what is no file: a device, a pipe. */
static bool write_to(const char *path, const void *bytes, size_t length)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write_all(fd, bytes, length);
	const int error = errno;

	if (fd >= 0 && close(fd) < 0)
		return false;
	errno = error;
	return done;
}

/* A file that is to come in the place of another, which is beside it. */
struct draft {
	DIR *directory;
	const char *place;	 /* its name there */
	char name[2 * NAME_MAX]; /* PLACE.PID-NUMBER.tmp */
	int fd;
};

static bool is_draft(const char *place, const char *name)
{
	const size_t length = strlen(place);
	int end = 0;

	return strncmp(name, place, length) == 0 &&
	       sscanf(name + length, ".%*[0-9]-%*[0-9].tmp%n", &end) == 0 && end > 0 &&
	       name[length + (size_t)end] == '\0';
}

static void remove_left(const struct draft *d)
{
	const struct dirent *entry;

	while ((entry = readdir(d->directory))) {
		const int fd = is_draft(d->place, entry->d_name)
				       ? openat(dirfd(d->directory), entry->d_name,
						O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
				       : -1;

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(dirfd(d->directory), entry->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
}

/* Another process of this number may write one, since in a container it is always the same; and
 * another may take this one for one that was left, until it is locked. */
static bool create(struct draft *d)
{
	struct stat status;

	for (int i = 0;; i++) {
		snprintf(d->name, sizeof(d->name), "%s.%ld-%d.tmp", d->place, (long)getpid(), i);
		d->fd = openat(dirfd(d->directory), d->name,
			       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (d->fd < 0 && errno != EEXIST)
			return false;
		if (d->fd >= 0 &&
		    (flock(d->fd, LOCK_EX) < 0 || fstat(d->fd, &status) < 0 || status.st_nlink > 0))
			return true;
		if (d->fd >= 0)
			close(d->fd);
	}
}

/* Whoever may not read the file that is there may not read the next one, on file systems that have
 * such modes. */
static void keep_mode(const struct draft *d)
{
	struct stat status;

	if (fstatat(dirfd(d->directory), d->place, &status, 0) == 0)
		fchmod(d->fd, status.st_mode & 0777);
}

/* It keeps its lock until it is in its place. Not every file system can bring a directory to disk
 * by itself (EINVAL). */
static bool fill(const struct draft *d, const void *bytes, size_t length)
{
	const int directory = dirfd(d->directory);

	keep_mode(d);
	if (bytes && write_all(d->fd, bytes, length) &&
	    renameat(directory, d->name, directory, d->place) == 0)
		return fsync(directory) == 0 || errno == EINVAL;
	const int error = errno;

	unlinkat(directory, d->name, 0);
	errno = error;
	return !bytes;
}

static bool replace(const char *path, const void *bytes, size_t length)
{
	const char *slash = strrchr(path, '/');
	char *const directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	struct draft d = { .directory = directory ? opendir(directory) : NULL,
			   .place = slash ? slash + 1 : path };
	bool done = false;

	free(directory);
	if (!d.directory)
		return false;
	remove_left(&d);
	if (!*d.place)
		errno = EISDIR;
	else if (create(&d)) {
		done = fill(&d, bytes, length);
		close(d.fd);
	}
	const int error = errno;

	closedir(d.directory);
	errno = error;
	return done;
}

char *output_end(const char *path)
{
	const char *slash = strrchr(path, '/');
	const int before = slash ? (int)(slash - path) + 1 : 0; /* bytes that name the directory */
	char target[PATH_MAX] = "", *next = NULL, *directory, *end = realpath(path, NULL);

	if (end || errno != ENOENT)
		return end;
	if (readlink(path, target, sizeof(target) - 1) > 0) {
		if (asprintf(&next, "%.*s%s", *target == '/' ? 0 : before, path, target) < 0)
			return NULL;
		end = output_end(next);
		free(next);
		return end;
	}
	if (asprintf(&next, "%.*s.", before, path) < 0)
		return NULL;
	directory = realpath(next, NULL);
	free(next);
	if (!directory || asprintf(&end, "%s/%s", directory, path + before) < 0)
		end = NULL;
	free(directory);
	return end;
}

bool output_same(const char *one, const char *other)
{
	struct stat x, y;
	char *a, *b;
	bool same;

	if (stat(one, &x) == 0 && stat(other, &y) == 0)
		return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
	a = output_end(one);
	b = output_end(other);
	same = a && b && strcmp(a, b) == 0;
	free(a);
	free(b);
	return same;
}

bool output_file(const char *path, const void *bytes, size_t length)
{
	struct stat status;
	char *end;
	bool done;

	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
		if (!S_ISDIR(status.st_mode))
			return !bytes || write_to(path, bytes, length);
		errno = EISDIR;
		return false;
	}
	end = output_end(path);
	done = end && replace(end, bytes, length);
	const int error = errno;

	free(end);
	errno = error;
	return done;
}
