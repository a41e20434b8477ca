/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the command line of tutti-run: its options, their checks and the help text. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

#include "options.h"

static const char usage[] =
	"Usage: tutti-run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"Start N ranks of PROGRAM on this host, and end all of them when one fails, unless\n"
	"--min-ranks or --restart lets the others go on.\n"
	"\n"
	"  -n, --ranks N        how many ranks to start (1 to 4096)\n"
	"  -b, --bind POLICY    where ranks may run, among the cpus this process may use:\n"
	"                         share  the cores are divided evenly, so that no two ranks share\n"
	"                                one and threads of a rank have room; not bound where\n"
	"                                ranks outnumber cores (default)\n"
	"                         core   rank i on core i, counted modulo the cores\n"
	"                         numa   ranks spread over the NUMA nodes in order\n"
	"                         none   wherever the scheduler puts them\n"
	"  -m, --min-ranks M    a rank that fails does not end the job while M ranks at least go\n"
	"                       on or have ended well, replaced ones included (default N)\n"
	"  -r, --restart K      replace the first K ranks that fail, as long as others run and\n"
	"                       none has ended well: a new process with the same environment and\n"
	"                       TUTTI_JOIN=1, for the others to take in (default 0)\n"
	"  -t, --timeout S      end the job after S seconds, with exit status 124\n"
	"  -g, --grace S        seconds between SIGTERM and SIGKILL when ranks are ended\n"
	"                       (default 3; 5 after a signal that was forwarded)\n"
	"  -e, --env K=V        set a variable for the ranks; may be repeated\n"
	"  -L, --no-label       do not put \"[RANK] \" before each line of output\n"
	"  -h, --help           show this text\n"
	"  -V, --version        show the version\n"
	"\n"
	"Each rank finds TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_STORE,\n"
	"TUTTI_STORE_SERVED, TUTTI_JOB and TUTTI_KEY in its environment, TUTTI_MIN_RANKS (M) and\n"
	"TUTTI_RESTART (how many replacements are left when it starts). Rank 0 reads the standard\n"
	"input, the others and replacements read nothing. SIGINT, SIGTERM and SIGHUP are\n"
	"forwarded to the process group of every rank, SIGUSR1 and SIGUSR2 to the ranks\n"
	"that handle them (see tutti-trace); a second SIGINT kills.\n"
	"\n"
	"Exit status: that of the rank whose failure ended the job, or of the first that failed\n"
	"when another had ended well; 128 + the signal if one killed it; 0 if none failed, or the\n"
	"others went on without those that did; 124 after --timeout, 125 if tutti-run itself\n"
	"failed, 126 if PROGRAM cannot be executed, 127 if it is not found.\n";

static const struct option long_options[] = {
	{ "ranks", required_argument, NULL, 'n' },
	{ "bind", required_argument, NULL, 'b' },
	{ "min-ranks", required_argument, NULL, 'm' },
	{ "restart", required_argument, NULL, 'r' },
	{ "timeout", required_argument, NULL, 't' },
	{ "grace", required_argument, NULL, 'g' },
	{ "env", required_argument, NULL, 'e' },
	{ "no-label", no_argument, NULL, 'L' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static bool parse_count(const char *option, const char *text, const char *what, int least, int most,
			int *count)
{
	char *end;

	errno = 0;
	const long value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		fprintf(stderr, "tutti-run: %s has \"%s\": expected a number of %s from %d to %d\n",
			option, text, what, least, most);
		return false;
	}
	*count = (int)value;
	return true;
}

/* A number of seconds. */
static bool parse_seconds(const char *option, const char *text, bool zero_allowed, double *seconds)
{
	char *end;
	const double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < 0 || value > 1e9 ||
	    (value == 0 && !zero_allowed)) {
		fprintf(stderr,
			"tutti-run: %s has \"%s\": expected a number of seconds%s, such as 2.5\n",
			option, text, zero_allowed ? "" : " above 0");
		return false;
	}
	*seconds = value;
	return true;
}

