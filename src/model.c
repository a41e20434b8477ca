/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is known of this machine: where its figures come from, and the file that keeps them.
 *
 * The cache is a file per kind of machine (processor, number of cores, kernel), as home directories are shared by machines
 * of several kinds. It appears whole or not at all, so processes that measure at once do no harm. */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "log.h"
#include "machine.h"
#include "measure.h"

#define FIRST_LINE "tutti model 1, femtoseconds"
#define FEMTO 1e15
#define LONGEST 10000000000000u /* 10 ms: no step of any machine takes as long */

const struct tt_model tt_model_builtin = {
	.line = 80e-9, .handover = 500e-9, .copy = 0.08e-9, .reduce = 0.025e-9, .message = 1.7e-6, .stream = 0.065e-9
};

static const struct {
	const char *name;
	size_t offset;
} figures[] = {
	{ "line", offsetof(struct tt_model, line) },
	{ "handover", offsetof(struct tt_model, handover) },
	{ "copy", offsetof(struct tt_model, copy) },
	{ "reduce", offsetof(struct tt_model, reduce) },
	{ "message", offsetof(struct tt_model, message) },
	{ "stream", offsetof(struct tt_model, stream) },
};

#define NFIGURES (sizeof(figures) / sizeof(figures[0]))

static double *figure(struct tt_model *model, size_t i)
{
	return (double *)((char *)model + figures[i].offset);
}

/* ---- the file */

/* Whole numbers, as the decimal point is the locale's. */
static tutti_result_t read_figure(FILE *file, const char *path, size_t i, struct tt_model *model)
{
	char line[80], name[32] = "", excess;
	uint64_t value = 0;

	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	const int found = sscanf(line, "%31s %" SCNu64 " %c", name, &value, &excess);
	if (found != 2 || strcmp(name, figures[i].name) != 0 || value == 0 || value >= LONGEST)
		return tt_fail(TUTTI_ERR_INVALID, PLAN,
			       "%s, line %zu is \"%s\": expected \"%s FEMTOSECONDS\", above 0 and below %" PRIu64, path, i + 2,
			       line, figures[i].name, (uint64_t)LONGEST);
	*figure(model, i) = (double)value / FEMTO;
	return TUTTI_OK;
}

/* TUTTI_IN_PROGRESS: there is no such file yet. */
static tutti_result_t read_file(const char *path, struct tt_model *model)
{
	FILE *file = fopen(path, "re");
	char line[sizeof(FIRST_LINE) + 1] = "";
	tutti_result_t result = TUTTI_OK;

	if (!file && errno == ENOENT)
		return TUTTI_IN_PROGRESS;
	if (!file)
		return tt_fail_errno(PLAN, "read %s", path);
	if (!fgets(line, sizeof(line), file) || strcmp(line, FIRST_LINE "\n") != 0)
		result = tt_fail(TUTTI_ERR_INVALID, PLAN,
				 "%s does not begin with the line \"" FIRST_LINE "\": it is not a file of this library's",
				 path);
	for (size_t i = 0; i < NFIGURES && !result; i++)
		result = read_figure(file, path, i, model);
	fclose(file);
	return result;
}

static bool write_figures(int fd, struct tt_model *model)
{
	FILE *file = fdopen(fd, "w");
	bool good = file && fprintf(file, FIRST_LINE "\n") > 0;

	for (size_t i = 0; i < NFIGURES && good; i++)
		good = fprintf(file, "%s %" PRIu64 "\n", figures[i].name, (uint64_t)(*figure(model, i) * FEMTO)) > 0;
	good = good && fflush(file) == 0 && fchmod(fd, 0644) == 0 && fsync(fd) == 0;
	if (file)
		good = fclose(file) == 0 && good;
	else
		close(fd);
	return good;
}

static tutti_result_t write_file(const char *path, struct tt_model *model)
{
	char scratch[PATH_MAX];
	const int length = snprintf(scratch, sizeof(scratch), "%s.XXXXXX", path);

	if (length >= (int)sizeof(scratch))
		return tt_fail(TUTTI_ERR_INVALID, PLAN, "the path of the figures has %zu bytes, expected %d at most", strlen(path),
			       PATH_MAX - 8);
	const int fd = mkostemp(scratch, O_CLOEXEC);
	if (fd < 0)
		return tt_fail_errno(PLAN, "write %s", path);
	if (write_figures(fd, model) && rename(scratch, path) == 0)
		return TUTTI_OK;
	const tutti_result_t result = tt_fail_errno(PLAN, "write %s", path);
	unlink(scratch);
	return result;
}

/* ---- where the cache is */

/* The line of /proc/cpuinfo that names the processor; where there is none, all are of one kind. */
static void name_processor(char *out, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	out[0] = '\0';
	while (file && !*out && fgets(line, sizeof(line), file))
		if (strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0)
			snprintf(out, size, "%s", line);
	if (file)
		fclose(file);
}

static uint64_t kind_of_machine(void)
{
	struct utsname system = { 0 };
	char processor[256], kind[512];
	cpu_set_t cpus;

	uname(&system);
	name_processor(processor, sizeof(processor));
	snprintf(kind, sizeof(kind), "%d of %ld %s %s %s", tt_measure_cpus(&cpus), sysconf(_SC_NPROCESSORS_ONLN),
		 system.machine, system.release, processor);
	return tt_hash_text(kind);
}

