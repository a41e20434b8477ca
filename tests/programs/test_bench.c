/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-bench as its users run it: real ranks, its output, its exit status, and what remains of it.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "launched.h"

#define WORDS	   40
#define TEXT_BYTES (1 << 18)

static const char *program; /* the path of tutti-bench */

/* A program that runs, both of its outputs in files that are gone when it is. */
struct run {
	pid_t pid;
	FILE *out, *err;
	int status; /* as a shell has it: 128 + signal if killed */
	char out_text[TEXT_BYTES], err_text[TEXT_BYTES];
};

static void split(char *line, char *words[WORDS])
{
	char *save;
	int n = 0;

	for (char *w = strtok_r(line, " ", &save); w && n < WORDS - 1;
	     w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	words[n] = NULL;
}

static void start_words(struct run *run, char *const words[])
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

static void start(struct run *run, const char *line)
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

static void finish(struct run *run)
{
	int status;

	assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
	run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	read_back(run->out, run->out_text);
	read_back(run->err, run->err_text);
	assert_narrow(run->out_text);
}

/* Run tutti-bench with `arguments` to its end. */
static struct run *bench(const char *arguments)
{
	static struct run run;
	char line[4096];

	snprintf(line, sizeof(line), "%s %s", program, arguments);
	start(&run, line);
	finish(&run);
	return &run;
}

static void expect_status(const struct run *run, int status, const char *what)
{
	if (run->status != status)
		fail_msg("%s: exit status %d, expected %d\n%s%s", what, run->status, status,
			 run->out_text, run->err_text);
}

static const char *string_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	assert_non_null(text);
	return text;
}

/* Check each line of the run's output; returns how many there are. */
static int each_result(struct run *run, void (*check)(const json_t *object, const void *context),
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

static void check_result(const json_t *object, const void *context)
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

/* 10 collectives with data, in and out of place, of 3 sizes; and the barrier */
#define RESULTS_OF_ALL (10 * 2 * 3 + 1)

static void every_collective_is_right_with(int ranks, const char *transport)
{
	char arguments[256];
	struct run *run;

	snprintf(arguments, sizeof(arguments),
		 "all -r %d -b 64 -e 256K -f 64 -n 3 -w 1 --json - %s", ranks, transport);
	run = bench(arguments);
	expect_status(run, 0, arguments);
	assert_int_equal(each_result(run, check_result, &ranks), RESULTS_OF_ALL);
}

static void every_collective_is_right_with_1_2_and_4_ranks(void **state)
{
	every_collective_is_right_with(1, "");
	every_collective_is_right_with(2, "");
	every_collective_is_right_with(4, "");
}

static void every_collective_is_right_over_tcp(void **state)
{
	every_collective_is_right_with(3, "--transport tcp");
}

static void every_collective_is_right_in_memory_of_tutti(void **state)
{
	every_collective_is_right_with(3, "-m tutti");
}

static void point_to_point_is_right(void **state)
{
	const int ranks = 3;
	struct run *run = bench("latency -r 3 -e 1M -f 128 -n 4 --json -");

	expect_status(run, 0, "latency");
	assert_int_equal(each_result(run, check_result, &ranks), 3);
	run = bench("bandwidth -r 3 -e 1M -f 128 -n 4 --json -");
	expect_status(run, 0, "bandwidth");
	assert_int_equal(each_result(run, check_result, &ranks), 3);
}

static void every_type_and_operation_is_right(void **state)
{
	static const char *const types[] = { "int8",	    "uint8",	  "int16",   "uint16",
					     "int32",	    "uint32",	  "int64",   "uint64",
					     "float16",	    "bfloat16",	  "float32", "float64",
					     "float8_e4m3", "float8_e5m2" };
	static const char *const ops[] = { "prod", "avg", "max", "min", "bxor" };
	char arguments[256];

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		const bool real = strstr(types[t], "float");
		const char *op = ops[t % (real ? 4 : 5)];

		snprintf(arguments, sizeof(arguments),
			 "all_reduce -r 3 -b 3K -e 3K -n 1 -w 0 -d %s -o %s", types[t], op);
		expect_status(bench(arguments), 0, arguments);
	}
}

