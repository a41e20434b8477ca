/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns runs of tutti-bench. */
#include "runs.h"

#include <sys/wait.h>
#include <unistd.h>

#define WORDS 40 /* of a command line */

const char *program;

static void split(char *line, char *words[WORDS])
{
	char *save;
	int n = 0;

	for (char *w = strtok_r(line, " ", &save); w && n < WORDS - 1;
	     w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	words[n] = NULL;
}

void start_words(struct run *run, char *const words[])
{
	run->out = tmpfile();
	run->err = tmpfile();
	assert_true(run->out && run->err);
	run->pid = fork();
	assert_true(run->pid >= 0);
	if (run->pid == 0) {
		dup2(fileno(run->out), STDOUT_FILENO);
		dup2(fileno(run->err), STDERR_FILENO);
		execvp(words[0], words);
		_exit(127);
	}
}

void start(struct run *run, const char *line)
{
	char *copy = strdup(line), *words[WORDS];

	assert_non_null(copy);
	split(copy, words);
	start_words(run, words);
	free(copy);
}

static void read_back(FILE *file, char *text)
{
	rewind(file);
	text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
	fclose(file);
}

void finish(struct run *run)
{
	int status;

	assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
	run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	read_back(run->out, run->out_text);
	read_back(run->err, run->err_text);
	assert_narrow(run->out_text);
}

struct run *bench(const char *arguments)
{
	static struct run run;
	char line[4096];

	snprintf(line, sizeof(line), "%s %s", program, arguments);
	start(&run, line);
	finish(&run);
	return &run;
}

void expect_status(const struct run *run, int status, const char *what)
{
	if (run->status != status)
		fail_msg("%s: exit status %d, expected %d\n%s%s", what, run->status, status,
			 run->out_text, run->err_text);
}

const char *string_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	assert_non_null(text);
	return text;
}

int each_result(struct run *run, void (*check)(const json_t *object, const void *context),
		const void *context)
{
	char *save;
	int n = 0;

	for (char *l = strtok_r(run->out_text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		json_error_t error;
		json_t *object = json_loads(l, 0, &error);

		if (!object)
			fail_msg("not JSON: %s: %s", error.text, l);
		check(object, context);
		json_decref(object);
		n++;
	}
	return n;
}

void check_result(const json_t *object, const void *context)
{
	const json_t *times = json_object_get(object, "time_us");
	const double min = json_number_value(json_object_get(times, "min"));
	const double median = json_number_value(json_object_get(times, "median"));
	const double p99 = json_number_value(json_object_get(times, "p99"));
	const int *ranks = context;

	assert_int_equal(json_integer_value(json_object_get(object, "ranks")), *ranks);
	assert_true(0 < min && min <= median && median <= p99);
	assert_true(json_integer_value(json_object_get(object, "iters")) > 0);
	if (strcmp(string_of(object, "collective"), "barrier") != 0)
		assert_int_equal(json_integer_value(json_object_get(object, "wrong")), 0);
}

void expect_refused(const char *arguments, const char *words)
{
	struct run *run = bench(arguments);

	expect_status(run, 2, arguments);
	if (!strstr(run->err_text, words))
		fail_msg("%s: \"%s\" is not in: %s", arguments, words, run->err_text);
	assert_string_equal(run->out_text, "");
}
