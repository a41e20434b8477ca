/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the command line: every error says what was found and what was expected. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "nearest.h"
#include "option.h"
#include "options.h"
#include "output.h"
#include "pattern.h"
#include "picture.h"
#include "wire.h"

#define MOST_BYTES ((size_t)1 << 40)
enum { MOST_SIMULATED_RANKS = 65536, LIST = 256 };

static const char help[] =
	"Usage: %s COLLECTIVE|ONE-SIDED|all|latency|bandwidth|init|waiting [OPTION]...\n"
	"Measure collectives, messages, one-sided calls, the start of a job and waits.\n"
	"\n"
	"  COLLECTIVE           all_reduce broadcast reduce reduce_scatter all_gather gather\n"
	"                       scatter all_to_all scan exscan barrier\n"
	"  ONE-SIDED            put get put_bandwidth put_signal fetch_add: of rank 0 at rank 1's\n"
	"                       memory\n"
	"  all                  each collective, one after another\n"
	"  latency, bandwidth   point to point between ranks 0 and 1\n"
	"  init                 from the initialisation to the end of the first all_reduce, with\n"
	"                       new processes each time\n"
	"  waiting              what the others use and lose while they wait for rank 0\n"
	"\n"
	"  -r, --ranks N        ranks to start, unless a launcher started this (2)\n"
	"  -b, --begin BYTES    smallest size, with K, M or G for powers of 1024 (8)\n"
	"  -e, --end BYTES      no size above this (64M)\n"
	"  -f, --factor N       each size is N times the one before (2)\n"
	"  -n, --iters N        calls to time per size (as many as fit into --seconds); of init:\n"
	"                       runs (5)\n"
	"  -w, --warmup N       calls before those (four samples)\n"
	"      --seconds S      time to spend on a size, per column (0.2)\n"
	"  -d, --type TYPE      int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16\n"
	"                       bfloat16 float32 float64 float8_e4m3 float8_e5m2 (float32)\n"
	"  -o, --op OP          sum prod min max avg band bor bxor (sum)\n"
	"  -R, --root RANK      of broadcast, reduce, gather and scatter (0)\n"
	"  -c, --check 0|1      verify the results of each size (1)\n"
	"      --callers N      of latency: so many threads of each rank, with messages of their\n"
	"                       own (1)\n"
	"  -m, --memory KIND    malloc (or host), or tutti: memory that other ranks can map, or\n"
	"                       cuda: memory of GPUs, with calls on a stream (malloc)\n"
	"      --gpu N          with -m cuda: all ranks on GPU N (rank modulo number of GPUs)\n"
	"      --windows        with -m cuda: buffers are registered\n"
	"      --graph          with -m cuda: a sample's calls are captured once, then launched\n"
	"                       as a graph\n"
	"      --chain N        with -m cuda: calls of a sample, as far as memory allows (32)\n"
	"      --threads        with -m cuda: ranks are threads of one process, not processes\n"
	"      --library NAME   with -m cuda: whose calls, tutti or nccl (tutti)\n"
	"  -p, --place WHICH    out, in or both: in which place results go (both); mpi: a\n"
	"                       broadcast's in place, all others' out of it\n"
	"      --transport T    only these, such as shm or tcp (those that fit)\n"
	"      --algorithm A    this one, such as ring (chosen by cost)\n"
	"      --wire FORMAT    what float32 travels as in all_reduce: bf16, fp16, fp8, int8; auto:\n"
	"                       before it: where that is faster; none (what TUTTI_WIRE says)\n"
	"      --tune           compare what is chosen with every algorithm forced (tutti only)\n"
	"      --overlap        how much of a collective hides behind a computation (tutti only)\n"
	"      --simulate FILE  run nothing: show what the costs of the algorithms say of the\n"
	"                       cluster that FILE describes, for 2, 4, 8 ... ranks\n"
	"                       (docs/reference/bench.md)\n"
	"      --most-ranks N   with --simulate: up to so many (65536)\n"
	"      --json FILE      write a JSON object per line and measurement; -: standard output\n"
	"      --plot FILE      draw time and bus bandwidth over size, .svg or .png (needs\n"
	"                       gnuplot)\n"
	"  -h, --help           this text\n"
	"  -V, --version        the version\n"
	"\n"
	"Exit status: 0, 1 if a result was wrong, a rank failed or the output cannot be written,\n"
	"2 if the command line or the cluster's file was wrong.\n";