static void a_table_has_the_columns_that_its_test_fills(void **state)
{
	struct run *run = bench("all -e 8 -n 1 -w 0");

	expect_status(run, 0, "all");
	assert_contains(run->out_text, "# tutti reduce of float32, sum, root 0, 2 ranks,");
	assert_contains(run->out_text, "#   size (B) place   median      p99      min   algbw   "
				       "busbw wrong  transport/algorithm\n");
	assert_contains(run->out_text, "           8   out ");
	assert_contains(run->out_text, "           8    in ");
	assert_contains(run->out_text,
			"#   median      p99      min  transport/algorithm\n"); /* of the barrier */
	assert_lacks(run->out_text, " -  ");
	for (int i = 0; i < 2; i++) {
		run = bench(i ? "bandwidth -e 8 -n 64 -w 0" : "latency -e 8 -n 1 -w 0");
		expect_status(run, 0, "point to point");
		assert_contains(run->out_text, "#   size (B)   median      p99      min   algbw   "
					       "busbw wrong  transport\n");
		assert_contains(run->out_text, "     0  shm\n");
		assert_lacks(run->out_text, "place");
	}
	run = bench("init -n 1");
	expect_status(run, 0, "init");
	assert_contains(run->out_text, "transport/algorithm\n");
	assert_contains(run->out_text, " shared\n");
}

/* Four ranks that believe to be on the hosts `hosts`, a letter for each, print `words`. */
static void expect_on_hosts(const char *hosts, const char *arguments, const char *words)
{
	static struct run run;
	char script[2048];
	char *shell[] = { "sh", "-c", script, NULL };

	snprintf(script, sizeof(script),
		 "export TUTTI_STORE=file:$(mktemp -d) TUTTI_JOB=hosts TUTTI_SIZE=4; h=%s; "
		 "ended=0; pids=; for r in 0 1 2 3; do "
		 "TUTTI_RANK=$r TUTTI_HOST_ID=$(echo $h | cut -c $((r + 1))) %s %s & pids=\"$pids "
		 "$!\"; done; "
		 "for p in $pids; do wait $p || ended=1; done; rm -r ${TUTTI_STORE#file:}; exit "
		 "$ended",
		 hosts, program, arguments);
	start_words(&run, shell);
	finish(&run);
	expect_status(&run, 0, arguments);
	assert_contains(run.out_text, words);
}

static void the_transport_is_that_of_what_ran(void **state)
{
	expect_on_hosts("aabb", "latency -e 8 -n 1 -w 0", "  shm\n");
	expect_on_hosts("abab", "latency -e 8 -n 1 -w 0", "  tcp\n");
	expect_on_hosts("abbb", "bandwidth -e 8 -n 64 -w 0", "  tcp\n");
	expect_on_hosts("aabb", "all_reduce --algorithm hierarchical_split -e 8 -n 1 -w 0",
			"  shm+tcp/hierarchical_split\n");
	/* rank 0 sends over TCP alone, others meet in shared memory */
	expect_on_hosts("abbb", "all_reduce --algorithm ring -e 8 -n 1 -w 0", "  shm+tcp/ring\n");
	expect_on_hosts("aabb", "barrier -n 1 -w 0 --json -", "\"transport\": \"shm+tcp\"");
}

static void wrong_command_lines_end_with_status_2(void **state)
{
	struct run *run = bench("all_reduce -d float33");

	expect_status(run, 2, "-d float33");
	assert_non_null(strstr(run->err_text, "float33"));
	run = bench("broadcast -r 2 -R 2");
	expect_status(run, 2, "-R 2");
	run = bench("latency -r 1");
	expect_status(run, 2, "latency -r 1");
	run = bench("--version");
	expect_status(run, 0, "--version");
	assert_memory_equal(run->out_text, "tutti-bench ", strlen("tutti-bench "));
}

