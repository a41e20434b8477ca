/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the files that results are written to. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lines.h"
#include "output.h"
#include "outputs.h"
#include "picture.h"

static bool open_json(struct bench_outputs *outputs, const char *path)
{
	outputs->path = path;
	if (strcmp(path, "-") == 0) {
		outputs->json = stdout;
		outputs->table = false;
		return true;
	}
	outputs->json = fopen(path, "we");
	if (!outputs->json)
		bench_complain("--json: cannot write \"%s\": %m", path);
	return outputs->json != NULL;
}

/* Leaves nothing behind that was not there. Whoever reads a pipe would take this for its end. */
static bool writable(const char *path)
{
	char *const end = output_end(path); /* of links */
	struct stat info;
	const bool there = end && stat(end, &info) == 0, pipe = there && S_ISFIFO(info.st_mode);
	FILE *file = end && !pipe ? fopen(end, "ae") : NULL;

	if (!file && !pipe)
		bench_complain("--json: cannot write \"%s\": %m", path);
	if (file)
		fclose(file);
	if (file && !there)
		unlink(end);
	free(end);
	return file || pipe;
}

/* gnuplot first: where it is missing, no file is made. */
static bool drawable(const char *path)
{
	const char *missing = picture_missing();

	if (missing)
		bench_complain("--plot: %s", missing);
	else if (!output_file(path, NULL, 0))
		bench_complain("--plot: cannot write \"%s\": %m", path);
	else
		return true;
	return false;
}

bool bench_outputs_possible(const struct bench_options *options)
{
	const char *json = options->json;

	return (!options->plot || drawable(options->plot)) &&
	       (!json || strcmp(json, "-") == 0 || writable(json));
}

bool bench_outputs_open(struct bench_outputs *outputs, const struct bench_options *options)
{
	*outputs = (struct bench_outputs){ .table = true };
	return bench_outputs_possible(options) &&
	       (!options->json || open_json(outputs, options->json));
}

static int write_json(FILE *file, const json_t *object)
{
	if (!object) {
		bench_complain("--json: no memory for an object");
		return -1;
	}
	if (json_dumpf(object, file, JSON_REAL_PRECISION(9)) == 0 && fputc('\n', file) != EOF &&
	    output_flush(file))
		return 0;
	bench_complain("--json: cannot write: %m; " OUTPUT_ADVICE);
	return -1;
}

int bench_outputs_json(const struct bench_outputs *outputs, json_t *object)
{
	const int rc = outputs->json ? write_json(outputs->json, object) : 0;

	json_decref(object);
	return rc;
}

int bench_outputs_close(struct bench_outputs *outputs)
{
	if (!outputs->json || outputs->json == stdout || fclose(outputs->json) == 0)
		return 0;
	bench_complain("--json: cannot write \"%s\": %m; " OUTPUT_ADVICE, outputs->path);
	return -1;
}
