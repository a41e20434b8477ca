/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the command line of tutti-run: its options, their checks and the help text. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

#include "option.h"
#include "options.h"
#include "printable.h"

static const char usage[] =
	"Usage: tutti-run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"Start N ranks of PROGRAM on this host, and end all of them when one fails, unless\n"
	"--min-ranks or --restart lets the others go on.\n"
	"\n"
	"  -n, --ranks N        how many ranks to start (1 to 4096); also -np, --np, --ntasks and\n"
	"                       --nproc-per-node, as other launchers call it\n"
	"  -b, --bind POLICY    where ranks may run: share (default), core, numa or none, see below\n"
	"  -m, --min-ranks M    a rank that fails does not end the job while M ranks at least go\n"
	"                       on or have ended well, replaced ones included (default N); one\n"
	"                       that hangs and that they left out is ended 10 s after them\n"
	"  -r, --restart K      replace the first K ranks that fail, as long as others run and\n"
	"                       none has ended well: a new process with the same environment and\n"
	"                       TUTTI_JOIN=1, for the others to take in (default 0)\n"
	"  -t, --timeout S      end the job after S seconds, with exit status 124\n"
	"  -g, --grace S        seconds between SIGTERM and SIGKILL when ranks are ended\n"
	"                       (default 3; 5 after a signal that was forwarded)\n"
	"  -e, --env K=V        set a variable for the ranks; may be repeated\n"
	"      --python PYTHON  start a PROGRAM that ends in .py by this interpreter\n"
	"  -L, --no-label       pass on the output byte for byte, without \"[RANK] \" before lines\n"
	"  -h, --help           show this text\n"
	"  -V, --version        show the version\n"
	"\n"
	"The policies of --bind, among the cpus that this process may use:\n"
	"\n"
	"  share                the cores are divided evenly, so that no two ranks share one and\n"
	"                       threads of a rank have room; not bound where ranks outnumber\n"
	"                       cores\n"
	"  core                 rank i on core i, counted modulo the cores\n"
	"  numa                 ranks spread over the NUMA nodes in order\n"
	"  none                 wherever the scheduler puts them\n"
	"\n"
	"Each rank finds TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_STORE,\n"
	"TUTTI_STORE_SERVED, TUTTI_JOB and TUTTI_KEY in its environment, TUTTI_MIN_RANKS (M) and\n"
	"TUTTI_RESTART (how many replacements are left when it starts); for PyTorch also RANK,\n"
	"WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, and MASTER_ADDR and MASTER_PORT unless they are\n"
	"set.\n"
	"\n"
	"Rank 0 reads the standard input, the others and replacements read nothing. SIGINT, SIGTERM\n"
	"and SIGHUP are forwarded to the process group of every rank, SIGUSR1 and SIGUSR2 to the\n"
	"ranks that handle them (see tutti-trace); a second SIGINT kills.\n"
	"\n"
	"Exit status: that of the rank whose failure ended the job, or of the first that failed\n"
	"when another had ended well; 128 + the signal if one killed it; 0 if none failed, or the\n"
	"others went on without those that did; 124 after --timeout, 125 if tutti-run itself\n"
	"failed, 126 if PROGRAM cannot be executed, 127 if it is not found.\n";

enum { FOREIGN = 256, OPTION_PYTHON };

static const struct option long_options[] = {
	{ "ranks", required_argument, NULL, 'n' },
	{ "np", required_argument, NULL, 'n' },
	{ "ntasks", required_argument, NULL, 'n' },
	{ "nproc-per-node", required_argument, NULL, 'n' },
	{ "nproc_per_node", required_argument, NULL, 'n' },
	{ "bind", required_argument, NULL, 'b' },
	{ "min-ranks", required_argument, NULL, 'm' },
	{ "restart", required_argument, NULL, 'r' },
	{ "timeout", required_argument, NULL, 't' },
	{ "grace", required_argument, NULL, 'g' },
	{ "env", required_argument, NULL, 'e' },
	{ "python", required_argument, NULL, OPTION_PYTHON },
	{ "no-label", no_argument, NULL, 'L' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* What users of other launchers write; with "-" or "--", and with "-" or "_" between words, as these
 * launchers differ in it, too. */
static const struct foreign {
	const char *instead;
	const char *names[20]; /* NULL behind the last */
} foreign[] = {
	{ "tutti-run starts ranks on this host alone: on several hosts start them "
	  "by srun, mpirun, torchrun, Kubernetes, Ray or Dask, all of which tutti knows (docs/guide/start.md)",
	  { "H", "N", "f", "host", "hosts", "hostfile", "hostlist", "machinefile",
	    "default-hostfile", "nodelist", "nodes", "nnodes", "node-rank", "master-addr",
	    "master-port", "rdzv-endpoint" } },
	{ "tutti-run starts all ranks on this host: expected -n N", { "npernode", "ppn" } },
	{ "expected --env NAME=VALUE; what is set here is inherited", { "x", "genv", "export" } },
	{ "expected --bind with share, core, numa or none", { "bind-to", "cpu-bind", "map-by" } },
	{ "each line has its rank already: leave it out",
	  { "tag-output", "prepend-rank", "label", "l" } },
	{ "tutti-run needs no such option: leave it out",
	  { "oversubscribe", "allow-run-as-root", "standalone", "no-python", "mca" } },
};

/* A line of standard error, in which what was found shows. */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "tutti-run: %s\n", tt_printable(text));
}

