/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: says why a file cannot be written, and which files are the same. */
#include "replace.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "output.h"

/* As /dev/stdout and /dev/fd/3 lead to a file that is open: another one in its place would not be that.
 * `path` leads somewhere. */
static bool leads_through_proc(const char *path)
{
	const char *slash = strrchr(path, '/');
	const int before = slash ? (int)(slash - path) + 1 : 0; /* bytes that name the directory */
	char target[PATH_MAX] = "", next[2 * PATH_MAX];
	struct statfs system;

	if (readlink(path, target, sizeof(target) - 1) < 0)
		return false;
	snprintf(next, sizeof(next), "%.*s.", before, path);
	if (statfs(next, &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
		return true;
	snprintf(next, sizeof(next), "%.*s%s", *target == '/' ? 0 : before, path, target);
	return leads_through_proc(next);
}

bool replace_file(const char *path, const void *bytes, size_t length)
{
	struct stat status;

	if (stat(path, &status) == 0 && (!S_ISREG(status.st_mode) || leads_through_proc(path)))
		return why_invalid("%s: is %s, expected a regular file or none; give another name",
				   path,
				   S_ISREG(status.st_mode)   ? "a link of /proc to what is open"
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

bool replace_distinct(const struct named_file *files, size_t inputs, size_t count)
{
	for (size_t i = inputs; i < count; i++)
		for (size_t k = 0; k < i; k++)
			if (files[i].path && files[k].path &&
			    output_same(files[i].path, files[k].path))
				return why_invalid(
					"%s: found %s, the file of %s, which would be overwritten; "
					"expected a file of its own: give another name",
					files[i].option, files[i].path, files[k].option);
	return true;
}