/* The cache's path, its last two directories made; false: there is no place for it. */
static bool find_cache(char path[PATH_MAX])
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int length;

	if (cache && *cache == '/')
		length = snprintf(path, PATH_MAX, "%s", cache);
	else if (home && *home == '/')
		length = snprintf(path, PATH_MAX, "%s/.cache", home);
	else
		return false;
	if (length > PATH_MAX - 64)
		return false;
	mkdir(path, 0700);
	length += snprintf(path + length, PATH_MAX - (size_t)length, "/tutti");
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return false;
	snprintf(path + length, PATH_MAX - (size_t)length, "/model-%016" PRIx64, kind_of_machine());
	return true;
}

/* ---- once per process */

static struct {
	pthread_once_t once;
	tutti_result_t result;
	char sentence[400];
	char source[PATH_MAX];
	struct tt_model model;
} settled = { .once = PTHREAD_ONCE_INIT };

/* Measure, and keep in the file at `path` (or not: NULL) what came of it. */
static tutti_result_t measure(const char *path)
{
	snprintf(settled.source, sizeof(settled.source), "measured");
	if (!tt_measure(&settled.model)) {
		snprintf(settled.source, sizeof(settled.source), "measured in part");
		tt_log(INFO, PLAN,
		       "this machine could not be measured whole (two threads did not get to run in time, or there is no "
		       "loopback interface): other figures are those of an ordinary machine, and none are kept");
		return TUTTI_OK;
	}
	const tutti_result_t result = path ? write_file(path, &settled.model) : TUTTI_OK;
	if (path && !result)
		snprintf(settled.source, sizeof(settled.source), "%s", path);
	return result;
}

/* A cache that cannot be used is worth a line in the log, not an error. */
static void settle_by_cache(void)
{
	char path[PATH_MAX];

	if (!find_cache(path)) {
		tt_log(INFO, PLAN, "there is no place for a cache (XDG_CACHE_HOME, HOME): every process measures");
		measure(NULL);
		return;
	}
	const tutti_result_t result = read_file(path, &settled.model);
	if (result == TUTTI_OK) {
		snprintf(settled.source, sizeof(settled.source), "%s", path);
		return;
	}
	if (result == TUTTI_ERR_INVALID)
		tt_log(WARN, PLAN, "%s: measuring again", tt_thread_error());
	settled.model = tt_model_builtin; /* not half of what the file said */
	if (measure(path) != TUTTI_OK) {
		tt_log(INFO, PLAN, "%s: every process measures", tt_thread_error());
		tt_thread_error_set("");
	}
}

static void settle_by_file(const char *path)
{
	settled.result = read_file(path, &settled.model);
	if (settled.result == TUTTI_OK)
		snprintf(settled.source, sizeof(settled.source), "%s", path);
	if (settled.result == TUTTI_IN_PROGRESS)
		settled.result = measure(path);
	if (settled.result)
		snprintf(settled.sentence, sizeof(settled.sentence), "TUTTI_MODEL: %s", tt_thread_error());
}

static void settle(void)
{
	const char *model = getenv("TUTTI_MODEL");

	settled.model = tt_model_builtin;
	if (!model || !*model)
		settle_by_cache();
	else if (strcmp(model, "builtin") == 0)
		snprintf(settled.source, sizeof(settled.source), "builtin");
	else
		settle_by_file(model);
	if (settled.result)
		return;
	tt_log(INFO, PLAN,
	       "this machine (%s): line %.0f ns, handover %.0f ns, copy %.2f GB/s, reduce %.2f GB/s, TCP message %.2f µs, "
	       "stream %.2f GB/s",
	       settled.source, settled.model.line * 1e9, settled.model.handover * 1e9,
	       1e-9 / settled.model.copy, 1e-9 / settled.model.reduce, settled.model.message * 1e6,
	       1e-9 / settled.model.stream);
}

tutti_result_t tt_model_get(struct tt_model *model, const char **source)
{
	pthread_once(&settled.once, settle);
	if (settled.result)
		return tt_fail(settled.result, PLAN, "%s", settled.sentence);
	*model = settled.model;
	if (source)
		*source = settled.source;
	return TUTTI_OK;
}

TUTTI_API tutti_result_t tutti_model(tutti_model_t *out)
{
	struct tt_model model = { 0 };
	const char *source = NULL;

	if (!out)
		return tt_fail(TUTTI_ERR_INVALID, PLAN, "tutti_model: out is NULL");
	if (out->size != sizeof(*out))
		return tt_fail(TUTTI_ERR_INVALID, PLAN,
			       "tutti_model: out->size is %zu, expected sizeof(tutti_model_t), %zu", out->size,
			       sizeof(*out));
	const tutti_result_t result = tt_model_get(&model, &source);
	if (result)
		return result;
	*out = (tutti_model_t){ sizeof(*out),	 model.line,	  model.handover, model.copy,
				  model.reduce, model.message, model.stream,   source };
	return TUTTI_OK;
}
