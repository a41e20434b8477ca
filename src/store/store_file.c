/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a store that is a directory which all ranks see.
 *
 * A key is a file; a value comes into being by rename, so that it is seen whole or not at all. File
 * names are keys with unusual bytes as %XX; names beyond NAME_MAX become directories, one per part.
 * Names that begin with a dot are values being written. Waiting: inotify where a writer is on the
 * same machine, and looking again now and then, as network file systems tell nobody. The files
 * stay: no rank knows when the others are done. */
#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "log.h"
#include "store.h"
#include "store_unseen.h"
#include "transport.h"

#define FIRST_PAUSE 100000u   /* between looks, nanoseconds: doubles … */
#define WATCH_PAUSE 6400000u  /* … here inotify is set up … */
#define LAST_PAUSE  50000000u /* … and no longer than this */
#define PART	    200	      /* bytes of a file name */
#define PATH_ROOM   (TT_STORE_ADDRESS_MAX + 3 * TT_STORE_KEY_MAX + 32)

struct file_store {
	struct tt_unseen unseen;
	const char *directory; /* in the store's address */
};

struct path {
	char file[PATH_ROOM];
	char folder[PATH_ROOM]; /* that the file is in */
};

static const struct tt_store_ops file_ops;

static struct file_store *file_of(tutti_store_t store)
{
	assert(store->ops == &file_ops);
	return (struct file_store *)store;
}

static bool plain(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || (c == '.' && !first);
}

/* Directories of long names end in '+', which no file's name does: a file never stands where one
 * must be. */
static void make_path(const struct file_store *s, const char *key, struct path *out)
{
	size_t at = (size_t)snprintf(out->file, PATH_ROOM, "%s/", s->directory), part = at;
	size_t folder = at - 1;

	for (const char *k = key; *k; k++) {
		if (at - part >= PART) {
			out->file[at++] = '+';
			folder = at;
			out->file[at++] = '/';
			part = at;
		}
		if (plain(*k, at == part))
			out->file[at++] = *k;
		else
			at += (size_t)sprintf(out->file + at, "%%%02X", (unsigned char)*k);
	}
	out->file[at] = 0;
	memcpy(out->folder, out->file, folder);
	out->folder[folder] = 0;
}

