/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: says why a file cannot be written, and which files are the same, by their inodes,
 * whatever their names. */
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "output.h"

/* As /dev/stdout and /dev/fd/3 lead to a file that is open: another one in its place would not be that.
 * Kernels before 5.6 do not tell. */
static bool leads_through_proc(const char *path)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_NO_MAGICLINKS };
	const int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == ELOOP;
}

bool replace_file(const char *path, const void *bytes, size_t length)
{
	struct stat status;

	if (stat(path, &status) == 0 && (!S_ISREG(status.st_mode) || leads_through_proc(path)))
		return why_set(TUTTI_ERR_INVALID,
			       "%s: is %s, expected a regular file or none; give another name",
			       path,
			       S_ISREG(status.st_mode)	 ? "a link of /proc to what is open"
			       : S_ISDIR(status.st_mode) ? "a directory"
							 : "a device, a pipe or a socket");
	if (output_file(path, bytes, length))
		return true;
	return why_set(
		TUTTI_ERR_SYSTEM,
		bytes ? "%s: writing failed: %s; what is there is whole: make room, or give "
			"another place"
		      : "%s: cannot be written: %s; give a file in a directory that exists and "
			"can be written",
		path, strerror(errno));
}

/* A file, or, where there is none yet, its directory and its name there. */
struct place {
	dev_t device;
	ino_t inode;
	char name[NAME_MAX + 1];
};

static bool find_place(const char *path, struct place *out)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const int before = slash ? (int)(slash - path) + 1 : 0; /* bytes that name the directory */
	char target[PATH_MAX] = "", other[2 * PATH_MAX];
	struct stat status;

	if (!path)
		return false;
	*out = (struct place){ 0 };
	if (stat(path, &status) < 0) {
		if (errno == ENOENT && readlink(path, target, sizeof(target) - 1) > 0) {
			snprintf(other, sizeof(other), "%.*s%s", *target == '/' ? 0 : before, path,
				 target);
			return find_place(other, out);
		}
		snprintf(other, sizeof(other), "%.*s.", before, path);
		snprintf(out->name, sizeof(out->name), "%s", path + before);
		if (stat(other, &status) < 0)
			return false;
	} else if (!S_ISREG(status.st_mode)) {
		return false;
	}
	out->device = status.st_dev;
	out->inode = status.st_ino;
	return true;
}

static bool same_place(const char *one, const char *other)
{
	struct place a, b;

	return find_place(one, &a) && find_place(other, &b) && a.device == b.device &&
	       a.inode == b.inode && strcmp(a.name, b.name) == 0;
}

bool replace_distinct(const struct named_file *files, size_t inputs, size_t count)
{
	for (size_t i = inputs; i < count; i++)
		for (size_t k = 0; k < i; k++)
			if (same_place(files[i].path, files[k].path))
				return why_set(
					TUTTI_ERR_INVALID,
					"%s: found %s, the file of %s, which would be overwritten; "
					"expected a file of its own: give another name",
					files[i].option, files[i].path, files[k].option);
	return true;
}
