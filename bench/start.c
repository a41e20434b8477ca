/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the measurement of the start: its clock readings, what a process holds, and their table. */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"
#include "outputs.h"
#include "report.h"
#include "start.h"
#include "timing.h"
#include "transports.h"

#define RUNS   5 /* unless said */
#define BYTES  8
#define SPLITS 10
#define KIB    1024.0
/* the descriptor by which rank 0 hands its figures to bench_start_repeat() */
#define TAKER "TUTTI_BENCH_TAKER"

/* What all ranks took together, in seconds and bytes; "most": of the rank with the most. */
enum {
	GROWN,		    /* BENCH_HELD of them: most; but of shared memory what all ranks have */
	FIRST = BENCH_HELD, /* most, from a rank's own beginning to the end of all … */
	JOINED,		    /* … and to that of the library's initialisation */
	ALL,		    /* from the last rank's beginning to the last one's end */
	SPLIT,		    /* most, the mean of SPLITS; 0: not measured */
	WRONG,		    /* elements */
	FIGURES
};

struct figures {
	double of[FIGURES];
	char version[32], transport[32], algorithm[32];
};

/* ---- what a process holds */

/* What the file's line that begins with `name` says, in bytes; 0 where there is none. */
static double kilobytes(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	double found = 0, value;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		const size_t length = strlen(name);

		if (strncmp(line, name, length) == 0 && sscanf(line + length, " %lf", &value) == 1)
			found = value * KIB;
	}
	if (file)
		fclose(file);
	return found;
}

static double count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	double count = -3; /* the one that counts, . and .. */

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static void look_at_memory(double held[BENCH_HELD])
{
	static const char rollup[] = "/proc/self/smaps_rollup";

	held[BENCH_RSS] = kilobytes(rollup, "Rss:");
	held[BENCH_PSS] = kilobytes(rollup, "Pss:");
	held[BENCH_SHARED] = kilobytes(rollup, "Pss_Shmem:");
	held[BENCH_TABLES] = kilobytes("/proc/self/status", "VmPTE:");
	held[BENCH_DESCRIPTORS] = count_descriptors();
}

/* ---- on a rank */

struct bench_start bench_start_begin(void)
{
	struct bench_start start;

	look_at_memory(start.held);
	start.begun = bench_now();
	return start;
}

/* Its input needs no preparation that would take time. */
static int call_once(struct bench_backend *b, double *ended, double *wrong, const char **transport,
		     const char **algorithm)
{
	const float mine = (float)(b->rank + 1), sum = (float)b->size * (float)(b->size + 1) / 2;
	const float in[2] = { mine, -mine };
	float out[2] = { 0 };
	const struct bench_call call = { .kind = BENCH_ALL_REDUCE,
					 .send = in,
					 .recv = out,
					 .count = 2,
					 .dtype = TUTTI_FLOAT32,
					 .op = TUTTI_SUM,
					 .root = -1,
					 .last = true };

	if (b->run(b, &call) < 0)
		return -1;
	*ended = bench_now();
	*wrong = (out[0] != sum) + (out[1] != -sum);
	b->describe(b, &call, transport, algorithm);
	return 0;
}

/* All ranks hold what they hold at the same time. */
static int compare_memory(struct bench_backend *b, const double before[BENCH_HELD], double *grown)
{
	if (b->barrier(b) < 0)
		return -1;
	look_at_memory(grown);
	for (int i = 0; i < BENCH_SHARED; i++)
		grown[i] -= before[i];
	if (b->barrier(b) < 0 || b->combine(b, grown, BENCH_SHARED, BENCH_MAX) < 0)
		return -1;
	return b->combine(b, &grown[BENCH_SHARED], 1, BENCH_SUM);
}

