/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the figures of the cost model come from. They are settled once per process, so each
 * claim is tried in a child, which tells what it found through a pipe. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "test_folder.h"
#include "tutti/tutti.h"

/* What a process finds. */
struct found {
	tutti_result_t result;
	tutti_model_t model;
	char source[512], error_text[512];
};

#define FIRST "tutti model 1, femtoseconds\n"

static void look(struct found *found)
{
	found->model.size = sizeof(found->model);
	found->result = tutti_model(&found->model);
	snprintf(found->source, sizeof(found->source), "%s",
		 found->result ? "" : found->model.source);
	snprintf(found->error_text, sizeof(found->error_text), "%s", tutti_last_error(NULL));
	found->model.source = NULL; /* means nothing to the other process */
}

static void use_one_core(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void set_or_not(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* In a child with TUTTI_MODEL, XDG_CACHE_HOME and HOME as given (NULL: not set). */
static struct found find(const char *model, const char *cache, const char *home,
			 void (*before)(void))
{
	struct found found = { 0 };
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	const pid_t child = fork();
	if (child == 0) {
		set_or_not("TUTTI_MODEL", model);
		set_or_not("XDG_CACHE_HOME", cache);
		set_or_not("HOME", home);
		if (before)
			before();
		look(&found);
		_exit(write(pipes[1], &found, sizeof(found)) != sizeof(found));
	}
	assert_true(child > 0);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &found, sizeof(found)), sizeof(found));
	close(pipes[0]);
	await_exit(child, 0);
	return found;
}

static void assert_sound(const struct found *found)
{
	const tutti_model_t *model = &found->model;

	assert_int_equal(found->result, TUTTI_OK);
	assert_true(model->line > 1e-9 && model->line < 1e-4);
	assert_true(model->handover > 1e-8 && model->handover < 1e-3);
	assert_true(model->copy > 1e-13 && model->copy < 1e-8);
	assert_true(model->reduce > 1e-13 && model->reduce < 1e-8);
	assert_true(model->message > 1e-8 && model->message < 1e-3);
	assert_true(model->stream > 1e-13 && model->stream < 1e-8);
}

/* Some figures may be those of an ordinary machine then, which are good ones, too; none are
 * kept. */
static bool too_busy(const struct found *found)
{
	return strcmp(found->source, "measured in part") == 0;
}

TEST(a_wrong_call_is_an_error)
{
	tutti_model_t model = { .size = 1 };

	assert_int_equal(tutti_model(NULL), TUTTI_ERR_INVALID);
	assert_fails(tutti_model(&model), TUTTI_ERR_INVALID,
		     "out->size is 1, expected sizeof(tutti_model_t)");
}

TEST(builtin_touches_no_file)
{
	const struct found found = find("builtin", path_of("unused"), NULL, NULL);

	assert_string_equal(found.source, "builtin");
	assert_sound(&found);
	assert_int_equal(access(path_of("unused"), F_OK), -1);
}

TEST(a_first_process_measures_and_a_second_one_reads)
{
	const char *path = path_of("first");
	const struct found first = find(path, NULL, NULL, NULL);

	assert_sound(&first);
	if (too_busy(&first))
		skip();
	assert_string_equal(first.source, path);
	const struct found second = find(path, NULL, NULL, NULL),
			   third = find(path, NULL, NULL, NULL);
	assert_string_equal(second.source, path);
	assert_memory_equal(&second.model, &third.model, sizeof(third.model));
	assert_true(second.model.line > first.model.line * 0.999 &&
		    second.model.line < first.model.line * 1.001);
}

TEST(the_cache_is_in_the_user_s_folder)
{
	const struct found xdg = find(NULL, path_of("cache"), path_of("home"), NULL);
	const struct found home = find(NULL, NULL, path_of("cache"), NULL);
	const struct found again = find(NULL, path_of("cache"), NULL, NULL);

	if (too_busy(&xdg) || too_busy(&home))
		skip();
	assert_ptr_equal(strstr(xdg.source, path_of("cache/tutti/model-")), xdg.source);
	assert_ptr_equal(strstr(home.source, path_of("cache/.cache/tutti/")), home.source);
	assert_string_equal(again.source, xdg.source);
	assert_int_equal(access(path_of("home"), F_OK), -1);
}

