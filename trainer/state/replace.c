/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way to a file that is whole or as it was: a draft is written beside it, and takes its
 * place when it is complete and on disk.
 * Which files are the same is found by their inodes, whatever their names.
 *
 * A draft is locked (flock) while it is written. One that nobody locks is of a process that was
 * killed, and is removed before the next one is made. Where a file system has no such locks, drafts
 * that were left stay. */
#include "replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A place in a directory, and a file beside it that is to come there. */
struct draft {
	const char *path; /* of the place */
	const char *name; /* its last part */
	int directory;
	int fd;	    /* of the draft, -1: there is none */
	char *file; /* the draft's name */
};

static bool refuse_target(const struct draft *d)
{
	return why_set(TUTTI_ERR_SYSTEM,
		       "%s: cannot be written: %s; give a file in a directory that "
		       "exists and can be written",
		       d->path, strerror(errno));
}

/* A device or a link would be replaced, not written to. */
static bool open_target(struct draft *d)
{
	const char *slash = strrchr(d->path, '/');
	char *directory = slash ? strndup(d->path, (size_t)(slash - d->path) + 1) : strdup(".");
	struct stat status;

	if (!directory)
		return why_no_memory(d->path);
	d->name = slash ? slash + 1 : d->path;
	d->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(directory);
	if (d->directory < 0)
		return refuse_target(d);
	if (d->name[0] == '\0')
		return why_set(TUTTI_ERR_INVALID,
			       "%s: names a directory, expected a file; add its name", d->path);
	if (fstatat(d->directory, d->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || refuse_target(d);
	if (S_ISREG(status.st_mode))
		return true;
	return why_set(TUTTI_ERR_INVALID,
		       "%s: is %s, expected a regular file or none: it would be "
		       "replaced; give another name",
		       d->path,
		       S_ISDIR(status.st_mode)	 ? "a directory"
		       : S_ISLNK(status.st_mode) ? "a symbolic link"
						 : "a device, a pipe or a socket");
}

/* NAME.PID-NUMBER.tmp */
static bool is_draft(const struct draft *d, const char *file)
{
	const size_t length = strlen(d->name);
	int end = 0;

	return strncmp(file, d->name, length) == 0 &&
	       sscanf(file + length, ".%*[0-9]-%*[0-9].tmp%n", &end) == 0 && end > 0 &&
	       file[length + (size_t)end] == '\0';
}

static void remove_left(const struct draft *d)
{
	const int own = openat(d->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = own < 0 ? NULL : fdopendir(own);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		const int fd = is_draft(d, entry->d_name)
				       ? openat(d->directory, entry->d_name,
						O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
				       : -1;

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(d->directory, entry->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	if (directory)
		closedir(directory);
	else if (own >= 0)
		close(own);
}

/* Another process of this number may write one, since in a container it is always the same; and another
 * may take this one for one that was left, until it is locked. */
static bool create_file(struct draft *d)
{
	const size_t room = strlen(d->name) + 64;
	struct stat status;

	d->file = malloc(room);
	if (!d->file)
		return why_no_memory(d->path);
	for (int i = 0;; i++) {
		snprintf(d->file, room, "%s.%ld-%d.tmp", d->name, (long)getpid(), i);
		d->fd = openat(d->directory, d->file,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (d->fd < 0 && errno != EEXIST)
			return refuse_target(d);
		if (d->fd >= 0 &&
		    (flock(d->fd, LOCK_EX) < 0 || fstat(d->fd, &status) < 0 || status.st_nlink > 0))
			return true;
		if (d->fd >= 0)
			close(d->fd);
		d->fd = -1;
	}
}

/* Removes the draft, unless it has taken its place. */
static void draft_finish(struct draft *d)
{
	if (d->fd >= 0) {
		close(d->fd);
		unlinkat(d->directory, d->file, 0);
	}
	if (d->directory >= 0)
		close(d->directory);
	free(d->file);
}

static bool refuse_write(const struct draft *d, size_t done, size_t length)
{
	return why_set(TUTTI_ERR_SYSTEM,
		       "%s: writing failed after %zu of %zu bytes: %s; what was there "
		       "before is unchanged: make room, or give another place",
		       d->path, done, length, strerror(errno));
}

static bool draft_fill(struct draft *d, const unsigned char *bytes, size_t length)
{
	size_t done = 0;

	while (done < length) {
		const ssize_t n = write(d->fd, bytes + done, length - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return refuse_write(d, done, length);
	}
	return fsync(d->fd) >= 0 || refuse_write(d, done, length);
}

/* The draft is complete and on disk: it takes its place. Not every file system can bring a
 * directory to disk by itself (EINVAL). */
static bool draft_settle(struct draft *d)
{
	if (renameat(d->directory, d->file, d->directory, d->name) < 0)
		return refuse_target(d);
	close(d->fd);
	d->fd = -1;
	if (fsync(d->directory) == 0 || errno == EINVAL)
		return true;
	return why_set(TUTTI_ERR_SYSTEM,
		       "%s: was written, but its directory could not be brought to disk: "
		       "%s; check the disk",
		       d->path, strerror(errno));
}

bool replace_file(const char *path, const void *bytes, size_t length)
{
	struct draft d = { .path = path, .directory = -1, .fd = -1 };
	bool ok = open_target(&d);

	if (ok) {
		remove_left(&d);
		ok = create_file(&d);
	}
	if (ok && bytes)
		ok = draft_fill(&d, bytes, length);
	if (ok && bytes)
		ok = draft_settle(&d);
	draft_finish(&d);
	return ok;
}

/* ---- which files are the same */

/* A file, or, where there is none yet, its directory and its name there. */
struct place {
	dev_t device;
	ino_t inode;
	const char *name;
};

static bool find_place(const char *path, struct place *out);

/* Where a link leads. */
static bool follow(const char *link, struct place *out)
{
	const char *slash = strrchr(link, '/');
	char target[PATH_MAX], path[2 * PATH_MAX];
	const ssize_t length = readlink(link, target, sizeof(target) - 1);

	if (length < 0)
		return false;
	target[length] = '\0';
	snprintf(path, sizeof(path), "%.*s%s",
		 *target != '/' && slash ? (int)(slash - link) + 1 : 0, link, target);
	return find_place(path, out);
}

static bool find_place(const char *path, struct place *out)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char *directory;
	struct stat status;

	if (!path)
		return false;
	out->name = "";
	if (stat(path, &status) < 0) {
		if (errno == ENOENT && lstat(path, &status) == 0)
			return follow(path, out);
		out->name = slash ? slash + 1 : path;
		directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
		const bool found = directory && stat(directory, &status) == 0;

		free(directory);
		if (!found)
			return false;
	} else if (!S_ISREG(status.st_mode)) {
		return false;
	}
	out->device = status.st_dev;
	out->inode = status.st_ino;
	return true;
}

bool replace_distinct(const struct named_file *files, size_t inputs, size_t count)
{
	struct place a, b;

	for (size_t i = inputs; i < count; i++)
		for (size_t k = 0; k < i; k++)
			if (find_place(files[i].path, &a) && find_place(files[k].path, &b) &&
			    a.device == b.device && a.inode == b.inode &&
			    strcmp(a.name, b.name) == 0)
				return why_set(
					TUTTI_ERR_INVALID,
					"%s: found %s, the file of %s, which would be overwritten; "
					"expected a file of its own: give another name",
					files[i].option, files[i].path, files[k].option);
	return true;
}
