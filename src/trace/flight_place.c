/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns where flights lie: directories, names of files, the mapping, what is kept of dead
 * processes.
 *
 * Reports go to the directory of TUTTI_TRACE, which may be shared by hosts. The mapping lies
 * there only if that is memory (tmpfs), else in /dev/shm: the pages of a file on a disk would be
 * written back every some seconds, and the next operation would wait for it. Its file is locked
 * as long as the process lives, so whoever gets the lock knows that it has ended, whatever
 * became of its number. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "flight_report.h"
#include "fork.h"
#include "log.h"
#include "machine.h"

#define RINGS_KEPT   32 /* of dead processes, that nobody has reported */
#define REPORTS_KEPT 256
#define ENTRY_BYTES  20	 /* of tmpfs, for a file */
#define DRAFT_AGE_S  600 /* what is unfinished for so long will never be */

#define RING_SUFFIX   ".flight"
#define REPORT_SUFFIX TT_FLIGHT_REPORT_SUFFIX

/* ---- directories */

bool tt_flight_have_directory(const char *path, bool private)
{
	struct stat info;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return false;
	if ((private ? lstat(path, &info) : stat(path, &info)) < 0)
		return false;
	errno = S_ISDIR(info.st_mode) ? EPERM : ENOTDIR;
	return S_ISDIR(info.st_mode) &&
	       (!private || (info.st_uid == geteuid() && (info.st_mode & 077) == 0));
}