static bool is_named(const char *name, const char *word)
{
	while (*name && (*name == *word || (*name == '-' && *word == '_'))) {
		name++;
		word++;
	}
	return !*name && (!*word || *word == '=');
}

/* Said before getopt_long() takes -hostfile for -h. */
static bool is_foreign(const char *word)
{
	const size_t dashes = strspn(word, "-");

	if (dashes < 1 || dashes > 2)
		return false;
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		for (const char *const *name = foreign[i].names; *name; name++) {
			if (!is_named(*name, word + dashes))
				continue;
			say("found %s: %s", word, foreign[i].instead);
			return true;
		}
	return false;
}

/* -np N, as mpirun has it: to getopt_long() -n with the value "p". */
static char *count_text(char **argv)
{
	if (optarg != argv[optind - 1] + 2 || strcmp(argv[optind - 1], "-np") != 0)
		return optarg;
	return argv[optind] ? argv[optind++] : "";
}

static bool parse_count(const char *option, const char *text, const char *what, int least, int most,
			int *count)
{
	char *end;

	errno = 0;
	const long value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		say("%s has \"%s\": expected a number of %s from %d to %d", option, text, what,
		    least, most);
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
		say("%s has \"%s\": expected seconds, %s 1e9, such as 2.5", option, text,
		    zero_allowed ? "0 to" : "above 0 and at most");
		return false;
	}
	*seconds = value;
	return true;
}

static bool parse_bind(const char *text, enum bind_policy *bind)
{
	char hint[TT_NEAREST_HINT];

	if (bind_policy_by_name(text, bind))
		return true;
	say("--bind has \"%s\"%s: expected share, core, numa or none", text,
	    tt_did_you_mean(text, bind_names, hint));
	return false;
}

static bool add_env(struct options *options, const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text) {
		say("--env has \"%s\": expected NAME=VALUE, such as TUTTI_LOG=info", text);
		return false;
	}
	options->env[options->env_count++] = text;
	return true;
}

static void say_wrong_option(int option, char **argv)
{
	char why[TT_OPTION_WHY];

	say("%s; tutti-run --help lists the options (those of the program come after --)",
	    tt_option_why(option, argv, long_options, why));
}

static bool parse_one(struct options *options, int option, char **argv)
{
	switch (option) {
	case 'n':
		return parse_count("-n", count_text(argv), "ranks", 1, RUN_MAX_RANKS,
				   &options->ranks);
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
	case OPTION_PYTHON: options->python = optarg; return true;
	case FOREIGN: return false;
	default: say_wrong_option(option, argv); return false;
	}
}

/* What getopt_long() cannot know: a number of ranks and a program are needed, and belong
 * together with the rest. */
static enum options_verdict check_complete(const struct options *options)
{
	if (options->ranks == 0)
		say("no number of ranks: expected -n N, as in tutti-run -n 4 -- ./program");
	else if (options->min_ranks > options->ranks)
		say("--min-ranks has %d: expected at most the %d of -n", options->min_ranks,
		    options->ranks);
	else if (!options->program[0] || !options->program[0][0])
		say("no program: expected tutti-run -n N -- PROGRAM [ARGUMENT]...");
	else
		return OPTIONS_RUN;
	return OPTIONS_WRONG;
}

/* '+': the first argument that is no option is the program; what follows is its own. */
static int next_option(int argc, char **argv)
{
	if (optind < argc && is_foreign(argv[optind]))
		return FOREIGN;
	return getopt_long(argc, argv, "+:n:b:m:r:t:g:e:LhV", long_options, NULL);
}

static bool is_python(const char *program)
{
	const char *ending = program ? strrchr(program, '.') : NULL;

	return ending && strcmp(ending, ".py") == 0;
}

enum options_verdict options_parse(struct options *options, int argc, char **argv)
{
	int option;

	*options = (struct options){ .bind = BIND_SHARE, .grace = -1, .label = true };
	options->env = calloc((size_t)argc + 1, sizeof(*options->env));
	if (!options->env) {
		say("no memory for the options");
		return OPTIONS_WRONG;
	}
	while ((option = next_option(argc, argv)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return OPTIONS_DONE;
		}
		if (option == 'V') {
			printf("tutti-run %s\n", tutti_version());
			return OPTIONS_DONE;
		}
		if (!parse_one(options, option, argv))
			return OPTIONS_WRONG;
	}
	options->program = argv + optind;
	if (options->python && is_python(*options->program))
		*--options->program = options->python; /* in the place of an option */
	if (options->min_ranks == 0)
		options->min_ranks = options->ranks;
	return check_complete(options);
}

void options_finish(struct options *options)
{
	free(options->env);
}