static bool parse_bind(const char *text, enum bind_policy *bind)
{
	if (bind_policy_by_name(text, bind))
		return true;
	fprintf(stderr, "tutti-run: --bind has \"%s\": expected share, core, numa or none\n", text);
	return false;
}

static bool add_env(struct options *options, const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text) {
		fprintf(stderr,
			"tutti-run: --env has \"%s\": expected NAME=VALUE, such as "
			"TUTTI_LOG=info\n",
			text);
		return false;
	}
	options->env[options->env_count++] = text;
	return true;
}

static bool parse_one(struct options *options, int option)
{
	switch (option) {
	case 'n': return parse_count("-n", optarg, "ranks", 1, RUN_MAX_RANKS, &options->ranks);
	case 'm':
		return parse_count("--min-ranks", optarg, "ranks", 1, RUN_MAX_RANKS,
				   &options->min_ranks);
	case 'r':
		return parse_count("--restart", optarg, "replacements", 0, RUN_MAX_RESTARTS,
				   &options->restarts);
	case 'b': return parse_bind(optarg, &options->bind);
	case 't': return parse_seconds("--timeout", optarg, false, &options->timeout);
	case 'g': return parse_seconds("--grace", optarg, true, &options->grace);
	case 'e': return add_env(options, optarg);
	case 'L': options->label = false; return true;
	default: return false;
	}
}

static void say_wrong_option(int option, char **argv)
{
	const char *given = argv[optind - 1];

	if (option == ':')
		fprintf(stderr, "tutti-run: %s needs a value; tutti-run --help shows which\n",
			given);
	else if (optopt)
		fprintf(stderr,
			"tutti-run: unknown option -%c: expected -n, -b, -m, -r, -t, -g, -e, "
			"-L, -h or -V\n",
			optopt);
	else
		fprintf(stderr,
			"tutti-run: unknown option %s: expected --ranks, --bind, --min-ranks, "
			"--restart, --timeout, --grace, --env, --no-label, --help or --version "
			"(options of the program come after --)\n",
			given);
}

/* What getopt_long() cannot know: a number of ranks and a program are needed, and belong
 * together with the rest. */
static enum options_verdict check_complete(const struct options *options)
{
	if (options->ranks == 0)
		fputs("tutti-run: no number of ranks: expected -n N, as in tutti-run -n 4 -- "
		      "./program\n",
		      stderr);
	else if (options->min_ranks > options->ranks)
		fprintf(stderr,
			"tutti-run: --min-ranks has %d: expected at most the %d ranks of -n\n",
			options->min_ranks, options->ranks);
	else if (!options->program[0] || !options->program[0][0])
		fputs("tutti-run: no program: expected tutti-run -n N -- PROGRAM [ARGUMENT]...\n",
		      stderr);
	else
		return OPTIONS_RUN;
	return OPTIONS_WRONG;
}

enum options_verdict options_parse(struct options *options, int argc, char **argv)
{
	int option;

	*options = (struct options){ .bind = BIND_SHARE, .grace = -1, .label = true };
	options->env = calloc((size_t)argc + 1, sizeof(*options->env));
	if (!options->env) {
		fputs("tutti-run: no memory for the options\n", stderr);
		return OPTIONS_WRONG;
	}
	/* '+': the first argument that is no option is the program; what follows is its own */
	while ((option = getopt_long(argc, argv, "+:n:b:m:r:t:g:e:LhV", long_options, NULL)) !=
	       -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return OPTIONS_DONE;
		}
		if (option == 'V') {
			printf("tutti-run %s\n", tutti_version());
			return OPTIONS_DONE;
		}
		if (option == '?' || option == ':')
			say_wrong_option(option, argv);
		if (!parse_one(options, option))
			return OPTIONS_WRONG;
	}
	options->program = argv + optind;
	if (options->min_ranks == 0)
		options->min_ranks = options->ranks;
	return check_complete(options);
}

void options_finish(struct options *options)
{
	free(options->env);
}