static char complaint[512];

/* Keep the error for bench_options_complain(). */
static bool __attribute__((format(printf, 1, 2))) wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(complaint, sizeof(complaint), format, args);
	va_end(args);
	return false;
}

const char *bench_options_complaint(void)
{
	return complaint;
}

bool bench_options_refuse(const char *what, const char *why)
{
	return wrong("%s%s", what, why);
}

void bench_options_complain(void)
{
	bench_complain("%s; see --help", complaint);
}

/* "8", "64K", "1M", "2G": powers of 1024. False where it is none up to MOST_BYTES. */
static bool parse_size(const char *text, size_t *bytes)
{
	static const char units[] = "KMG";
	unsigned shift = 0;
	const char *unit;
	char *end;
	const unsigned long long value = strtoull(text, &end, 10);

	if (text[0] < '0' || text[0] > '9')
		return false;
	if (*end != '\0') {
		unit = strchr(units, *end == 'k' ? 'K' : *end);
		if (!unit || end[1] != '\0')
			return false;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	*bytes = (size_t)value << shift;
	return value > 0 && value <= MOST_BYTES >> shift;
}

/* ---- what follows an option: text that is wrong leaves a complaint */

static bool parse_number(const char *option, const char *text, int least, int most, int *out)
{
	char *end;
	const long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < least || value > most)
		return wrong("%s \"%s\" is not a whole number from %d to %d", option, text, least,
			     most);
	*out = (int)value;
	return true;
}

static bool parse_bytes(const char *option, const char *text, size_t *bytes)
{
	return parse_size(text, bytes) ||
	       wrong("%s \"%s\" is not a size from 1 to 1024G, such as 8, 64K or 1M", option, text);
}

static bool parse_seconds(const char *text, struct bench_options *o)
{
	char *end;

	o->seconds = strtod(text, &end);
	if (end == text || *end != '\0' || !(o->seconds > 0 && o->seconds <= 3600))
		return wrong("--seconds \"%s\" is not a number above 0 and up to 3600", text);
	return true;
}

static const char *kind_name(int kind)
{
	return bench_case((enum bench_kind)kind)->name;
}

static const char *type_name(int dtype)
{
	return bench_type_name((tutti_dtype_t)dtype);
}

/* The number of the name, `count` where it is none; the hint is for then. */
static int find_name(const char *text, int count, const char *(*name_of)(int i),
		     char hint[TT_NEAREST_HINT])
{
	struct tt_nearest nearest = tt_nearest_to(text, strlen(text));
	int i = 0;

	while (i < count && strcmp(name_of(i), text) != 0)
		tt_nearest_offer(&nearest, name_of(i++));
	tt_nearest_hint(&nearest, hint);
	return i;
}

/* "sum, prod or max" */
static const char *list_names(int count, const char *(*name_of)(int i), char out[LIST])
{
	snprintf(out, LIST, "%s", name_of(0));
	for (int i = 1; i < count; i++)
		bench_append(out, LIST, "%s%s", i == count - 1 ? " or " : ", ", name_of(i));
	return out;
}

static bool parse_kind(const char *text, enum bench_kind *kind)
{
	char hint[TT_NEAREST_HINT];

	*kind = (enum bench_kind)find_name(text, BENCH_KIND_COUNT, kind_name, hint);
	return *kind != BENCH_KIND_COUNT || strcmp(text, "all") == 0 ||
	       wrong("\"%s\" was found%s, expected a collective such as all_reduce, or all, "
		     "latency, bandwidth, init or waiting",
		     text, hint);
}