/* Make the folders of a long key; those of short ones is the store's own. */
static int make_folders(const struct file_store *s, const struct path *path)
{
	char folder[PATH_ROOM];

	for (size_t i = strlen(s->directory) + 1; i <= strlen(path->folder); i++) {
		if (path->folder[i] != '/' && path->folder[i] != 0)
			continue;
		memcpy(folder, path->folder, i);
		folder[i] = 0;
		if (mkdir(folder, 0777) < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

static tutti_result_t file_set(tutti_store_t store, const char *key, const void *value,
			       size_t length, uint64_t timeout_ns)
{
	struct file_store *s = file_of(store);
	struct path path;
	char fresh[PATH_ROOM + 16];

	make_path(s, key, &path);
	snprintf(fresh, sizeof(fresh), "%s/.XXXXXX", path.folder);
	if (make_folders(s, &path) < 0)
		return tt_fail_errno(STORE, "set \"%s\": make the directory %s", key, path.folder);
	const int fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return tt_fail_errno(STORE, "set \"%s\": make a file in %s", key, path.folder);
	const int error = tt_file_write(fd, 0, value, length);
	/* close() reports what a network file system could not write */
	const bool closed = close(fd) == 0;
	if (error)
		errno = error;
	if (error || !closed || rename(fresh, path.file) < 0)
		goto unlink_fresh;
	return TUTTI_OK;
unlink_fresh:
	tt_fail_errno(STORE, "set \"%s\": write %zu bytes to %s", key, length, path.file);
	unlink(fresh);
	return TUTTI_ERR_SYSTEM;
}

/* Opening the folder first makes a network file system ask its server whether the name is there by
 * now. */
static int open_value(const struct path *path)
{
	const int folder = open(path->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return -1;
	/* whatever else has the name, a pipe's other end is not waited for, and a link not
	 * followed */
	const int fd = openat(folder, path->file + strlen(path->folder) + 1,
			      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	const int saved = errno;
	close(folder);
	errno = saved;
	return fd;
}

static int read_whole(int fd, char *data, size_t length)
{
	while (length > 0) {
		const ssize_t n = read(fd, data, length);

		if (n == 0)
			errno = EIO;
		if (n == 0 || (n < 0 && errno != EINTR))
			return -1;
		if (n > 0) {
			data += n;
			length -= (size_t)n;
		}
	}
	return 0;
}

static tutti_result_t fail_irregular(const char *key, const struct path *path)
{
	return tt_fail(
		TUTTI_ERR_SYSTEM, STORE,
		"get \"%s\": %s is no regular file: expected a value that a rank has set; remove it, and let nobody else write to the "
		"directory",
		key, path->file);
}

/* TUTTI_IN_PROGRESS: not there yet. ESTALE: replaced while a network file system looked it up. */
static tutti_result_t poll_key(tutti_store_t store, const char *key, const struct path *path,
			       void *value, size_t *length)
{
	const size_t capacity = *length;
	tutti_result_t result = TUTTI_OK;
	struct stat st;
	const int fd = open_value(path);

	if (fd < 0 && (errno == ENOENT || errno == ESTALE))
		return TUTTI_IN_PROGRESS;
	if (fd < 0 && (errno == ELOOP || errno == ENXIO)) /* a link, a socket */
		return fail_irregular(key, path);
	if (fd < 0)
		return tt_fail_errno(STORE, "get \"%s\": open %s", key, path->file);
	if (fstat(fd, &st) < 0) {
		result = tt_fail_errno(STORE, "get \"%s\": read %s", key, path->file);
	} else if (!S_ISREG(st.st_mode)) {
		result = fail_irregular(key, path);
	} else if ((size_t)st.st_size > capacity) {
		*length = (size_t)st.st_size;
		result = tt_store_fail_capacity(store, key, capacity, *length);
	} else if (read_whole(fd, value, (size_t)st.st_size) < 0) {
		result = tt_fail_errno(STORE, "get \"%s\": read %s", key, path->file);
	} else {
		*length = (size_t)st.st_size;
	}
	close(fd);
	return result;
}

/* -1 where there is no inotify, or none left: looking now and then does alone. */
static int watch_folder(const char *folder)
{
	const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd >= 0 && inotify_add_watch(fd, folder, IN_MOVED_TO) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Until something came into the folder or the pause is over. */
static void wait_change(int watch, uint64_t pause_ns)
{
	struct pollfd p = { .fd = watch, .events = POLLIN };
	const struct timespec pause = tt_timespec(pause_ns);
	char events[4096];

	if (ppoll(&p, 1, &pause, NULL) > 0 && read(watch, events, sizeof(events)) < 0)
		tt_log(DEBUG, STORE, "read inotify events: %s", strerror(errno));
}

/* Closing an inotify descriptor takes some ten milliseconds, so the first looks do without. */
static tutti_result_t file_wait(tutti_store_t store, const char *key, const struct path *path,
				void *value, size_t *length, uint64_t timeout_ns)
{
	const uint64_t start = tt_now(), deadline = start + timeout_ns;
	uint64_t pause = FIRST_PAUSE, check_at = start + TT_UNSEEN_POLL_NS / 4;
	bool watched = false;
	int watch = -1;
	tutti_result_t result;

	for (;;) {
		result = poll_key(store, key, path, value, length);
		const uint64_t now = tt_now();

		if (result != TUTTI_IN_PROGRESS)
			break;
		if (now >= deadline)
			break;
		if (now >= check_at) {
			const tutti_result_t ended = tt_unseen_poll(store);

			if (ended) {
				result = ended;
				break;
			}
			check_at = now + TT_UNSEEN_POLL_NS;
		}
		if (pause >= WATCH_PAUSE && !watched) {
			watched = true;
			if (make_folders(file_of(store), path) == 0)
				watch = watch_folder(path->folder);
			continue; /* it may have come before the watch was there */
		}
		wait_change(watch, pause < deadline - now ? pause : deadline - now);
		pause = 2 * pause < LAST_PAUSE ? 2 * pause : LAST_PAUSE;
	}
	if (watch >= 0)
		close(watch);
	return result;
}

static tutti_result_t file_get(tutti_store_t store, const char *key, void *value, size_t *length,
			       uint64_t timeout_ns, uint64_t answer_ns)
{
	(void)answer_ns; /* no host of ours answers */
	struct path path;

	make_path(file_of(store), key, &path);
	const tutti_result_t result = poll_key(store, key, &path, value, length);
	return result == TUTTI_IN_PROGRESS && timeout_ns > 0
		       ? file_wait(store, key, &path, value, length, timeout_ns)
		       : result;
}

static void file_close(tutti_store_t store)
{
	tt_unseen_finish(&file_of(store)->unseen);
	free(file_of(store));
}

static const struct tt_store_ops file_ops = {
	.set = file_set,
	.get = file_get,
	.end = tt_unseen_end,
	.attend = tt_unseen_attend,
	.leave = tt_unseen_leave,
	.poll = tt_unseen_poll,
	.close = file_close,
	.forget = file_close,
};

tutti_result_t tt_store_file_open(const char *address, tutti_store_t *store)
{
	const char *directory = address + strlen("file:");
	struct stat st;

	if (*directory == 0)
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the store address \"file:\" names no directory: expected "
			       "file:DIRECTORY, one "
			       "that all ranks see");
	if (mkdir(directory, 0777) < 0 && errno != EEXIST)
		return tt_fail_errno(STORE, "open the store %s: make the directory", address);
	if (stat(directory, &st) < 0 || !S_ISDIR(st.st_mode)) {
		errno = errno == EEXIST ? ENOTDIR : errno;
		return tt_fail_errno(STORE, "open the store %s: inspect the directory", address);
	}
	struct file_store *s = calloc(1, sizeof(*s));
	if (!s)
		return tt_fail(TUTTI_ERR_NO_MEMORY, STORE, "open the store %s: no memory", address);
	tt_unseen_init(&s->unseen);
	s->unseen.base.ops = &file_ops;
	memcpy(s->unseen.base.address, address, strlen(address) + 1);
	s->directory = s->unseen.base.address + strlen("file:");
	*store = &s->unseen.base;
	return TUTTI_OK;
}
