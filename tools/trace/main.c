/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-trace: what happened in a job, from the reports of its ranks' flight recorders. Owns the
 * command line. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/tutti.h"

#include "option.h"
#include "output.h"
#include "analysis.h"

static const char usage[] =
	"Usage: tutti-trace [OPTION]... [DIRECTORY|FILE]...\n"
	"Tell what happened in a job: who was silent, who differed, who was late, what took long.\n"
	"\n"
	"Reads what ranks wrote when their communicator was revoked, or on SIGUSR1\n"
	"(docs/reference/trace.md), from the directories and files given, or that of TUTTI_TRACE\n"
	"(default: $TMPDIR/tutti-UID or /tmp/tutti-UID). For ranks of this host that were killed\n"
	"and that nobody has reported, reports are written first.\n"
	"\n"
	"  -o, --output FILE  write the operations of all ranks for Perfetto and chrome://tracing\n"
	"  -j, --job NAME     of this job, and not of the last one\n"
	"  -l, --list         list the jobs instead: name, time of the newest report, ranks\n"
	"      --json         print the reports of the job's ranks instead, as JSON, one to a\n"
	"                     line\n"
	"  -h, --help         show this text\n"
	"  -V, --version      show the version\n"
	"\n"
	"Exit status: 0; 1 if there is nothing to report, a file that was named is no report, or\n"
	"the output cannot be written; 2 if the command line is wrong.\n";

enum { OPTION_JSON = 256 };

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "job", required_argument, NULL, 'j' },
	{ "list", no_argument, NULL, 'l' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct options {
	const char *output, *job;
	bool json, list;
};

static void say_wrong(int option, char **argv)
{
	char why[TT_OPTION_WHY];

	fprintf(stderr,
		"tutti-trace: %s: expected --output FILE, --job NAME, --list, --json, --help or "
		"--version\n",
		tt_option_why(option, argv, long_options, why));
	exit(2);
}

static void check(const struct options *options)
{
	const char *unused = options->job      ? "--job"
			     : options->output ? "--output"
			     : options->json   ? "--json"
					       : NULL;

	if (options->list && unused)
		fprintf(stderr,
			"tutti-trace: found --list and %s, which has no use there; leave one of the two out\n",
			unused);
	else if (options->job && !*options->job)
		fprintf(stderr, "tutti-trace: --job is empty, expected a name that --list shows\n");
	else
		return;
	exit(2);
}

/* Ends the program where there is nothing to tell, or the command line is wrong. */
static void parse(struct options *options, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, ":o:j:lhV", long_options, NULL)) != -1) {
		switch (option) {
		case 'o': options->output = optarg; break;
		case 'j': options->job = optarg; break;
		case 'l': options->list = true; break;
		case OPTION_JSON: options->json = true; break;
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': printf("tutti-trace %s\n", tutti_version()); exit(0);
		default: say_wrong(option, argv);
		}
	}
	check(options);
}

/* The same place as the library's. */
static bool default_directory(char *out, size_t size)
{
	const char *trace = getenv("TUTTI_TRACE"), *temporary = getenv("TMPDIR");

	if (trace && strcmp(trace, "off") == 0) {
		fputs("tutti-trace: TUTTI_TRACE is off: name the directory\n", stderr);
		return false;
	}
	if (trace && *trace)
		return (size_t)snprintf(out, size, "%s", trace) < size;
	return (size_t)snprintf(out, size, "%s/tutti-%u",
				temporary && *temporary == '/' ? temporary : "/tmp",
				(unsigned)geteuid()) < size;
}

static void recover(const char *directory)
{
	int count;

	if (tutti_trace_recover(directory, &count) != TUTTI_OK)
		fprintf(stderr, "tutti-trace: cannot look for ranks that were killed: %s\n",
			tutti_last_error(NULL));
	else if (count > 0)
		fprintf(stderr, "tutti-trace: wrote the reports of ranks that were killed: %d\n",
			count);
}

static void read_place(struct flights *flights, const char *path)
{
	struct stat info;

	if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
		recover(path);
		flights_await_any(path);
	}
	flights_read(flights, path);
}

static bool read_all(struct flights *flights, int count, char **paths)
{
	const char *trace = getenv("TUTTI_TRACE");
	char directory[4096];

	if (count > 0) {
		for (int i = 0; i < count; i++)
			read_place(flights, paths[i]);
		return true;
	}
	if (!default_directory(directory, sizeof(directory)))
		return false;
	/* a directory that is named was made by the first job that had it */
	if (!trace || !*trace || access(directory, F_OK) == 0)
		recover(NULL);
	flights_await_any(directory);
	flights_read(flights, directory);
	if (flights->n + flights->nexits == 0)
		fprintf(stderr, "tutti-trace: no report in %s\n", directory);
	return true;
}

static bool list(const struct flights *flights)
{
	jobs_print(stdout, flights);
	return flights->n + flights->nexits > 0;
}

static bool tell(const struct options *options, struct flights *flights)
{
	if (!jobs_select(flights, options->job))
		return false;
	flights_await(flights);
	flights_arrange(flights);
	if (options->json)
		flights_print(stdout, flights);
	else
		analysis_print(stdout, flights);
	if (!options->output || chrome_write(flights, options->output))
		return true;
	fprintf(stderr, "tutti-trace: cannot write \"%s\": %s; " OUTPUT_ADVICE "\n",
		options->output, strerror(errno));
	return false;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	struct flights flights = { 0 };
	bool good;

	output_begin(1);
	parse(&options, argc, argv);
	good = read_all(&flights, argc - optind, argv + optind);
	if (good && flights.n + flights.nexits == 0 && optind < argc)
		fputs("tutti-trace: no reports of flight recorders there\n", stderr);
	good = good && (options.list ? list(&flights) : tell(&options, &flights));
	if (flights.unreadable && optind < argc)
		good = false;
	flights_finish(&flights);
	return good ? 0 : 1;
}
