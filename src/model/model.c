/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is known of this machine: where its figures come from.
 *
 * The cache is a file per kind of machine (processor, number of cores, kernel), as home
 * directories are shared by machines of several kinds. It appears whole or not at all, so
 * processes that measure at once do no harm. */
#include "model.h"

#include <errno.h>
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
#include "model_file.h"

const struct tt_model tt_model_builtin = { .line = 80e-9,
					   .handover = 500e-9,
					   .copy = 0.08e-9,
					   .reduce = 0.025e-9,
					   .message = 1.7e-6,
					   .stream = 0.065e-9 };

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
	snprintf(kind, sizeof(kind), "%d of %ld %s %s %s", tt_measure_cpus(&cpus),
		 sysconf(_SC_NPROCESSORS_ONLN), system.machine, system.release, processor);
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
	char error_text[400];
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
	const tutti_result_t result = path ? tt_model_write(path, &settled.model) : TUTTI_OK;
	if (path && !result)
		snprintf(settled.source, sizeof(settled.source), "%s", path);
	return result;
}

/* A cache that cannot be used is worth a line in the log, not an error. */
static void settle_by_cache(void)
{
	char path[PATH_MAX];

	if (!find_cache(path)) {
		tt_log(INFO, PLAN,
		       "there is no place for a cache (XDG_CACHE_HOME, HOME): every process measures");
		measure(NULL);
		return;
	}
	const tutti_result_t result = tt_model_read(path, &settled.model);
	if (result == TUTTI_OK) {
		snprintf(settled.source, sizeof(settled.source), "%s", path);
		return;
	}
	if (result == TUTTI_ERR_INVALID)
		tt_log(WARN, PLAN, "%s: measuring again", tt_thread_error());
	settled.model = tt_model_builtin; /* not half of what the file said */
	if (measure(path) != TUTTI_OK)
		tt_log(INFO, PLAN, "%s: every process measures", tt_thread_error());
	tt_thread_error_set("");
}

/* TUTTI_IN_PROGRESS: a file can be made there, for all that is known before. */
static tutti_result_t check_place(const char *path)
{
	char directory[PATH_MAX];
	const char *end = strrchr(path, '/');

	snprintf(directory, sizeof(directory), "%.*s", end ? (int)(end - path) + 1 : 1,
		 end ? path : ".");
	if (access(directory, W_OK | X_OK) == 0)
		return TUTTI_IN_PROGRESS;
	return tt_fail_errno(
		PLAN,
		"%s does not exist, and cannot be made: expected a file, or a directory to write one to",
		path);
}

static void settle_by_file(const char *path)
{
	settled.result = tt_model_read(path, &settled.model);
	if (settled.result == TUTTI_OK)
		snprintf(settled.source, sizeof(settled.source), "%s", path);
	if (settled.result == TUTTI_IN_PROGRESS)
		settled.result = check_place(path);
	if (settled.result == TUTTI_IN_PROGRESS)
		settled.result = measure(path);
	if (settled.result)
		snprintf(settled.error_text, sizeof(settled.error_text), "TUTTI_MODEL: %s",
			 tt_thread_error());
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
		return tt_fail(settled.result, PLAN, "%s", settled.error_text);
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
			       "tutti_model: out->size is %zu, expected sizeof(tutti_model_t), %zu",
			       out->size, sizeof(*out));
	const tutti_result_t result = tt_model_get(&model, &source);
	if (result)
		return result;
	*out = (tutti_model_t){ sizeof(*out), model.line,    model.handover, model.copy,
				model.reduce, model.message, model.stream,   source };
	return TUTTI_OK;
}
