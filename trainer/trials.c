/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the trainings that are compared: each is a job of tutti-run, whose log goes into a directory of
 * this command's, or of the user's. */
#include "trials.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"
#include "option.h"
#include "picture.h"
#include "why.h"

enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	MODES_MAX = 14, /* that a report has room for */
	RANKS_MAX = 1024,
	PATH_ROOM = 512,
	MODE_ROOM = 128,
	DIRECTORY_MOST = 300,
	OPTIONS_MOST = 200,
	SAID_MOST = 2048, /* bytes of what a training said that are shown */
};

static const char usage[] =
	"Usage: tutti-train compare [--ranks N] [--modes MODE,MODE,...] [--plot FILE] [--logs DIR]\n"
	"                           --data FILE [OPTION]...\n"
	"Train in each of several ways, one after the other, with the same options of tutti-train, and\n"
	"compare the trainings as `tutti-train report` does.\n"
	"\n"
	"  --ranks N     ranks that compute (2); ps and async have a server besides\n"
	"  --modes M,... ways: names of --sync, pipeline or tensor, each with options after +, such as\n"
	"                local+every=5 (allreduce,zero1,local,ps,async)\n"
	"  --plot FILE   a picture, .svg or .png\n"
	"  --logs DIR    keep the log of each training there, MODE.json (they are removed)\n"
	"\n"
	"Exit status: 0; 1 if a training failed, 2 if the command line is wrong.\n";

struct trials {
	int ranks;
	char modes[MODES_MAX][MODE_ROOM];
	int count;
	const char *plot, *directory;
	char **options; /* of all trainings: argv's */
	int option_count;
	char own_directory[PATH_ROOM]; /* "": the user's */
	char program[PATH_ROOM], launcher[PATH_ROOM];
};

static int complain(const struct why *why, int status)
{
	fprintf(stderr, "tutti-train compare: %s\n", why->text);
	return status;
}

/* ---- the command line */

static tutti_result_t wrong(struct why *why, const char *name, const char *found,
			    const char *expected)
{
	return why_set(why, TUTTI_ERR_INVALID, "%s: found '%s', expected %s; see --help", name,
		       found, expected);
}

/* Before the first +. What follows is for the training to judge. */
static bool is_way(const char *text, char hint[TT_NEAREST_HINT])
{
	static const char *const names[] = { "allreduce", "zero1",    "local",	"ps",
					     "async",	  "pipeline", "tensor", NULL };
	char name[MODE_ROOM];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "+"), text);
	for (int i = 0; names[i]; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	tt_did_you_mean(name, names, hint);
	return false;
}

static tutti_result_t take_modes(const char *text, struct trials *t, struct why *why)
{
	static const char expected[] =
		"at most 14 names of --sync, pipeline or tensor, with commas "
		"between them, such as allreduce,local+every=5";
	const char *at = text;
	char hint[TT_NEAREST_HINT] = "";

	t->count = 0;
	for (;;) {
		const size_t length = strcspn(at, ",");

		if (length == 0 || length >= MODE_ROOM || t->count == MODES_MAX ||
		    memchr(at, '/', length))
			return wrong(why, "--modes", text, expected);
		snprintf(t->modes[t->count], MODE_ROOM, "%.*s", (int)length, at);
		for (int i = 0; i < t->count; i++)
			if (strcmp(t->modes[i], t->modes[t->count]) == 0)
				return wrong(why, "--modes", text, "each way once");
		if (!is_way(t->modes[t->count++], hint))
			return why_set(why, TUTTI_ERR_INVALID,
				       "--modes: found '%s'%s, expected %s; see --help",
				       t->modes[t->count - 1], hint, expected);
		if (at[length] == '\0')
			return TUTTI_OK;
		at += length + 1;
	}
}

static tutti_result_t take_ranks(const char *text, struct trials *t, struct why *why)
{
	char *rest;
	const long ranks = strtol(text, &rest, 10);

	if (rest == text || *rest != '\0' || ranks < 1 || ranks > RANKS_MAX)
		return wrong(why, "--ranks", text, "a whole number from 1 to 1024");
	t->ranks = (int)ranks;
	return TUTTI_OK;
}

/* "--NAME VALUE" or "--NAME=VALUE" at argv[*i]; NULL: it is another one. */
static const char *value_of(const char *name, int argc, char **argv, int *i)
{
	const size_t length = strlen(name);

	if (strncmp(argv[*i], name, length) != 0)
		return NULL;
	if (argv[*i][length] == '=')
		return argv[*i] + length + 1;
	if (argv[*i][length] != '\0')
		return NULL;
	return ++*i < argc ? argv[*i] : "";
}

/* An option that each training has for itself, or none. */
static bool is_own(const char *argument)
{
	static const char *const names[] = { "sync",	"parallel", "json",   "save", "resume",
					     "predict", "journal",  "replay", "help", "version" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t length = strlen(names[i]);

		if (strncmp(argument, "--", 2) == 0 &&
		    strncmp(argument + 2, names[i], length) == 0 &&
		    (argument[2 + length] == '\0' || argument[2 + length] == '='))
			return true;
	}
	return false;
}