static bool parse_type(const char *text, struct bench_options *o)
{
	char hint[TT_NEAREST_HINT], list[LIST];
	const int alias = bench_type_alias(text);

	o->dtype = alias < TUTTI_DTYPE_COUNT ? alias
					     : find_name(text, TUTTI_DTYPE_COUNT, type_name, hint);
	return o->dtype != TUTTI_DTYPE_COUNT ||
	       wrong("-d \"%s\" is not a type%s: expected %s", text, hint,
		     list_names(TUTTI_DTYPE_COUNT, type_name, list));
}

static bool parse_op(const char *text, struct bench_options *o)
{
	char hint[TT_NEAREST_HINT], list[LIST];

	o->op = find_name(text, TUTTI_OP_COUNT, bench_op_name, hint);
	return o->op != TUTTI_OP_COUNT ||
	       wrong("-o \"%s\" is not an operation%s: expected %s", text, hint,
		     list_names(TUTTI_OP_COUNT, bench_op_name, list));
}

static bool parse_wire(const char *text, struct bench_options *o)
{
	static const char *const names[] = { "none", "bf16", "fp16", "fp8", "int8", NULL };
	char hint[TT_NEAREST_HINT];

	return bench_wire_find(text, &o->wire) ||
	       wrong("--wire \"%s\" is none of none, bf16, fp16, fp8 and int8, nor auto: and one of "
		     "the last four%s",
		     text, tt_did_you_mean(text, names, hint));
}

static bool parse_plot(const char *text, struct bench_options *o)
{
	o->plot = text;
	return picture_named(text) || wrong("--plot \"%s\" is not " PICTURE_EXPECTED, text);
}

static bool parse_memory(const char *text, struct bench_options *o)
{
	static const char *const names[] = { "malloc", "host", "tutti", "cuda", NULL };
	char hint[TT_NEAREST_HINT];

	o->mappable = strcmp(text, "tutti") == 0;
	o->cuda = strcmp(text, "cuda") == 0;
	return o->mappable || o->cuda || strcmp(text, "malloc") == 0 || strcmp(text, "host") == 0 ||
	       wrong("-m \"%s\" is none of malloc, host, tutti and cuda%s", text,
		     tt_did_you_mean(text, names, hint));
}

static bool parse_library(const char *text, struct bench_options *o)
{
	static const char *const names[] = { "tutti", "nccl", NULL };
	char hint[TT_NEAREST_HINT];

	o->nccl = strcmp(text, "nccl") == 0;
	return o->nccl || strcmp(text, "tutti") == 0 ||
	       wrong("--library \"%s\" is neither tutti nor nccl%s", text,
		     tt_did_you_mean(text, names, hint));
}

static bool parse_place(const char *text, struct bench_options *o)
{
	static const char *const names[] = { "out", "in", "both", "mpi", NULL };
	char hint[TT_NEAREST_HINT];

	o->inplace = strcmp(text, "out") != 0;
	o->outplace = strcmp(text, "in") != 0;
	o->mpi_place = strcmp(text, "mpi") == 0;
	return !o->inplace || !o->outplace || o->mpi_place || strcmp(text, "both") == 0 ||
	       wrong("-p \"%s\" is not out, in, both or mpi%s", text,
		     tt_did_you_mean(text, names, hint));
}

/* ---- the options */

#define AT(member) offsetof(struct bench_options, member)

