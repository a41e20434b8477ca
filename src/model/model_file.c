/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the file of a machine's figures: a first line that names the format, then a line for each
 * figure. */
#include "model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "log.h"

#define FIRST_LINE   "tutti model 1, femtoseconds"
#define FEMTO	     1e15
#define LONGEST	     10000000000000u /* 10 ms: no step of any machine takes as long */
#define SECONDS_MOST 60

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

bool tt_model_is_sane(const struct tt_model *model)
{
	for (size_t i = 0; i < NFIGURES; i++) {
		const double value = *figure((struct tt_model *)model, i);

		/* not a number is neither; a loaded machine measures more than a file may say */
		if (!(value >= 0 && value <= SECONDS_MOST))
			return false;
	}
	return true;
}

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
		return tt_fail(
			TUTTI_ERR_INVALID, PLAN,
			"%s, line %zu is \"%s\": expected \"%s FEMTOSECONDS\", above 0 and below %" PRIu64,
			path, i + 2, line, figures[i].name, (uint64_t)LONGEST);
	*figure(model, i) = (double)value / FEMTO;
	return TUTTI_OK;
}

/* NULL: errno tells. Nobody waits for the other end of a pipe. */
static FILE *open_regular(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat info;
	FILE *file = NULL;

	if (fd < 0)
		return NULL;
	errno = EINVAL;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
		file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

tutti_result_t tt_model_read(const char *path, struct tt_model *model)
{
	FILE *file = open_regular(path);
	char line[sizeof(FIRST_LINE) + 1] = "";
	tutti_result_t result = TUTTI_OK;

	if (!file && errno == ENOENT)
		return TUTTI_IN_PROGRESS;
	if (!file && errno == EINVAL)
		return tt_fail(
			TUTTI_ERR_INVALID, PLAN,
			"%s is no regular file: expected one of this library's; TUTTI_MODEL names another",
			path);
	if (!file)
		return tt_fail_errno(PLAN, "read %s", path);
	if (!fgets(line, sizeof(line), file) || strcmp(line, FIRST_LINE "\n") != 0)
		result = tt_fail(TUTTI_ERR_INVALID, PLAN,
				 "%s does not begin with the line \"" FIRST_LINE
				 "\": it is not a file of this library's",
				 path);
	for (size_t i = 0; i < NFIGURES && !result; i++)
		result = read_figure(file, path, i, model);
	fclose(file);
	return result;
}

static bool write_figures(int fd, struct tt_model *model)
{
	char text[512];
	int length = snprintf(text, sizeof(text), FIRST_LINE "\n");

	for (size_t i = 0; i < NFIGURES; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "%s %" PRIu64 "\n",
				   figures[i].name, (uint64_t)(*figure(model, i) * FEMTO));
	errno = tt_file_write(fd, 0, text, (size_t)length);
	const bool good = !errno && fchmod(fd, 0644) == 0 && fsync(fd) == 0;
	return close(fd) == 0 && good;
}

tutti_result_t tt_model_write(const char *path, struct tt_model *model)
{
	char scratch[PATH_MAX];
	const int length = snprintf(scratch, sizeof(scratch), "%s.XXXXXX", path);

	if (length >= (int)sizeof(scratch))
		return tt_fail(TUTTI_ERR_INVALID, PLAN,
			       "the path of the figures has %zu bytes, expected %d at most",
			       strlen(path), PATH_MAX - 8);
	const int fd = mkostemp(scratch, O_CLOEXEC);
	if (fd < 0)
		return tt_fail_errno(PLAN, "write %s", path);
	if (write_figures(fd, model) && rename(scratch, path) == 0)
		return TUTTI_OK;
	const tutti_result_t result = tt_fail_errno(PLAN, "write %s", path);
	unlink(scratch);
	return result;
}