static tutti_result_t take_option(struct trials *t, int argc, char **argv, int *i, struct why *why)
{
	const char *value;

	if ((value = value_of("--ranks", argc, argv, i)))
		return take_ranks(value, t, why);
	if ((value = value_of("--modes", argc, argv, i)))
		return take_modes(value, t, why);
	if ((value = value_of("--plot", argc, argv, i))) {
		t->plot = value;
		return picture_named(value) ? TUTTI_OK
					    : wrong(why, "--plot", value, PICTURE_EXPECTED);
	}
	if ((value = value_of("--logs", argc, argv, i))) {
		t->directory = value;
		return *value ? TUTTI_OK : wrong(why, "--logs", value, "a directory");
	}
	if (is_own(argv[*i]))
		return why_set(why, TUTTI_ERR_INVALID,
			       "found %s, which the trainings cannot have in common; say ways by "
			       "--modes, or leave it out",
			       argv[*i]);
	t->options[t->option_count++] = argv[*i];
	return TUTTI_OK;
}

static tutti_result_t parse(struct trials *t, int argc, char **argv, struct why *why)
{
	tutti_result_t result = take_modes("allreduce,zero1,local,ps,async", t, why);

	for (int i = 1; i < argc && result == TUTTI_OK; i++)
		result = take_option(t, argc, argv, &i, why);
	if (result == TUTTI_OK && t->option_count > OPTIONS_MOST)
		return why_set(why, TUTTI_ERR_INVALID,
			       "found %d words of options, expected %d at most", t->option_count,
			       OPTIONS_MOST);
	if (result == TUTTI_OK && t->option_count == 0)
		return why_set(why, TUTTI_ERR_INVALID,
			       "found no options, expected --data FILE at least; see --help");
	return result;
}

/* ---- programs and directories */

/* This program, and the launcher beside it: where they are installed, or where they were built. */
static tutti_result_t find_programs(struct trials *t, struct why *why)
{
	static const char *const places[] = { "tutti-run", "../tools/run/tutti-run" };
	const ssize_t length = readlink("/proc/self/exe", t->program, sizeof(t->program) - 1);
	const char *end;

	if (length < 0)
		return why_set(why, TUTTI_ERR_SYSTEM, "this program was not found: %s",
			       strerror(errno));
	t->program[length] = '\0';
	end = strrchr(t->program, '/');
	for (int i = 0; i < 2; i++) {
		snprintf(t->launcher, sizeof(t->launcher), "%.*s/%s", (int)(end - t->program),
			 t->program, places[i]);
		if (access(t->launcher, X_OK) == 0)
			return TUTTI_OK;
	}
	return why_set(why, TUTTI_ERR_SYSTEM,
		       "found no tutti-run beside %s; install both, or build the tools",
		       t->program);
}

static tutti_result_t make_directory(struct trials *t, struct why *why)
{
	const char *temporary = getenv("TMPDIR");

	if (t->directory && strlen(t->directory) > DIRECTORY_MOST)
		return wrong(why, "--logs", t->directory, "a name of at most 300 bytes");
	if (t->directory)
		return mkdir(t->directory, 0777) == 0 || errno == EEXIST
			       ? TUTTI_OK
			       : why_set(why, TUTTI_ERR_SYSTEM, "%s: cannot be made: %s",
					 t->directory, strerror(errno));
	snprintf(t->own_directory, DIRECTORY_MOST, "%.270s/tutti-compare.XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(t->own_directory)) {
		t->own_directory[0] = '\0';
		return why_set(why, TUTTI_ERR_SYSTEM, "no directory for logs: %s", strerror(errno));
	}
	t->directory = t->own_directory;
	return TUTTI_OK;
}

static void log_path(const struct trials *t, int mode, const char *ending, char out[PATH_ROOM])
{
	snprintf(out, PATH_ROOM, "%.300s/%s.%s", t->directory, t->modes[mode], ending);
}

static void remove_directory(const struct trials *t)
{
	char path[PATH_ROOM];

	if (!t->own_directory[0])
		return;
	for (int i = 0; i < t->count; i++) {
		log_path(t, i, "json", path);
		unlink(path);
		log_path(t, i, "out", path);
		unlink(path);
	}
	rmdir(t->own_directory);
}

/* ---- one training */

/* The words of its command, and memory for those that are made of the mode. */
struct command {
	char *words[256];
	int count;
	char mode[MODE_ROOM], options[8][MODE_ROOM + 2], ranks[16], log[PATH_ROOM];
};

static void add(struct command *c, const char *word)
{
	if (c->count < 255)
		c->words[c->count++] = (char *)word;
}