static const struct known {
	const char *name;
	int letter; /* 0: none */
	/* what follows, and is put at `at` of struct bench_options; OWN: `parse` does that */
	enum { OWN, FLAG, TEXT, NUMBER, BYTES } follows;
	size_t at;
	int least, most; /* of a number */
	bool (*parse)(const char *text, struct bench_options *o);
} known[] = {
	{ "ranks", 'r', NUMBER, AT(ranks), .least = 1, .most = 4096 },
	{ "begin", 'b', BYTES, AT(begin) },
	{ "end", 'e', BYTES, AT(end) },
	{ "factor", 'f', NUMBER, AT(factor), .least = 2, .most = 1 << 20 },
	{ "iters", 'n', NUMBER, AT(iters), .least = 1, .most = 10000000 },
	{ "warmup", 'w', NUMBER, AT(warmup), .least = 0, .most = 10000000 },
	{ "seconds", .parse = parse_seconds },
	{ "type", 'd', .parse = parse_type },
	{ "op", 'o', .parse = parse_op },
	{ "root", 'R', NUMBER, AT(root), .least = 0, .most = INT_MAX },
	{ "check", 'c', NUMBER, AT(check), .least = 0, .most = 1 },
	{ "callers", 0, NUMBER, AT(callers), .least = 1, .most = 64 },
	{ "memory", 'm', .parse = parse_memory },
	{ "gpu", 0, NUMBER, AT(gpu), .least = 0, .most = 1023 },
	{ "windows", 0, FLAG, AT(windows) },
	{ "graph", 0, FLAG, AT(graph) },
	{ "chain", 0, NUMBER, AT(chain), .least = 2, .most = 65536 },
	{ "threads", 0, FLAG, AT(threads) },
	{ "library", .parse = parse_library },
	{ "place", 'p', .parse = parse_place },
	{ "transport", 0, TEXT, AT(transport) },
	{ "algorithm", 0, TEXT, AT(algorithm) },
	{ "wire", .parse = parse_wire },
	{ "tune", 0, FLAG, AT(tune) },
	{ "overlap", 0, FLAG, AT(overlap) },
	{ "simulate", 0, TEXT, AT(simulate) },
	{ "most-ranks", 0, NUMBER, AT(most_ranks), .least = 2, .most = MOST_SIMULATED_RANKS },
	{ "json", 0, TEXT, AT(json) },
	{ "plot", .parse = parse_plot },
};
enum { KNOWN = sizeof(known) / sizeof(known[0]), NO_LETTER = 256 };

/* For getopt_long(): an option is its letter, or NO_LETTER and its number. */
static void list_options(struct option longs[KNOWN + 3])
{
	for (int i = 0; i < KNOWN; i++)
		longs[i] =
			(struct option){ known[i].name,
					 known[i].follows == FLAG ? no_argument : required_argument,
					 NULL, known[i].letter ? known[i].letter : NO_LETTER + i };
	longs[KNOWN] = (struct option){ "help", no_argument, NULL, 'h' };
	longs[KNOWN + 1] = (struct option){ "version", no_argument, NULL, 'V' };
	longs[KNOWN + 2] = (struct option){ 0 };
}

static bool parse_option(int option, const char *text, struct bench_options *o)
{
	const struct known *row = &known[option < NO_LETTER ? 0 : option - NO_LETTER];
	char name[32];
	void *to;

	while (option < NO_LETTER && row->letter != option)
		row++;
	if (row->letter)
		snprintf(name, sizeof(name), "-%c", row->letter);
	else
		snprintf(name, sizeof(name), "--%s", row->name);
	to = (char *)o + row->at;
	switch (row->follows) {
	case FLAG: *(bool *)to = true; return true;
	case TEXT: *(const char **)to = text; return true;
	case NUMBER: return parse_number(name, text, row->least, row->most, to);
	case BYTES: return parse_bytes(name, text, to);
	default: return row->parse(text, o);
	}
}

/* ---- what belongs together */

/* --tune: the library must be free to choose, and there must be something to choose from. */
static bool tune_agrees(const struct bench_options *o)
{
	const char *forced = getenv("TUTTI_ALGORITHM");

	if (o->algorithm)
		return wrong("--tune measures what is chosen beside every algorithm, but "
			     "--algorithm %s leaves no choice; leave it out",
			     o->algorithm);
	if (forced && *forced)
		return wrong("--tune measures what is chosen beside every algorithm, but "
			     "TUTTI_ALGORITHM is \"%s\" and leaves no choice; unset it",
			     forced);
	if (o->plot)
		return wrong("--tune was found beside --plot, which draws one line for each "
			     "place; expected one of the two");
	if (!bench_case_is_collective(o->kind))
		return wrong("--tune was found with %s, which goes by no algorithm; expected a "
			     "collective such as all_reduce, or all",
			     bench_case(o->kind)->name);
	return true;
}

/* --overlap measures something else than --tune, and a collective. */
static bool overlap_agrees(const struct bench_options *o)
{
	if (o->tune || o->plot)
		return wrong("--overlap was found beside %s; expected one of the two",
			     o->tune ? "--tune" : "--plot");
	if (!bench_case_is_collective(o->kind))
		return wrong(
			"--overlap was found with %s; expected a collective such as all_reduce, or all",
			bench_case(o->kind)->name);
	return true;
}