TEST(without_a_place_for_a_cache_each_process_measures)
{
	const struct found nowhere = find(NULL, NULL, NULL, NULL);
	const struct found no_folder = find(NULL, file_with("file", ""), NULL, NULL);

	assert_ptr_equal(strstr(nowhere.source, "measured"), nowhere.source);
	assert_sound(&nowhere);
	assert_ptr_equal(strstr(no_folder.source, "measured"), no_folder.source);
	assert_sound(&no_folder);
}

TEST(a_spoilt_cache_is_measured_again)
{
	const struct found first = find(NULL, path_of("spoilt"), NULL, NULL);

	if (too_busy(&first))
		skip();
	FILE *file = fopen(first.source, "w");
	assert_non_null(file);
	fputs(FIRST "line 100000000\nhandover never\n", file);
	fclose(file);
	const struct found second = find(NULL, path_of("spoilt"), NULL, NULL);
	assert_sound(&second);
	assert_string_equal(second.error_text, "");
	if (too_busy(&second))
		skip();
	assert_int_equal(find(second.source, NULL, NULL, NULL).result, TUTTI_OK);
}

TEST(a_bound_process_measures_the_whole_machine)
{
	const struct found found = find(path_of("bound"), NULL, NULL, use_one_core);
	const struct found builtin = find("builtin", NULL, NULL, NULL);

	assert_sound(&found);
	if (too_busy(&found))
		skip();
	assert_true(found.model.handover != builtin.model.handover);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		assert_true(found.model.line != builtin.model.line);
}

TEST(a_file_of_the_user_s_with_other_contents_is_an_error)
{
	static const struct {
		const char *text, *error_text;
	} cases[] = {
		{ "", "does not begin with the line \"tutti model 1, femtoseconds\"" },
		{ "tutti model 2\nline 8\n", "does not begin" },
		{ FIRST, "line 2 is \"\": expected \"line FEMTOSECONDS\"" },
		{ FIRST "handover 8\n",
		  "line 2 is \"handover 8\": expected \"line FEMTOSECONDS\"" },
		{ FIRST "line fast\n", "line 2 is \"line fast\"" },
		{ FIRST "line 0\n", "above 0 and below" },
		{ FIRST "line -1\n", "above 0 and below" },
		{ FIRST "line 10000000000000\n", "above 0 and below" },
		{ FIRST "line 99999999999999999999999\n", "above 0 and below" },
		{ FIRST "line 1e-7\n", "line 2 is \"line 1e-7\"" },
		{ FIRST "line 8 8\n", "line 2 is \"line 8 8\"" },
		{ FIRST "line 8\nhandover 8\ncopy 8\nreduce 8\nmessage 8\n", "line 7 is \"\"" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct found found = find(file_with("user", cases[i].text), NULL, NULL, NULL);
		char kept[200] = "";
		FILE *file = fopen(path_of("user"), "r");

		assert_int_equal(found.result, TUTTI_ERR_INVALID);
		if (!strstr(found.error_text, cases[i].error_text) ||
		    !strstr(found.error_text, "TUTTI_MODEL"))
			fail_msg("\"%s\" gave the sentence: %s", cases[i].text, found.error_text);
		assert_int_equal(fread(kept, 1, sizeof(kept) - 1, file), strlen(cases[i].text));
		assert_string_equal(kept, cases[i].text);
		fclose(file);
	}
}

/* However the measurement would have come out. */
TEST(a_file_that_cannot_be_made_is_refused)
{
	const struct found found = find("/nowhere/model", NULL, NULL, NULL);

	assert_int_equal(found.result, TUTTI_ERR_SYSTEM);
	assert_says(found.error_text,
		    "TUTTI_MODEL: /nowhere/model does not exist, and cannot be made");
}

/* Nobody waits for its other end. */
TEST(a_pipe_is_no_file)
{
	const char *path = path_of("pipe");

	assert_int_equal(mkfifo(path, 0600), 0);
	const struct found found = find(path, NULL, NULL, NULL);
	assert_int_equal(found.result, TUTTI_ERR_INVALID);
	assert_says(found.error_text, "is no regular file");
}

TEST(a_place_that_cannot_be_written_is_an_error)
{
	const struct found folderless = find(path_of("none/such"), NULL, NULL, NULL);
	const struct found a_folder = find(folder, NULL, NULL, NULL);

	if (!too_busy(&folderless))
		assert_int_equal(folderless.result, TUTTI_ERR_SYSTEM);
	assert_int_not_equal(a_folder.result, TUTTI_OK);
	assert_says(a_folder.error_text, folder);
}

int main(void)
{
	return run_claims(make_folder, remove_folder);
}