/* One process prints each error: there are no ranks yet. */
static void misspelt_words_are_explained_before_ranks_start(void **state)
{
	static const struct {
		const char *arguments, *words;
	} wrong[] = {
		{ "allreduce -r 4", "\"allreduce\" was found (did you mean all_reduce?)" },
		{ "all_reduce -r 4 -d flaot32", "(did you mean float32?)" },
		{ "all_reduce -r 4 -o summ", "(did you mean sum?)" },
		{ "all_reduce -r 4 -m mallloc", "(did you mean malloc?)" },
		{ "all_reduce -r 4 --tnue", "unknown option --tnue (did you mean --tune?)" },
		{ "all_reduce -r 4 --tune=3", "--tune takes no value" },
		{ "all_reduce -r", "-r needs a value" },
		{ "all_reduce -r 4 --transport tpc", "\"tpc\" (did you mean tcp?)" },
		{ "all_reduce -r 4 --algorithm rnig", "\"rnig\" (did you mean ring?)" },
		{ "all_reduce -r 4 --plot x.pdf",
		  "\"x.pdf\" is not a file name that ends in .svg or .png" },
		{ "all_reduce -r 4 --plot x",
		  "\"x\" is not a file name that ends in .svg or .png" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct run *run = bench(wrong[i].arguments);
		const char *end;

		expect_status(run, 2, wrong[i].arguments);
		if (!strstr(run->err_text, wrong[i].words))
			fail_msg("\"%s\" is not in: %s", wrong[i].words, run->err_text);
		end = strchr(run->err_text, '\n');
		if (!end || end[1] != '\0')
			fail_msg("%s: not one line: %s", wrong[i].arguments, run->err_text);
	}
}

static void one_rank_of_a_job_complains(const char *arguments, const char *words)
{
	static struct run run;
	char line[4096];
	const char *found;

	snprintf(line, sizeof(line), "mpiexec.hydra -n 3 %s %s", program, arguments);
	start(&run, line);
	finish(&run);
	expect_status(&run, 2, line);
	found = strstr(run.err_text, words);
	if (!found || strstr(found + 1, words))
		fail_msg("\"%s\" is not there once: %s", words, run.err_text);
}

static void a_file_that_cannot_be_written_is_said_before_measuring(void **state)
{
	struct run *run = bench("all_reduce -e 8 --json /dev/null/results.json");

	expect_status(run, 1, "--json");
	assert_non_null(strstr(run->err_text, "/dev/null/results.json"));
	assert_string_equal(run->out_text, "");
}

static void a_missing_gnuplot_is_said_before_measuring(void **state)
{
	char arguments[256], path[] = "/tmp/tutti-test-bench-XXXXXX.svg";
	char *old = strdup(getenv("PATH"));
	struct run *run;
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	close(fd);
	snprintf(arguments, sizeof(arguments), "all_reduce -e 8 --plot %s", path);
	setenv("PATH", "/dev/null", 1);
	run = bench(arguments);
	setenv("PATH", old, 1);
	free(old);
	unlink(path);
	expect_status(run, 1, "--plot");
	assert_non_null(strstr(run->err_text, "gnuplot was not found"));
	assert_string_equal(run->out_text, "");
}

static void expect_refused(const char *arguments, const char *words)
{
	struct run *run = bench(arguments);

	expect_status(run, 2, arguments);
	if (!strstr(run->err_text, words))
		fail_msg("%s: \"%s\" is not in: %s", arguments, words, run->err_text);
	assert_string_equal(run->out_text, "");
}

static void a_picture_is_drawn(void **state)
{
	static const char *const labels[] = { "width=\"900\"",
					      ">all_reduce<",
					      ">exscan<",
					      ">out of place<",
					      ">in place<",
					      ">median time<",
					      ">bus bandwidth in GB/s<",
					      ">128 B<",
					      ">tutti, 2 ranks, shm, float32, barrier in ",
					      " core",
					      " · tutti 0." };
	static char text[1 << 20];
	char arguments[256], path[] = "/tmp/tutti-test-bench-XXXXXX.svg";
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	if (system("gnuplot --version >/dev/null 2>&1") != 0) {
		close(fd);
		unlink(path);
		print_message("gnuplot is not installed\n");
		skip();
	}
	snprintf(arguments, sizeof(arguments), "all -b 64 -e 256 -n 1 -w 0 --plot %s", path);
	expect_status(bench(arguments), 0, arguments);
	text[pread(fd, text, sizeof(text) - 1, 0)] = '\0';
	assert_memory_equal(text, "<?xml", 5);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		assert_contains(text, labels[i]);
	assert_int_equal(count_of(text, "<path stroke='rgb(  0, 114, 178)'"),
			 20 + 1); /* out of place; in the legend */
	/* in place */
	assert_int_equal(count_of(text, "<path stroke='rgb(213,  94,   0)'"), 20 + 1);
	close(fd);
	unlink(path);
}

static void a_picture_may_be_a_png_and_one_of_a_barrier_is_refused(void **state)
{
	static const unsigned char signature[] =
		"\211PNG\r\n\032\n\0\0\0\015IHDR\0\0\003\204"; /* 900 wide */
	char arguments[256], path[] = "/tmp/tutti-test-bench-XXXXXX.png",
			     head[sizeof(signature) - 1];
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	snprintf(arguments, sizeof(arguments), "barrier -e 64 --plot %s", path);
	expect_refused(arguments, "no sizes to draw over");
	if (system("gnuplot --version >/dev/null 2>&1") == 0) {
		snprintf(arguments, sizeof(arguments), "latency -b 64 -e 64 -n 1 -w 0 --plot %s",
			 path);
		expect_status(bench(arguments), 0, arguments);
		assert_int_equal(pread(fd, head, sizeof(head), 0), sizeof(head));
		assert_memory_equal(head, signature, sizeof(head));
	}
	close(fd);
	unlink(path);
}

/* ---- chosen against forced */

#define TUNE "all_reduce --tune -r 2 --transport shm -b 64 -e 4K -f 64 -n 5 -w 1 "

/* What can do an all-reduce of two ranks that share memory. */
static const char *const able[] = {
	"board", "direct",   "flat",	 "star",       "doubling", "tree", "halving_doubling",
	"ring",	 "pairwise", "two_shot", "double_tree"
};
#define ABLE (sizeof(able) / sizeof(able[0]))

static size_t able_number(const char *name)
{
	size_t i = 0;

	while (i < ABLE && strcmp(able[i], name) != 0)
		i++;
	return i;
}

/* Below each row all that can, each with its time, and nobody else. */
static void expect_forced(const char *text, int rows)
{
	char list[512] = "", *save;
	int found = 0, names = 0;

	for (const char *at = strstr(text, "\n# board "); at; at = strstr(at + 1, "\n# board ")) {
		snprintf(list, sizeof(list), "%s", at + 2);
		char *end = strchr(list, '\n');

		while (end && end[1] == '#' && strncmp(end, "\n# all_reduce", 13) != 0)
			end = strchr(end + 1, '\n');
		assert_non_null(end); /* the next row, or the summary */
		*end = '\0';
		found++;
	}
	assert_int_equal(found, rows);
	for (char *word = strtok_r(list, " ,#\n", &save); word;
	     word = strtok_r(NULL, " ,#\n", &save)) {
		if (word[0] < 'a')
			continue;
		assert_string_equal(word, able[names]);
		names++;
	}
	assert_int_equal(names, ABLE);
}

static void expect_row(const char *row)
{
	char chosen[64], best[64];
	double times[2], ratio;

	assert_int_equal(sscanf(row, "%*d %*s %63s %lf %63s %lf %lf", chosen, &times[0], best,
				&times[1], &ratio),
			 5);
	assert_true(able_number(chosen) < ABLE && able_number(best) < ABLE);
	assert_true(times[0] > 0 && times[1] > 0 && ratio > 0);
}

static void tune_shows_what_is_chosen_beside_all_that_can(void **state)
{
	struct run *run = bench(TUNE);
	char *save, *line;
	int rows = 0;

	expect_status(run, 0, TUNE);
	assert_null(strstr(run->err_text, "cannot do"));
	assert_non_null(strstr(run->out_text, "# all_reduce: "));
	assert_non_null(strstr(run->out_text, " of 4 within 10 %"));
	expect_forced(run->out_text, 4);
	for (line = strtok_r(run->out_text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (line[0] == '#')
			continue;
		expect_row(line);
		rows++;
	}
	assert_int_equal(rows, 4);
}

static void check_contestant(const json_t *object, const void *context)
{
	const int ranks = 2;
	int *seen = (int *)context;
	const json_t *forced = json_object_get(object, "forced");
	const size_t number = able_number(string_of(object, "algorithm"));

	check_result(object, &ranks);
	assert_string_equal(string_of(object, "transport"), "shm");
	assert_true(json_is_boolean(forced) && number < ABLE);
	seen[json_is_true(forced) ? number : ABLE]++;
}

static void tune_writes_an_object_for_each_contestant(void **state)
{
	int seen[ABLE + 1] = { 0 };
	struct run *run = bench(TUNE "-p out --json -");

	expect_status(run, 0, TUNE "--json");
	assert_int_equal(each_result(run, check_contestant, seen), 2 * (ABLE + 1));
	for (size_t i = 0; i <= ABLE; i++)
		assert_int_equal(seen[i], 2);
}

static void check_without_shared_memory(const json_t *object, const void *context)
{
	const char *algorithm = string_of(object, "algorithm");

	check_result(object, context);
	assert_string_equal(string_of(object, "transport"), "tcp");
	assert_true(strcmp(algorithm, "board") != 0 && strcmp(algorithm, "direct") != 0);
}

static void tune_compares_every_collective_over_tcp(void **state)
{
	const int ranks = 3;
	struct run *run = bench("all --tune -r 3 --transport tcp -b 64 -e 64 -n 2 -w 1 -p in "
				"--json -");

	expect_status(run, 0, "all --tune");
	/* of 11 collectives, each by choice and by two algorithms at least */
	assert_true(each_result(run, check_without_shared_memory, &ranks) >= 33);
}

static void wrong_names_are_those_of_the_option_that_was_given(void **state)
{
	struct run *run;

	expect_refused("all_reduce -o add",
		       "tutti-bench: -o \"add\" is not an operation: expected sum, prod, min, max, "
		       "avg, band, bor or bxor");
	expect_refused("all_reduce -d flaot32",
		       "-d \"flaot32\" is not a type (did you mean float32?): expected int8, ");
	expect_refused("all_reduce --transport tpc",
		       "tutti-bench: --transport has \"tpc\" (did you mean tcp?)");
	expect_refused("all_reduce --algorithm rign",
		       "tutti-bench: --algorithm is \"rign\" (did you mean ring?)");
	setenv("TUTTI_TRANSPORT", "tpc", 1);
	expect_refused("all_reduce", "tutti-bench: TUTTI_TRANSPORT has \"tpc\" (did you");
	unsetenv("TUTTI_TRANSPORT");
	run = bench("all_reduce --json /dev/null/x");
	expect_status(run, 1, "--json /dev/null/x");
	assert_non_null(
		strstr(run->err_text, "tutti-bench: --json: cannot write \"/dev/null/x\": Not a"));
}

static void tune_says_what_it_does_not_go_with(void **state)
{
	expect_refused("all_reduce --tune --algorithm ring", "--algorithm ring leaves no choice");
	expect_refused("all_reduce --tune --plot x.svg", "--tune was found beside --plot");
	expect_refused("all_reduce --tune -r 1", "two ranks");
	expect_refused("latency --tune", "latency");
	setenv("TUTTI_ALGORITHM", "tree", 1);
	expect_refused("all_reduce --tune", "TUTTI_ALGORITHM is \"tree\"");
	unsetenv("TUTTI_ALGORITHM");
}

/* ---- the start of ranks */

static double number_of(const json_t *object, const char *group, const char *key)
{
	const json_t *value = json_object_get(group ? json_object_get(object, group) : object, key);

	if (!json_is_number(value))
		fail_msg("%s %s is no number", group ? group : "", key);
	return json_number_value(value);
}

static void check_start(const json_t *object, const void *context)
{
	const int *runs = context;
	const bool alone = number_of(object, NULL, "ranks") == 1;

	assert_string_equal(string_of(object, "collective"), "init");
	assert_int_equal(number_of(object, NULL, "iters"), *runs);
	assert_int_equal(number_of(object, NULL, "bytes"), 8);
	assert_int_equal(number_of(object, NULL, "wrong"), 0);
	assert_true(0 < number_of(object, "init_us", "min"));
	assert_true(number_of(object, "init_us", "min") <= number_of(object, "time_us", "min"));
	/* the first rank's own time has all of it */
	assert_true(0 < number_of(object, "all_us", "min"));
	assert_true(number_of(object, "all_us", "min") <= number_of(object, "time_us", "p99"));
	assert_true(number_of(object, "memory", "rss") > 0);
	assert_true(alone || number_of(object, "memory", "descriptors") > 0);
	assert_true(alone || number_of(object, NULL, "shared_memory") > 0);
}

static void a_start_is_measured_with_new_processes_each_time(void **state)
{
	const int three = 3, one = 1;
	struct run *run = bench("init -r 2 -n 3 --transport shm --json -");

	expect_status(run, 0, "init");
	assert_int_equal(each_result(run, check_start, &three), 1);
	setenv("TUTTI_RANK", "0", 1);
	setenv("TUTTI_SIZE", "1", 1);
	run = bench("init --json -"); /* a launcher's only rank has one beginning */
	unsetenv("TUTTI_RANK");
	unsetenv("TUTTI_SIZE");
	expect_status(run, 0, "init of a launcher's rank");
	assert_int_equal(each_result(run, check_start, &one), 1);
}

static void a_start_that_fails_is_said(void **state)
{
	struct run *run;

	setenv("TUTTI_MODEL", "/dev/null", 1);
	run = bench("init -r 2 -n 2");
	setenv("TUTTI_MODEL", "builtin", 1);
	expect_status(run, 1, "init with a model that is no file");
	assert_non_null(strstr(run->err_text, "/dev/null is no regular file"));
	assert_string_equal(run->out_text, "");
	expect_refused("init --plot x.svg", "--plot was found with init");
	expect_refused("init --tune", "--tune");
}

/* ---- what hides behind a computation */

#define OVERLAP "all_reduce --overlap -b 64 -e 64K -f 1024 -n 6 -w 1 -p out "

static void check_overlap(const json_t *object, const void *context)
{
	const json_t *overlap = json_object_get(object, "overlap");
	const double alone = json_number_value(json_object_get(overlap, "alone_us"));
	const double computation = json_number_value(json_object_get(overlap, "computation_us"));
	const double processor = json_number_value(json_object_get(overlap, "processor_us"));
	const double bound = json_number_value(json_object_get(overlap, "bound_us"));

	check_result(object, context);
	assert_true(alone > 0 && computation > 0 && processor > 0);
	assert_true(bound > 0.999 * alone &&
		    bound > 0.999 * (computation + processor)); /* they are rounded */
	/* below 0 there is a reason */
	assert_true(json_is_real(json_object_get(overlap, "hidden")));
	assert_int_equal(json_is_string(json_object_get(overlap, "cause")),
			 json_number_value(json_object_get(overlap, "hidden")) < 0);
}

static void overlap_shows_call_and_computation_alone_and_together(void **state)
{
	const int ranks = 2;
	struct run *run = bench(OVERLAP);

	expect_status(run, 0, OVERLAP);
	assert_non_null(strstr(run->out_text, "processor"));
	assert_non_null(strstr(run->out_text, "65536"));
	run = bench(OVERLAP "--transport tcp --json -");
	expect_status(run, 0, OVERLAP "--json");
	assert_int_equal(each_result(run, check_overlap, &ranks), 2);
	run = bench("all --overlap -b 4K -e 4K -n 1 -w 1 -p in --json -");
	expect_status(run, 0, "all --overlap");
	assert_int_equal(each_result(run, check_overlap, &ranks), 11);
}

/* As many ranks as cores are there four times. */
static void an_overlap_below_0_has_a_reason(void **state)
{
	char arguments[128];
	struct run *run;

	snprintf(arguments, sizeof(arguments), "all_reduce --overlap -r %ld -b 64 -e 64 -n 6 -w 1",
		 4 * sysconf(_SC_NPROCESSORS_ONLN));
	run = bench(arguments);
	expect_status(run, 0, arguments);
	if (strstr(run->out_text, "%a "))
		assert_contains(run->out_text,
				"\n# a: hidden is below 0, as the pair takes longer");
	for (const char *at = strchr(run->out_text, '%'); at; at = strchr(at + 1, '%')) {
		const char *begin = at;

		while (begin[-1] != ' ')
			begin--;
		assert_int_equal(*begin == '-', at[1] == 'a'); /* the only cause that counts here */
	}
}

static void overlap_says_what_it_does_not_go_with(void **state)
{
	expect_refused("all_reduce --overlap --tune", "--tune");
	expect_refused("all_reduce --overlap --plot x.svg", "--overlap was found beside --plot");
	expect_refused("all_reduce --overlap -r 1", "two ranks");
	expect_refused("bandwidth --overlap", "bandwidth");
}

/* ---- ranks that end before their time */

#define ENDLESS "all_reduce -r 2 -b 8 -e 8 -n 10000000 -p out"

/* Wait for the ranks of `parent`, and give a pidfd of each. */
static void find_ranks(pid_t parent, pid_t pids[2], int fds[2])
{
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	while (n < 2) { /* the second is there a moment after the first */
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		n = fscanf(file, "%d %d", &pids[0], &pids[1]);
		fclose(file);
		assert_int_equal(waitpid(parent, NULL, WNOHANG), 0);
	}
	for (int i = 0; i < 2; i++) {
		fds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
		assert_true(fds[i] >= 0);
	}
}

static void expect_gone(int fd)
{
	struct pollfd gone = { fd, POLLIN, 0 };

	assert_int_equal(poll(&gone, 1, 10000), 1);
	close(fd);
}

static void a_killed_rank_is_named(void **state)
{
	static struct run run;
	char line[4096];
	pid_t ranks[2];
	int fds[2];

	snprintf(line, sizeof(line), "%s %s", program, ENDLESS);
	start(&run, line);
	find_ranks(run.pid, ranks, fds);
	kill(ranks[1], SIGKILL);
	expect_gone(fds[0]);
	expect_gone(fds[1]);
	finish(&run);
	expect_status(&run, 1, "a killed rank");
	assert_non_null(strstr(run.err_text, "rank 1 was killed by signal 9"));
}

static void ranks_die_with_their_parent(void **state)
{
	static struct run run;
	char line[4096];
	pid_t ranks[2];
	int fds[2];

	snprintf(line, sizeof(line), "%s %s", program, ENDLESS);
	start(&run, line);
	find_ranks(run.pid, ranks, fds);
	kill(run.pid, SIGKILL);
	expect_gone(fds[0]);
	expect_gone(fds[1]);
	finish(&run);
	assert_int_equal(run.status, 128 + SIGKILL);
}

static void it_joins_the_ranks_of_a_launcher(void **state)
{
	static struct run run;
	char line[4096];

	if (system("mpiexec.hydra -version >/dev/null 2>&1") != 0) {
		print_message("mpiexec.hydra is not installed\n");
		skip();
	}
	snprintf(line, sizeof(line), "mpiexec.hydra -n 3 %s all_reduce -e 64 -f 8 -n 2", program);
	start(&run, line);
	finish(&run);
	expect_status(&run, 0, line);
	assert_non_null(strstr(run.out_text, "3 ranks"));
	snprintf(line, sizeof(line), "mpiexec.hydra -n 2 %s barrier --tune -n 2", program);
	start(&run, line);
	finish(&run);
	expect_status(&run, 0, line);
	assert_non_null(strstr(run.out_text, "# barrier: "));
	one_rank_of_a_job_complains("all_reduce -r 2", "-r is 2, but a launcher started 3 ranks");
	one_rank_of_a_job_complains("allreduce", "did you mean all_reduce?");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_collective_is_right_with_1_2_and_4_ranks),
		cmocka_unit_test(every_collective_is_right_over_tcp),
		cmocka_unit_test(every_collective_is_right_in_memory_of_tutti),
		cmocka_unit_test(point_to_point_is_right),
		cmocka_unit_test(every_type_and_operation_is_right),
		cmocka_unit_test(a_table_has_the_columns_that_its_test_fills),
		cmocka_unit_test(the_transport_is_that_of_what_ran),
		cmocka_unit_test(wrong_command_lines_end_with_status_2),
		cmocka_unit_test(misspelt_words_are_explained_before_ranks_start),
		cmocka_unit_test(a_file_that_cannot_be_written_is_said_before_measuring),
		cmocka_unit_test(a_missing_gnuplot_is_said_before_measuring),
		cmocka_unit_test(a_picture_is_drawn),
		cmocka_unit_test(a_picture_may_be_a_png_and_one_of_a_barrier_is_refused),
		cmocka_unit_test(tune_shows_what_is_chosen_beside_all_that_can),
		cmocka_unit_test(tune_writes_an_object_for_each_contestant),
		cmocka_unit_test(tune_compares_every_collective_over_tcp),
		cmocka_unit_test(wrong_names_are_those_of_the_option_that_was_given),
		cmocka_unit_test(tune_says_what_it_does_not_go_with),
		cmocka_unit_test(a_start_is_measured_with_new_processes_each_time),
		cmocka_unit_test(a_start_that_fails_is_said),
		cmocka_unit_test(overlap_shows_call_and_computation_alone_and_together),
		cmocka_unit_test(an_overlap_below_0_has_a_reason),
		cmocka_unit_test(overlap_says_what_it_does_not_go_with),
		cmocka_unit_test(a_killed_rank_is_named),
		cmocka_unit_test(ranks_die_with_their_parent),
		cmocka_unit_test(it_joins_the_ranks_of_a_launcher),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s PATH-OF-TUTTI-BENCH\n", argv[0]);
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