/* -m cuda measures streams; what comes with it means nothing elsewhere. */
static bool cuda_agrees(const struct bench_options *o)
{
	const char *option = o->gpu >= 0  ? "--gpu"
			     : o->windows ? "--windows"
			     : o->graph	  ? "--graph"
			     : o->threads ? "--threads"
			     : o->chain	  ? "--chain"
			     : o->nccl	  ? "--library nccl"
					  : NULL;

	if (!o->cuda)
		return !option || wrong("%s was found without -m cuda, expected both", option);
	if (o->tune || o->overlap || o->simulate)
		return wrong(
			"-m cuda was found beside %s, which is for calls on memory of the host; expected one of the two",
			o->tune	     ? "--tune"
			: o->overlap ? "--overlap"
				     : "--simulate");
	if (o->callers > 1)
		return wrong(
			"-m cuda was found beside --callers, whose calls are on memory of the host; expected one of the two");
	if (o->nccl && o->windows)
		return wrong(
			"--windows was found beside --library nccl, but registers buffers with tutti; leave it out");
	if (bench_case(o->kind)->apart)
		return wrong(
			"-m cuda was found with %s, whose calls are on memory of the host; leave it out",
			bench_case(o->kind)->name);
	return true;
}

/* --simulate shows all algorithms and starts nothing. */
static bool simulate_agrees(const struct bench_options *o)
{
	if (!o->simulate)
		return o->most_ranks == 0 || wrong("--most-ranks is said without --simulate");
	if (!bench_case_is_collective(o->kind))
		return wrong(
			"--simulate has no %s, expected a collective such as all_reduce, or all",
			bench_case(o->kind)->name);
	if (o->ranks > 0 || o->iters > 0 || o->warmup >= 0 || o->transport || o->algorithm ||
	    o->tune || o->overlap)
		return wrong(
			"--simulate runs nothing and shows every algorithm; leave out -r, -n, -w, "
			"--transport, --algorithm, --tune and --overlap");
	return true;
}

/* --wire is of one call. */
static bool wire_agrees(const struct bench_options *o)
{
	const char *beside = o->cuda	   ? "-m cuda"
			     : o->tune	   ? "--tune"
			     : o->overlap  ? "--overlap"
			     : o->simulate ? "--simulate"
					   : NULL;

	if (o->wire == TUTTI_WIRE_DEFAULT)
		return true;
	if (beside)
		return wrong("--wire was found beside %s; expected one of the two", beside);
	return (o->kind == BENCH_ALL_REDUCE && o->dtype == TUTTI_FLOAT32 &&
		(o->op == TUTTI_SUM || o->op == TUTTI_AVG)) ||
	       wrong("--wire was found with %s of %s, %s; expected all_reduce of float32, by sum or avg",
		     bench_case(o->kind)->name, bench_type_name(o->dtype), bench_op_name(o->op));
}

/* What is no format, the library will complain of. Calls on GPUs have none. */
void bench_options_take_environment(struct bench_options *o)
{
	const char *const said = getenv("TUTTI_WIRE");

	if (o->wire == TUTTI_WIRE_DEFAULT && !o->cuda && said && *said)
		bench_wire_find(said, &o->wire);
}

/* What is written leaves what is read, and what else is written. */
static bool files_agree(const struct bench_options *o)
{
	const char *other = o->simulate && output_same(o->json, o->simulate) ? "--simulate"
			    : o->plot && output_same(o->json, o->plot)	     ? "--plot"
									     : NULL;

	return !other || wrong("--json and %s are the same file; expected one for each", other);
}