/* NAME+OPTION=VALUE+… */
static tutti_result_t add_mode(struct command *c, const char *mode, struct why *why)
{
	char *rest, *word;
	int options = 0;

	snprintf(c->mode, sizeof(c->mode), "%s", mode);
	word = strtok_r(c->mode, "+", &rest);
	if (!word)
		return wrong(why, "--modes", mode, "a name before the first +");
	const bool cut = strcmp(word, "pipeline") == 0 || strcmp(word, "tensor") == 0;
	add(c, cut ? "--parallel" : "--sync");
	add(c, word);
	while ((word = strtok_r(NULL, "+", &rest))) {
		if (options == 8)
			return wrong(why, "--modes", mode, "at most 8 options");
		snprintf(c->options[options], sizeof(c->options[0]), "--%s", word);
		if (is_own(c->options[options]))
			return wrong(why, "--modes", mode, "other options behind the +");
		add(c, c->options[options++]);
	}
	return TUTTI_OK;
}

static bool has_server(const char *mode)
{
	return strcmp(mode, "ps") == 0 || strncmp(mode, "ps+", 3) == 0 ||
	       strcmp(mode, "async") == 0 || strncmp(mode, "async+", 6) == 0;
}

static tutti_result_t make_command(const struct trials *t, int mode, struct command *c,
				   struct why *why)
{
	*c = (struct command){ .count = 0 };
	snprintf(c->ranks, sizeof(c->ranks), "%d", t->ranks + has_server(t->modes[mode]));
	log_path(t, mode, "json", c->log);
	add(c, t->launcher);
	add(c, "-n");
	add(c, c->ranks);
	add(c, "--no-label");
	add(c, "--");
	add(c, t->program);
	for (int i = 0; i < t->option_count; i++)
		add(c, t->options[i]);
	add(c, "--json");
	add(c, c->log);
	return add_mode(c, t->modes[mode], why);
}

/* The end of what it said, on standard error. */
static void show(const char *path)
{
	char line[1024];
	FILE *file = fopen(path, "r");

	if (file && fseek(file, -SAID_MOST, SEEK_END) == 0) /* else all of it is shorter */
		while (fgets(line, sizeof(line), file) && !strchr(line, '\n'))
			;
	while (file && fgets(line, sizeof(line), file))
		fputs(line, stderr);
	if (file)
		fclose(file);
}

/* A Ctrl-C is the job's, as with system(3): it ends, and what this command made is removed. */
static tutti_result_t run(struct command *c, const char *out, int *status, struct why *why)
{
	extern char **environ;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t usual;
	pid_t pid;
	int error;

	sigemptyset(&usual);
	sigaddset(&usual, SIGINT);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	signal(SIGINT, SIG_IGN);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	error = posix_spawn(&pid, c->words[0], &actions, &attributes, c->words, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (error)
		return why_set(why, TUTTI_ERR_SYSTEM, "%s cannot be started: %s", c->words[0],
			       strerror(error));
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return TUTTI_OK;
}

static tutti_result_t try_mode(const struct trials *t, int mode, struct why *why)
{
	struct command c;
	char out[PATH_ROOM];
	int status = 0;
	tutti_result_t result = make_command(t, mode, &c, why);

	if (result != TUTTI_OK)
		return result;
	log_path(t, mode, "out", out);
	fprintf(stderr, "%d of %d: %s on %s ranks\n", mode + 1, t->count, t->modes[mode], c.ranks);
	result = run(&c, out, &status, why);
	if (result == TUTTI_OK && status != 0) {
		show(out);
		result = why_set(why, TUTTI_ERR_SYSTEM, "%s: the training failed, as said above",
				 t->modes[mode]);
	}
	if (result == TUTTI_OK)
		unlink(out);
	return result;
}

/* ---- all of them */

static int report(const struct trials *t)
{
	char paths[MODES_MAX][PATH_ROOM], *words[MODES_MAX + 4] = { (char *)"report" };
	int count = 1;

	for (int i = 0; i < t->count; i++) {
		log_path(t, i, "json", paths[i]);
		words[count++] = paths[i];
	}
	if (t->plot) {
		words[count++] = (char *)"--plot";
		words[count++] = (char *)t->plot;
	}
	return compare_main(count, words);
}

static int compare_all(struct trials *t, struct why *why)
{
	tutti_result_t result = find_programs(t, why);

	if (result == TUTTI_OK)
		result = make_directory(t, why);
	for (int i = 0; i < t->count && result == TUTTI_OK; i++)
		result = try_mode(t, i, why);
	return result == TUTTI_OK ? report(t) : complain(why, EXIT_FAILED);
}

int trials_main(int argc, char **argv)
{
	struct trials t = { .ranks = 2, .options = calloc((size_t)argc + 1, sizeof(char *)) };
	struct why why = { "" };
	int status;

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(usage, stdout);
		free(t.options);
		return 0;
	}
	if (!t.options)
		return EXIT_FAILED;
	status = parse(&t, argc, argv, &why) == TUTTI_OK ? compare_all(&t, &why)
							 : complain(&why, EXIT_USAGE);
	remove_directory(&t);
	free(t.options);
	return status;
}