static int compare_times(struct bench_backend *b, double begun, double joined, double ended,
			 double *of)
{
	double most[] = { ended - begun, joined - begun, begun, ended };

	if (b->combine(b, most, 4, BENCH_MAX) < 0)
		return -1;
	of[FIRST] = most[0];
	of[JOINED] = most[1];
	of[ALL] = most[3] - most[2];
	return 0;
}

static int time_splits(struct bench_backend *b, double *split)
{
	double seconds;

	for (int i = 0; i < SPLITS && b->split; i++) {
		if (b->barrier(b) < 0 || b->split(b, &seconds) < 0)
			return -1;
		*split += seconds / SPLITS;
	}
	return b->combine(b, split, 1, BENCH_MAX);
}

static int measure(const struct bench_start *start, struct bench_backend *b, struct figures *f)
{
	const double joined = bench_now();
	const char *transport, *algorithm;
	double ended;

	if (call_once(b, &ended, &f->of[WRONG], &transport, &algorithm) < 0)
		return -1;
	/* memory first: comparing takes more of it */
	if (compare_memory(b, start->held, &f->of[GROWN]) < 0 ||
	    compare_times(b, start->begun, joined, ended, f->of) < 0 ||
	    time_splits(b, &f->of[SPLIT]) < 0 || bench_join_transports(b, &transport) < 0)
		return -1;
	snprintf(f->version, sizeof(f->version), "%s", b->version ? b->version : "");
	snprintf(f->transport, sizeof(f->transport), "%s", transport);
	snprintf(f->algorithm, sizeof(f->algorithm), "%s", algorithm);
	return b->combine(b, &f->of[WRONG], 1, BENCH_SUM);
}

/* ---- what is shown */

struct shown {
	const char *library;
	int ranks;
	const struct figures *any;
	struct bench_stats stats[FIGURES]; /* µs, of times */
	double most[FIGURES];
};

static void print(const struct shown *s)
{
	const struct bench_stats *first = &s->stats[FIRST], *all = &s->stats[ALL];
	const double times[] = { first->median,		  first->min,  first->p99,
				 s->stats[JOINED].median, all->median, all->min,
				 s->stats[SPLIT].median };

	bench_remark("%s init, %d ranks, medians of %ld runs with processes of their own",
		     s->library, s->ranks, first->iters);
	bench_remark(
		"first: to the end of the first all-reduce of 8 B, on the slowest rank; init: "
		"to the end of the initialisation; "
		"all: from the beginning of the last rank to the end of all; split: of all ranks, "
		"the mean of %d; in ms",
		SPLITS);
	printf("#%8s %9s %9s %9s %9s %9s %9s %5s  %s\n", "first", "min", "p99", "init", "all",
	       "min", "split", "wrong", "transport/algorithm");
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		bench_figure(9, 2, times[i] / 1e3);
	printf(" %5.0f  %s/%s\n", s->most[WRONG], s->any->transport, s->any->algorithm);
	bench_remark("memory in KiB: what a rank holds more than before, at most, and of shared "
		     "memory what all ranks hold together");
	printf("#%10s %10s %10s %10s %10s\n", "RSS", "PSS", "tables", "fds", "shared");
	for (int i = 0; i < BENCH_HELD; i++)
		printf(" %10.0f", s->most[i] / (i == BENCH_DESCRIPTORS ? 1 : KIB));
	putchar('\n');
}

static json_t *to_json(const struct shown *s)
{
	json_t *object = json_pack(
		"{ss ss ss ss si si sI so so so so s{sf sf sf sf} sf sf}", "library", s->library,
		"collective", "init", "transport", s->any->transport, "algorithm",
		s->any->algorithm, "ranks", s->ranks, "bytes", BYTES, "iters",
		(json_int_t)s->stats[FIRST].iters, "time_us", bench_stats_json(&s->stats[FIRST]),
		"init_us", bench_stats_json(&s->stats[JOINED]), "all_us",
		bench_stats_json(&s->stats[ALL]), "split_us", bench_stats_json(&s->stats[SPLIT]),
		"memory", "rss", s->most[BENCH_RSS], "pss", s->most[BENCH_PSS], "page_tables",
		s->most[BENCH_TABLES], "descriptors", s->most[BENCH_DESCRIPTORS], "shared_memory",
		s->most[BENCH_SHARED], "wrong", s->most[WRONG]);

	return bench_json_origin(object, *s->any->version ? s->any->version : NULL);
}