static bool is_memory(const char *path)
{
	struct statfs info;

	return statfs(path, &info) == 0 &&
	       (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

static bool join_path(char *out, const char *directory, const char *name)
{
	return (size_t)snprintf(out, TT_FLIGHT_PATH, "%s/%s", directory, name) < TT_FLIGHT_PATH;
}

/* Where a process may be when its report is written, relative paths mean nothing. */
static bool make_absolute(const char *path, char *out)
{
	char here[TT_FLIGHT_PATH];

	if (*path == '/')
		return (size_t)snprintf(out, TT_FLIGHT_PATH, "%s", path) < TT_FLIGHT_PATH;
	return getcwd(here, sizeof(here)) && join_path(out, here, path);
}

static void default_directory(const char *parent, char *out)
{
	char name[32];

	snprintf(name, sizeof(name), "tutti-%u", (unsigned)geteuid());
	if (!join_path(out, parent, name))
		*out = '\0';
}

/* The user's directory is looked at now, when there is still somebody to be told. */
static bool report_directory(const char *trace, char *out)
{
	const char *temporary = getenv("TMPDIR");

	if (!*trace) {
		default_directory(temporary && *temporary == '/' ? temporary : "/tmp", out);
		return *out;
	}
	if (make_absolute(trace, out) && tt_flight_have_directory(out, false))
		return true;
	tt_log(WARN, COMM,
	       "TUTTI_TRACE is \"%s\", where no directory can be made (%s): no reports are written",
	       trace, strerror(errno));
	return false;
}

static void ring_directory(const char *reports, bool private, char *out)
{
	if (private || !is_memory(reports)) {
		default_directory("/dev/shm", out);
		if (*out && tt_flight_have_directory(out, true) && is_memory(out))
			return;
	}
	snprintf(out, TT_FLIGHT_PATH, "%s",
		 private && !tt_flight_have_directory(reports, true) ? "" : reports);
}

void tt_flight_find_place(const char *trace, const char *job, uint64_t comm_id, int rank,
			  struct tt_flight_place *out)
{
	char reports[TT_FLIGHT_PATH], rings[TT_FLIGHT_PATH], name[96];
	int length = 0;

	*out = (struct tt_flight_place){ 0 };
	if (strcmp(trace, "off") == 0 || !report_directory(trace, reports))
		return;
	out->private = !*trace;
	ring_directory(reports, out->private, rings);
	for (; job[length] && length < 32; length++)
		name[length] =
			strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_",
			       job[length])
				? job[length]
				: '_';
	snprintf(name + length, sizeof(name) - (size_t)length, ".%016llx.%d" REPORT_SUFFIX,
		 (unsigned long long)comm_id, rank);
	const bool fits = join_path(out->report, reports, name);
	name[strlen(name) - (sizeof(REPORT_SUFFIX) - sizeof(RING_SUFFIX))] = '\0';
	if (!fits)
		out->report[0] = '\0';
	if (!fits || !*rings || !join_path(out->ring, rings, name))
		out->ring[0] = '\0';
}

/* ---- the mapping */

/* Of a flight: what is in the file from the start, and what is added when it is needed. */
enum { FIRST_PARTS, OTHER_PARTS };

static const struct {
	size_t at, end;
} parts[2][2] = {
	[FIRST_PARTS] = { { 0, offsetof(struct tt_flight, ops[TT_FLIGHT_OPS_FIRST]) },
			  { offsetof(struct tt_flight, plans),
			    offsetof(struct tt_flight, plans[TT_FLIGHT_PLANS_FIRST / 8]) } },
	[OTHER_PARTS] = { { offsetof(struct tt_flight, ops[TT_FLIGHT_OPS_FIRST]),
			    offsetof(struct tt_flight, plans) },
			  { offsetof(struct tt_flight, plans[TT_FLIGHT_PLANS_FIRST / 8]),
			    sizeof(struct tt_flight) } },
};
static_assert(offsetof(struct tt_flight, ops[TT_FLIGHT_OPS_FIRST]) % 4096 == 0 &&
		      offsetof(struct tt_flight, plans[TT_FLIGHT_PLANS_FIRST / 8]) % 4096 == 0,
	      "parts are pages");

/* All memory of these parts of the file: a page that could not be had later would be a SIGBUS. 0
 * or errno. */
static int reserve(int fd, int which)
{
	int error = 0;

	for (int i = 0; i < 2 && !error; i++)
		error = tt_file_reserve(fd, parts[which][i].at,
					parts[which][i].end - parts[which][i].at);
	return error;
}

static struct tt_flight *map(int fd, int protection, int flags)
{
	void *memory = mmap(NULL, sizeof(struct tt_flight), protection, flags, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Put these parts of the file where memory of the process is, which nobody has touched. */
static bool map_parts(struct tt_flight *flight, int fd, int which)
{
	for (int i = 0; i < 2; i++)
		if (mmap((uint8_t *)flight + parts[which][i].at,
			 parts[which][i].end - parts[which][i].at, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, (off_t)parts[which][i].at) == MAP_FAILED)
			return false;
	return true;
}

/* A locked file of the right size under its final name, so that none is ever seen without its
 * lock; -1: errno tells. */
static int make_ring(const char *ring)
{
	char draft[TT_FLIGHT_PATH + 32];
	int error;

	snprintf(draft, sizeof(draft), "%s.tmp%d", ring, (int)getpid());
	/* a child of fork() must not keep it locked */
	const int fd = TT_FD(open(draft, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
	if (fd < 0)
		return -1;
	error = tt_file_resize(fd, sizeof(struct tt_flight)) < 0 ? errno : reserve(fd, FIRST_PARTS);
	if (!error && (flock(fd, LOCK_EX | LOCK_NB) < 0 || rename(draft, ring) < 0))
		error = errno;
	if (!error)
		return fd;
	unlink(draft);
	tt_fd_close(fd);
	errno = error;
	return -1;
}

struct tt_flight *tt_flight_map(struct tt_flight_place *place, int *fd)
{
	struct tt_flight *flight = map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

	*fd = -1;
	if (!flight)
		return NULL;
	if (*place->ring)
		*fd = make_ring(place->ring);
	if (*fd >= 0 && !map_parts(flight, *fd, FIRST_PARTS)) {
		unlink(place->ring);
		tt_fd_close(*fd);
		*fd = -1;
	}
	if (*fd < 0 && *place->ring) {
		tt_log(INFO, COMM,
		       "no file %s (%s): what this rank did last is lost if it is killed",
		       place->ring, strerror(errno));
		place->ring[0] = '\0';
	}
	madvise(flight, sizeof(*flight), MADV_DONTFORK); /* a child's would be this rank's */
	return flight;
}

void tt_flight_extend(struct tt_flight *flight, int fd)
{
	const int error = reserve(fd, OTHER_PARTS);

	if (error || !map_parts(flight, fd, OTHER_PARTS))
		tt_log(INFO, COMM,
		       "rank %d: its file cannot grow (%s): most of what it did last is lost if it is killed",
		       flight->rank, strerror(error ? error : errno));
	madvise(flight, sizeof(*flight), MADV_DONTFORK);
}

/* ---- what dead processes have left */

/* Open the ring of a process that has ended, and lock it against others who do the same; -1: it
 * is none, or lives. */
static int open_dead(const char *ring)
{
	struct stat info;
	const int fd = TT_FD(open(ring, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));

	if (fd < 0)
		return -1;
	/* looked at once it is locked: who ends well removes the file first, and so does who has
	 * made its report */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0 &&
	    S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
	    info.st_size == sizeof(struct tt_flight))
		return fd;
	tt_fd_close(fd);
	return -1;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Was it written by this library, since this machine was started? */
static bool is_readable(const struct tt_flight *flight)
{
	return flight->magic == TT_FLIGHT_MAGIC && flight->boot == tt_machine_boot() &&
	       strncmp(flight->version, tutti_version(), sizeof(flight->version)) == 0 &&
	       flight->report[0] == '/' &&
	       ends_with(flight->report, strnlen(flight->report, sizeof(flight->report)),
			 REPORT_SUFFIX) &&
	       flight->report[sizeof(flight->report) - 1] == '\0';
}

/* The directory of a path from the root on; gives the name in it. */
static const char *split_path(const char *path, char directory[TT_FLIGHT_PATH])
{
	const char *slash = strrchr(path, '/');

	snprintf(directory, TT_FLIGHT_PATH, "%.*s", slash > path ? (int)(slash - path) : 1, path);
	return slash + 1;
}

/* By whatever names: links may lead to it. */
static bool is_same_directory(const char *one, const char *other)
{
	struct stat a, b;

	return strcmp(one, other) == 0 || (stat(one, &a) == 0 && stat(other, &b) == 0 &&
					   a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* Remove what the dead process had begun to write of its report: whoever holds its ring knows
 * that nobody writes on. */
static void remove_drafts(const char *directory, const char *name)
{
	const size_t length = strlen(name);
	char path[TT_FLIGHT_PATH];
	const struct dirent *entry;

	DIR *handle = opendir(directory);
	while (handle && (entry = readdir(handle)))
		if (strncmp(entry->d_name, name, length) == 0 &&
		    strncmp(entry->d_name + length, ".tmp", 4) == 0 &&
		    join_path(path, directory, entry->d_name))
			unlink(path);
	if (handle)
		closedir(handle);
}

/* A report that lies elsewhere than in `reports` is for who looks there. */
static bool write_report(struct tt_flight *flight, const char *reports)
{
	char directory[TT_FLIGHT_PATH];

	if (!is_readable(flight))
		return false;
	const char *name = split_path(flight->report, directory);
	if (reports && !is_same_directory(directory, reports))
		return false;
	remove_drafts(directory, name);
	return tt_flight_write(flight, "died");
}

bool tt_flight_recover(const char *ring, const char *reports)
{
	const int fd = open_dead(ring);
	bool written = false;

	if (fd < 0)
		return false;
	struct tt_flight *flight = map(fd, PROT_READ, MAP_SHARED);
	if (flight) {
		written = write_report(flight, reports);
		munmap(flight, sizeof(*flight));
	}
	if (written)
		unlink(ring);
	tt_fd_close(fd);
	return written;
}

/* ---- sweeping */

struct found {
	char name[256];
	time_t when;
};

static int newest_first(const void *a, const void *b)
{
	const struct found *one = a, *other = b;

	return one->when < other->when	 ? 1
	       : one->when > other->when ? -1
					 : strcmp(one->name, other->name);
}

/* Count it, or remove it where `*left` have been counted. A ring of a process that lives is none
 * of ours. */
static void keep_one(const char *path, bool ring, size_t *left)
{
	const int fd = ring ? open_dead(path) : -1;

	if (ring && fd < 0)
		return;
	if (*left > 0)
		--*left;
	else
		unlink(path);
	tt_fd_close(fd);
}

static bool is_draft(const char *name)
{
	return strstr(name, RING_SUFFIX ".tmp") || strstr(name, REPORT_SUFFIX ".tmp");
}

/* How many there are; up to `capacity` of them. */
static size_t list_files(const char *directory, const char *suffix, struct found *found,
			 size_t capacity)
{
	const time_t now = time(NULL);
	DIR *handle = opendir(directory);
	const struct dirent *entry;
	char path[TT_FLIGHT_PATH];
	struct stat info;
	size_t n = 0;

	while (handle && (entry = readdir(handle))) {
		const bool draft = is_draft(entry->d_name);

		if (!draft && !ends_with(entry->d_name, strlen(entry->d_name), suffix))
			continue;
		if ((draft || n < capacity) && (!join_path(path, directory, entry->d_name) ||
						lstat(path, &info) < 0 || !S_ISREG(info.st_mode)))
			continue;
		if (draft) {
			if (now - info.st_ctime > DRAFT_AGE_S)
				unlink(path);
			continue;
		}
		if (n < capacity) {
			snprintf(found[n].name, sizeof(found[n].name), "%s", entry->d_name);
			found[n].when = info.st_ctime;
		}
		n++;
	}
	if (handle)
		closedir(handle);
	return n;
}

static void keep_newest(const char *of, const char *suffix, size_t kept)
{
	char directory[TT_FLIGHT_PATH], path[TT_FLIGHT_PATH];

	split_path(of, directory);
	size_t n = list_files(directory, suffix, NULL, 0);
	if (n <= kept)
		return;
	struct found *found = calloc(n, sizeof(*found));
	const size_t capacity = n;
	n = found ? list_files(directory, suffix, found, capacity) : 0;
	n = n < capacity ? n : capacity;
	if (found)
		qsort(found, n, sizeof(*found), newest_first);
	for (size_t i = 0; i < n; i++)
		if (join_path(path, directory, found[i].name))
			keep_one(path, strcmp(suffix, RING_SUFFIX) == 0, &kept);
	free(found);
}

bool tt_flight_crowded(const struct tt_flight_place *place)
{
	char directory[TT_FLIGHT_PATH];
	struct stat info;

	if (!*place->ring)
		return false;
	split_path(place->ring, directory);
	/* in memory the size of a directory tells how many files it has; elsewhere it is large */
	return stat(directory, &info) == 0 && info.st_size > (2 * RINGS_KEPT + 2) * ENTRY_BYTES;
}

void tt_flight_sweep(const struct tt_flight_place *place)
{
	if (*place->ring)
		keep_newest(place->ring, RING_SUFFIX, RINGS_KEPT);
	if (*place->report)
		keep_newest(place->report, REPORT_SUFFIX, REPORTS_KEPT);
}

/* ---- recovering all */

int tt_flight_recover_all(const char *trace)
{
	char path[TT_FLIGHT_PATH], reports[TT_FLIGHT_PATH], rings[TT_FLIGHT_PATH];
	struct tt_flight_place place;
	const struct dirent *entry;
	int recovered = 0;

	tt_flight_find_place(trace, "", 0, 0, &place);
	if (!*place.ring)
		return 0;
	split_path(place.report, reports);
	split_path(place.ring, rings);
	DIR *handle = opendir(rings);
	if (!handle)
		return -1;
	while ((entry = readdir(handle)))
		if (ends_with(entry->d_name, strlen(entry->d_name), RING_SUFFIX) &&
		    join_path(path, rings, entry->d_name))
			recovered += tt_flight_recover(path, reports);
	closedir(handle);
	return recovered;
}