/* Words that are right one by one, but not together. */
static bool options_agree(const struct bench_options *o)
{
	const struct bench_case *c = bench_case(o->kind);

	if (o->begin > o->end)
		return wrong("-b is %zu bytes, more than the %zu of -e", o->begin, o->end);
	if (c->reduces && bench_type_is_float(o->dtype) && o->op >= TUTTI_BAND)
		return wrong("-o %s takes integers, -d is %s", bench_op_name(o->op),
			     bench_type_name(o->dtype));
	if (c->prefix && o->op == TUTTI_AVG)
		return wrong("%s has no average; use another -o than avg", c->name);
	if (o->plot && !o->simulate && (c->apart || c->empty))
		return wrong(
			"--plot was found with %s, which has no sizes to draw over; leave it out",
			c->name);
	if (o->callers > 1 && o->kind != BENCH_LATENCY)
		return wrong("--callers was found with %s, expected latency", kind_name(o->kind));
	return (!o->json || files_agree(o)) && (!o->tune || tune_agrees(o)) &&
	       (!o->overlap || overlap_agrees(o)) && cuda_agrees(o) && simulate_agrees(o) &&
	       wire_agrees(o);
}

enum bench_parsed bench_options_parse(int argc, char **argv, struct bench_options *options)
{
	struct bench_options o = {
		.begin = 8,
		.end = (size_t)64 << 20,
		.factor = 2,
		.warmup = -1,
		.gpu = -1,
		.seconds = 0.2,
		.dtype = TUTTI_FLOAT32,
		.op = TUTTI_SUM,
		.check = true,
		.callers = 1,
		.inplace = true,
		.outplace = true,
	};
	struct option longs[KNOWN + 3];
	char why[TT_OPTION_WHY];
	int option;

	list_options(longs);
	optind = 0; /* so that it can be called again */
	while ((option = getopt_long(argc, argv, ":r:b:e:f:n:w:d:o:R:c:m:p:hV", longs, NULL)) !=
	       -1) {
		if (option == 'h') {
			printf(help, program_invocation_short_name);
			return BENCH_PARSED_HELP;
		}
		if (option == 'V')
			return BENCH_PARSED_VERSION;
		if (option == '?' || option == ':') {
			wrong("%s", tt_option_why(option, argv, longs, why));
			return BENCH_PARSED_WRONG;
		}
		if (!parse_option(option, optarg, &o))
			return BENCH_PARSED_WRONG;
	}
	if (optind + 1 != argc) {
		wrong("%s was found, expected one collective such as all_reduce, or all, latency, "
		      "bandwidth, init or waiting",
		      optind == argc ? "no collective" : "more than one collective");
		return BENCH_PARSED_WRONG;
	}
	if (!parse_kind(argv[optind], &o.kind) || !options_agree(&o))
		return BENCH_PARSED_WRONG;
	if (o.simulate && o.most_ranks == 0)
		o.most_ranks = MOST_SIMULATED_RANKS;
	*options = o;
	return BENCH_PARSED;
}

int bench_options_end(enum bench_parsed parsed, const char *version)
{
	if (parsed == BENCH_PARSED_WRONG) {
		bench_options_complain();
		return 2;
	}
	if (parsed == BENCH_PARSED_VERSION && version)
		printf("%s %s\n", program_invocation_short_name, version);
	else if (parsed == BENCH_PARSED_VERSION)
		printf("%s %d.%d.%d\n", program_invocation_short_name, TUTTI_VERSION_MAJOR,
		       TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
	return 0;
}

bool bench_options_fit(const struct bench_options *options, int ranks)
{
	if (options->simulate)
		return wrong(
			"--simulate starts no ranks, this program only measures them; use tutti-bench");
	if (options->ranks > 0 && options->ranks != ranks)
		return wrong("-r is %d, but a launcher started %d ranks; leave out -r",
			     options->ranks, ranks);
	if (options->root >= ranks)
		return wrong("-R is %d, but with %d ranks roots go from 0 to %d", options->root,
			     ranks, ranks - 1);
	const bool several = options->kind == BENCH_WAITING || bench_case(options->kind)->pair;
	if (several && ranks < 2)
		return wrong("%s needs two ranks, there is one", bench_case(options->kind)->name);
	if (options->tune && ranks < 2)
		return wrong("--tune needs two ranks, there is one, which goes by no algorithm");
	if (options->overlap && ranks < 2)
		return wrong("--overlap needs two ranks, there is one");
	return true;
}