/* `scratch` has room for a figure of each run. */
static void summarise(struct shown *s, size_t count, double *scratch)
{
	for (int figure = 0; figure < FIGURES; figure++) {
		for (size_t i = 0; i < count; i++) {
			scratch[i] = s->any[i].of[figure];
			s->most[figure] = fmax(s->most[figure], scratch[i]);
		}
		s->stats[figure] = bench_summarise(scratch, count);
	}
}

/* 0, 1: a result was wrong, -1: said what failed. */
static int show(const struct bench_options *o, const char *library, int ranks,
		const struct figures *runs, size_t count)
{
	struct shown s = { .library = library, .ranks = ranks, .any = runs };
	double *scratch = malloc(count * sizeof(*scratch));
	struct bench_outputs outputs;
	int rc;

	if (!scratch) {
		bench_complain("no memory for %zu runs", count);
		return -1;
	}
	summarise(&s, count, scratch);
	free(scratch);
	if (!bench_outputs_open(&outputs, o))
		return -1;
	if (outputs.table)
		print(&s);
	rc = bench_outputs_json(&outputs, to_json(&s));
	if (bench_outputs_close(&outputs) < 0 || rc < 0)
		return -1;
	return s.most[WRONG] > 0;
}

/* ---- between the ranks and their parent */

static int hand_over(int taker, const struct figures *f)
{
	/* in one piece, as it is shorter than PIPE_BUF */
	if (write(taker, f, sizeof(*f)) == sizeof(*f))
		return f->of[WRONG] > 0;
	bench_complain("hand the figures of a start to the parent: %m");
	return -1;
}

int bench_start_end(const struct bench_start *start, struct bench_backend *backend,
		    const struct bench_options *options)
{
	const char *taker = getenv(TAKER);
	struct figures f = { 0 };

	if (measure(start, backend, &f) < 0)
		return -1;
	if (backend->rank != 0)
		return f.of[WRONG] > 0;
	return taker ? hand_over(atoi(taker), &f)
		     : show(options, backend->library, backend->size, &f, 1);
}

/* One run; its figures in *out. */
static int run_once(const struct bench_options *options, char **argv,
		    int (*once)(const struct bench_options *options, char **argv),
		    struct figures *out)
{
	int ends[2], status = 1;
	char number[16];

	if (pipe(ends) < 0) {
		bench_complain("make a pipe for the figures of a start: %m");
		return status;
	}
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof(number), "%d", ends[1]);
	setenv(TAKER, number, 1);
	status = once(options, argv);
	unsetenv(TAKER);
	close(ends[1]);
	if (status == 0 && read(ends[0], out, sizeof(*out)) != sizeof(*out)) {
		bench_complain("the ranks ended without a word of how long they took");
		status = 1;
	}
	close(ends[0]);
	return status;
}

int bench_start_repeat(const struct bench_options *options, char **argv, const char *library,
		       int (*once)(const struct bench_options *options, char **argv))
{
	const size_t count = options->iters > 0 ? (size_t)options->iters : RUNS;
	struct figures *runs = calloc(count, sizeof(*runs));
	int status = 0;

	if (!runs) {
		bench_complain("no memory for %zu runs", count);
		return 1;
	}
	for (size_t i = 0; i < count && status == 0; i++)
		status = run_once(options, argv, once, &runs[i]);
	if (status == 0)
		status = show(options, library, options->ranks > 0 ? options->ranks : 2, runs,
			      count) != 0;
	free(runs);
	return status;
}
