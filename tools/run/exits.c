/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the record of how ranks ended: one file beside the reports of their flight recorders, which
 * counts as one of these where old ones are removed. It appears whole or not at all. */
#include "exits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

#define SUFFIX ".exits.flight.json"
#define NOTED  (1 << 18) /* exits: more than ranks, replaced ones with them; 32 MiB of file */
#define KEPT   64	 /* of jobs */

void exits_note(struct exits *exits, const struct rank_exit *one)
{
	if (exits->n == NOTED)
		return;
	if (exits->n == exits->capacity) {
		const size_t capacity = exits->capacity ? 2 * exits->capacity : 16;
		struct rank_exit *grown = realloc(exits->at, capacity * sizeof(*grown));

		if (!grown)
			return;
		exits->at = grown;
		exits->capacity = capacity;
	}
	exits->at[exits->n++] = *one;
}

/* ---- where */

/* The directory of the ranks' reports; false: there is none. */
static bool find_directory(const struct options *options, char *out, bool *private)
{
	const char *trace = environment_value(options, "TUTTI_TRACE"),
		   *temporary = environment_value(options, "TMPDIR");
	int length;

	*private = !trace || !*trace;
	if (!*private)
		length = snprintf(out, EXITS_PATH_BYTES, "%s", trace);
	else
		length = snprintf(out, EXITS_PATH_BYTES, "%s/tutti-%u",
				  temporary && *temporary == '/' ? temporary : "/tmp",
				  (unsigned)geteuid());
	return length < EXITS_PATH_BYTES && (*private || strcmp(trace, "off") != 0);
}

/* The default one must be this user's alone: strangers may have been there before. -1: errno tells.
 */
static int open_directory(const char *path, bool private)
{
	struct stat info;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -1;
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (private ? O_NOFOLLOW : 0));
	if (fd < 0 || !private)
		return fd;
	if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 077) == 0)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/* ---- what */

static void write_host(FILE *out)
{
	char name[64] = "";

	if (gethostname(name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	for (char *at = name; *at; at++)
		if (*at < ' ' || *at == '"' || *at == '\\' || *at == 0x7f)
			*at = '_';
	fprintf(out, ",\"hostname\":\"%s\"", name);
}

static const char *reason_of(const struct job *job)
{
	if (job->forwarded)
		return "signal";
	if (job->timed_out)
		return "timeout";
	return job->ending != ENDING_NOT ? "failure" : "none";
}

static void write_all(FILE *out, const struct job *job)
{
	const struct exits *exits = &job->exits;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, "{\"tutti_exits\":1,\"job\":\"%s\"", exits->name);
	write_host(out);
	fprintf(out,
		",\"realtime_ns\":%" PRId64 ",\"ended_for\":\"%s\",\"asked_with\":%d,\"exits\":[",
		(int64_t)now.tv_sec * 1000000000 + now.tv_nsec, reason_of(job),
		job->ending != ENDING_NOT ? job->asked_with : 0);
	for (size_t i = 0; i < exits->n; i++) {
		const struct rank_exit *one = &exits->at[i];

		fprintf(out,
			"%s\n{\"rank\":%d,\"pid\":%d,\"after_ns\":%" PRId64
			",\"asked\":%s,\"%s\":%d,\"core\":%s}",
			i ? "," : "", one->rank, (int)one->pid, (int64_t)(one->after * 1e9),
			one->asked ? "true" : "false", one->by_signal ? "signal" : "status",
			one->code, one->core ? "true" : "false");
	}
	fprintf(out, "]}\n");
}

/* Each job adds one: where there are more than are kept, the oldest goes. */
static void remove_oldest(int directory)
{
	const int fd = fcntl(directory, F_DUPFD_CLOEXEC, 0);
	DIR *handle = fd < 0 ? NULL : fdopendir(fd);
	char oldest[256] = "";
	const struct dirent *entry;
	time_t since = 0;
	struct stat info;
	int count = 0;

	if (fd >= 0 && !handle)
		close(fd);
	while (handle && (entry = readdir(handle))) {
		const size_t length = strlen(entry->d_name), end = strlen(SUFFIX);

		if (length <= end || strcmp(entry->d_name + length - end, SUFFIX) != 0 ||
		    fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(info.st_mode) || info.st_uid != geteuid())
			continue;
		if (count++ > 0 && info.st_mtime >= since)
			continue;
		since = info.st_mtime;
		snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
	}
	if (handle)
		closedir(handle);
	if (count > KEPT)
		unlinkat(directory, oldest, 0);
}

/* False: errno tells. */
static bool write_file(int directory, const char *name, const struct job *job)
{
	char draft[128];

	snprintf(draft, sizeof(draft), "%s.tmp%d", name, (int)getpid());
	const int fd = openat(directory, draft,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool good = out != NULL;

	if (fd >= 0 && !out)
		close(fd);
	if (out) {
		write_all(out, job);
		good = !ferror(out);
		good = fclose(out) == 0 && good;
	}
	if (good && renameat(directory, draft, directory, name) == 0) {
		remove_oldest(directory);
		return true;
	}
	const int error = errno;
	if (fd >= 0)
		unlinkat(directory, draft, 0);
	errno = error;
	return false;
}

static bool all_well(const struct job *job)
{
	/* what ranks that succeeded have left is ended, too */
	bool well = job->exits.n == 0 || (!job->forwarded && !job->timed_out);

	for (size_t i = 0; i < job->exits.n; i++)
		well &= !job->exits.at[i].by_signal && job->exits.at[i].code == 0;
	return well;
}

bool exits_write(const struct job *job, char directory_name[EXITS_PATH_BYTES])
{
	char name[80];
	bool private, good;

	if (all_well(job) || !find_directory(job->options, directory_name, &private))
		return true;
	snprintf(name, sizeof(name), "%.32s" SUFFIX, job->exits.name);
	const int directory = open_directory(directory_name, private);
	if (directory < 0)
		return false;
	good = write_file(directory, name, job);
	const int error = errno;
	close(directory);
	errno = error;
	return good;
}

void exits_finish(struct exits *exits)
{
	free(exits->at);
}
