/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of tutti-bench that need no ranks: patterns and their verification, statistics, the
 * order of a sample, the comparison of choices, the command line, the JSON object. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include <jansson.h>

#include "buffers.h"
#include "lines.h"
#include "options.h"
#include "point.h"
#include "report.h"
#include "tuning_table.h"
#include "timing.h"

#define COUNT 2500 /* more than two periods */

static bool defined_for(int op, tutti_dtype_t dtype)
{
	return op < TUTTI_BAND || !bench_type_is_float(dtype);
}

static double combined(int op, double a, double b)
{
	switch (op) {
	case TUTTI_PROD: return a * b;
	case TUTTI_MIN: return fmin(a, b);
	case TUTTI_MAX: return fmax(a, b);
	case TUTTI_BAND: return (double)((uint64_t)a & (uint64_t)b);
	case TUTTI_BOR: return (double)((uint64_t)a | (uint64_t)b);
	case TUTTI_BXOR: return (double)((uint64_t)a ^ (uint64_t)b);
	default: return a + b;
	}
}

/* The reduction that ranks would compute, in `out`, by way of doubles. */
static void reduce(const struct bench_pattern *p, uint64_t shift, void *out)
{
	const size_t size = bench_type_size(p->dtype);
	unsigned char *sent = malloc(COUNT * size);
	double *sums = calloc(COUNT, sizeof(*sums));

	assert_non_null(sent);
	assert_non_null(sums);
	for (int r = 0; r < p->ranks; r++) {
		bench_pattern_fill(p, r, shift, sent, COUNT);
		for (size_t i = 0; i < COUNT; i++) {
			const double value =
				bench_decode(bench_type_format(p->dtype), sent + i * size);

			sums[i] = r == 0 ? value : combined(p->op, sums[i], value);
		}
	}
	for (size_t i = 0; i < COUNT; i++) {
		const double value = p->op == TUTTI_AVG ? sums[i] / p->ranks : sums[i];

		bench_type_encode(p->dtype, (uint64_t)value, (unsigned char *)out + i * size);
	}
	free(sums);
	free(sent);
}

static struct bench_found check_part(const struct bench_pattern *p, struct bench_part part,
				     uint64_t shift)
{
	struct bench_found found = BENCH_NOTHING_FOUND;

	bench_pattern_check(p, &part, shift, TUTTI_WIRE_FLOAT32, &found);
	assert_int_equal(found.wrong == 0, found.first == UINT64_MAX);
	return found;
}

static unsigned long long wrong_sent(const struct bench_pattern *p, int rank, uint64_t shift,
				     size_t first, const void *got)
{
	const struct bench_part part = { .got = got, .count = COUNT, .rank = rank, .first = first };

	return check_part(p, part, shift).wrong;
}

static unsigned long long wrong_reduced(const struct bench_pattern *p, uint64_t shift,
					const void *got)
{
	const struct bench_part part = { .got = got, .count = COUNT, .reduced = true };

	return check_part(p, part, shift).wrong;
}

static void check_reduction(tutti_dtype_t dtype, int op, int ranks)
{
	const size_t size = bench_type_size(dtype);
	unsigned char *out = malloc(COUNT * size);
	struct bench_pattern p;

	assert_non_null(out);
	assert_true(bench_pattern_init(&p, dtype, op, ranks, ranks, TUTTI_WIRE_FLOAT32));
	reduce(&p, 3, out);
	assert_int_equal(wrong_reduced(&p, 3, out), 0);
	bench_pattern_fini(&p);
	free(out);
}

TEST(reductions_of_the_pattern_are_exact_in_every_type)
{
	static const int ranks[] = { 1, 2, 3, 8, 33, 300 };

	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		for (int op = 0; op < TUTTI_OP_COUNT; op++) {
			const bool fraction = op == TUTTI_AVG && bench_type_is_float(dtype);

			if (fraction || !defined_for(op, dtype))
				continue;
			for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
				check_reduction(dtype, op, ranks[i]);
		}
	}
}

TEST(an_average_may_be_off_by_a_rounding_but_not_by_more)
{
	const int ranks = 3;
	struct bench_pattern p;
	float sent[3][COUNT], out[COUNT];

	assert_true(
		bench_pattern_init(&p, TUTTI_FLOAT32, TUTTI_AVG, ranks, ranks, TUTTI_WIRE_FLOAT32));
	for (int r = 0; r < ranks; r++)
		bench_pattern_fill(&p, r, 0, sent[r], COUNT);
	for (size_t i = 0; i < COUNT; i++) /* not the nearest to a third */
		out[i] = (sent[0][i] + sent[1][i] + sent[2][i]) * (1.0f / 3);
	assert_int_equal(wrong_reduced(&p, 0, out), 0);
	out[7] *= 1.000001f;
	out[8] += 1;
	out[9] = NAN;
	assert_int_equal(wrong_reduced(&p, 0, out), 3);
	bench_pattern_fini(&p);
}

TEST(a_narrow_sum_may_be_off_by_what_its_format_rounds_but_not_by_more)
{
	const tutti_wire_t wire = TUTTI_WIRE_BFLOAT16;
	struct bench_found found = BENCH_NOTHING_FOUND;
	struct bench_pattern p;
	float out[COUNT];
	const struct bench_part part = { .got = out, .count = COUNT, .reduced = true };

	assert_true(bench_pattern_init(&p, TUTTI_FLOAT32, TUTTI_SUM, 3, 3, wire));
	reduce(&p, 0, out);
	out[7] *= 1 + 0x1p-10f;
	out[8] += 1000 * (1 + fabsf(out[8]));
	out[9] = NAN;
	bench_pattern_check(&p, &part, 0, wire, &found);
	assert_int_equal(found.wrong, 2);
	assert_int_equal(found.first, 8);
	bench_pattern_fini(&p);
}

TEST(a_changed_element_is_counted_in_every_type)
{
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		const size_t size = bench_type_size(dtype);
		unsigned char *out = malloc(COUNT * size);
		struct bench_pattern p;

		assert_non_null(out);
		assert_true(bench_pattern_init(&p, dtype, TUTTI_SUM, 2, 2, TUTTI_WIRE_FLOAT32));
		reduce(&p, 0, out);
		out[(COUNT - 1) * size] ^= 1;
		out[0] ^= 1;
		assert_int_equal(wrong_reduced(&p, 0, out), 2);
		const struct bench_part part = { .got = out + size,
						 .count = COUNT - 1,
						 .base = 11,
						 .reduced = true,
						 .first = 1 };
		assert_int_equal(check_part(&p, part, 0).first, 11 + COUNT - 2);
		bench_pattern_fini(&p);
		free(out);
	}
}

TEST(what_another_rank_or_repetition_sent_is_wrong)
{
	struct bench_pattern p;
	float sent[COUNT];

	assert_true(bench_pattern_init(&p, TUTTI_FLOAT32, BENCH_NO_OP, 4, 0, TUTTI_WIRE_FLOAT32));
	bench_pattern_fill(&p, 2, 5, sent, COUNT);
	assert_int_equal(wrong_sent(&p, 2, 5, 0, sent), 0);
	assert_true(wrong_sent(&p, 1, 5, 0, sent) > COUNT / 2);
	assert_true(wrong_sent(&p, 2, 4, 0, sent) > COUNT / 2);
	assert_true(wrong_sent(&p, 2, 5, 1, sent) > COUNT / 2);
	bench_pattern_fini(&p);
}

/* A call of `kind` on rank 1 of 3 whose buffers nobody exchanged: what was sent is still there. */
static unsigned long long wrong_without_exchange(enum bench_kind kind)
{
	static float in[3 * 64], out[3 * 64];
	struct bench_call call = {
		.kind = kind,
		.send = in,
		.recv = out,
		.count = 64,
		.dtype = TUTTI_FLOAT32,
		.op = bench_case(kind)->reduces ? TUTTI_SUM : BENCH_NO_OP,
		.root = 1,
	};
	const struct bench_backend backend = { .rank = 1, .size = 3 };
	struct bench_pattern p;
	struct bench_found found = BENCH_NOTHING_FOUND;

	assert_true(bench_pattern_init(&p, call.dtype, call.op, 3, bench_contributors(kind, 1, 3),
				       TUTTI_WIRE_FLOAT32));
	bench_call_fill(&call, &p, &backend, 0);
	memcpy(out, in, sizeof(out));
	bench_call_check(&call, &p, &backend, 0, &found);
	bench_pattern_fini(&p);
	return found.wrong;
}

TEST(a_collective_that_does_nothing_is_found_out)
{
	for (int kind = 0; kind < BENCH_KIND_COUNT; kind++) {
		if (bench_case(kind)->empty || bench_case(kind)->apart ||
		    kind == BENCH_GET ||     /* rank 0 has what was got */
		    kind == BENCH_BROADCAST) /* rank 1 is the root */
			continue;
		if (wrong_without_exchange(kind) == 0)
			fail_msg("%s: nothing was exchanged, and nothing wrong found",
				 bench_case(kind)->name);
	}
}

TEST(statistics_are_those_of_the_sorted_durations)
{
	double seconds[200], two[] = { 3e-6, 1e-6 };
	struct bench_stats stats;

	for (int i = 0; i < 200; i++)
		seconds[i] = (200 - i) * 1e-6;
	stats = bench_summarise(seconds, 200);
	assert_true(fabs(stats.min - 1) < 1e-9);
	assert_true(fabs(stats.median - 100.5) < 1e-9);
	assert_true(fabs(stats.p99 - 198) < 1e-9);
	assert_true(fabs(stats.mean - 100.5) < 1e-9);
	stats = bench_summarise(two, 2);
	assert_true(fabs(stats.median - 2) < 1e-9 && fabs(stats.p99 - 3) < 1e-9);
}

/* ---- a backend that writes down what is asked of it */

struct diary {
	char text[512];
	size_t length;
};

static void write_down(void *context, char what)
{
	struct diary *diary = context;

	if (diary->length + 1 < sizeof(diary->text))
		diary->text[diary->length++] = what;
}

static int diary_prepare(void *context, uint64_t sample)
{
	write_down(context, (char)('0' + sample));
	return 0;
}

static int diary_run(void *context, unsigned call)
{
	write_down(context, 'r');
	return 0;
}

static void diary_finish(void *context)
{
	write_down(context, 'f');
}

static int diary_barrier(struct bench_backend *backend)
{
	write_down(backend->context, 'b');
	return 0;
}

static int diary_combine(struct bench_backend *backend, double *values, size_t count,
			 enum bench_combine how)
{
	write_down(backend->context, how == BENCH_MAX ? 'M' : 'S');
	return 0;
}

static struct diary diary;
static struct bench_backend writer = { .context = &diary,
				       .barrier = diary_barrier,
				       .combine = diary_combine };

TEST(a_sample_is_inputs_then_barrier_then_a_batch)
{
	const struct bench_work work = {
		&diary, &writer, 3, diary_prepare, diary_run, diary_finish
	};
	const struct bench_budget budget = { .iters = 5, .warmup = 1 };
	struct bench_samples samples = { 0 };

	diary = (struct diary){ 0 };
	assert_int_equal(bench_time(&work, &budget, &samples), 0);
	assert_string_equal(diary.text, "0brrrM1brrr2brrrfM");
	assert_int_equal(samples.count, 2);
	assert_int_equal(bench_time(&work, &budget, &samples), 0);
	assert_int_equal(samples.count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_true(samples.seconds[i] > 0);
	free(samples.seconds);
}

/* Takes time, but little of the processor's. */
static int doze(void *context, unsigned call)
{
	return poll(NULL, 0, 100) == 0 ? 0 : -1;
}

TEST(time_of_the_processor_leaves_out_sleep)
{
	struct bench_work work = { &diary, &writer, 1, diary_prepare, doze, diary_finish };
	const struct bench_budget budget = { .iters = 3, .warmup = 1 };
	struct bench_samples clock = { 0 }, processor = { 0 };

	assert_int_equal(bench_time(&work, &budget, &clock), 0);
	work.processor = true;
	assert_int_equal(bench_time(&work, &budget, &processor), 0);
	for (size_t i = 0; i < 3; i++)
		assert_true(clock.seconds[i] > 0.09 && processor.seconds[i] < 0.05);
	free(clock.seconds);
	free(processor.seconds);
}

/* ---- one point by several backends */

static bool supports_all(struct bench_backend *backend, const struct bench_call *call)
{
	return true;
}

static int copy_call(struct bench_backend *backend, const struct bench_call *call)
{
	memcpy(call->recv, call->send, call->count * bench_type_size(call->dtype));
	return 0;
}

static int leave_call(struct bench_backend *backend, const struct bench_call *call)
{
	return 0;
}

static void describe_nothing(struct bench_backend *backend, const struct bench_call *call,
			     const char **transport, const char **algorithm)
{
	*transport = *algorithm = "none";
}

static unsigned char input[4096], output[4096], tape[8192], host[8192];
static const struct bench_buffers buffers = { input, output, sizeof(input), false, tape, host };
static const struct bench_options measured = {
	.callers = 1, .outplace = true, .dtype = TUTTI_INT32, .check = true
};
static const struct bench_budget thrice = { .iters = 3 };

/* An all-reduce of 64 bytes, out of place. */
static void make_point(struct bench_point *point, struct bench_backend *backend)
{
	struct bench_call call;

	assert_true(bench_point_call(backend, &measured, BENCH_ALL_REDUCE, 64, false, &call));
	assert_true(bench_point_init(point, backend, &measured, &buffers, &call, 64));
}

TEST(what_one_backend_left_is_wrong_for_the_next)
{
	struct bench_backend backend = writer, visitor;
	struct bench_samples samples = { 0 };
	struct bench_result worker = { 0 }, idler = { 0 };
	struct bench_point point;
	struct bench_call call;

	backend.size = 1;
	backend.supports = supports_all;
	backend.run = copy_call;
	backend.describe = describe_nothing;
	assert_false(bench_point_call(&backend, &measured, BENCH_ALL_REDUCE, 64, true, &call));
	make_point(&point, &backend);
	for (int visit = 0; visit < 2; visit++)
		assert_int_equal(bench_point_visit(&point, &backend, &thrice, &samples, &worker),
				 0);
	assert_true(worker.wrong == 0);
	assert_int_equal(samples.count, 2);
	assert_int_equal(worker.stats.iters, 2 * 32);
	visitor = backend;
	visitor.run = leave_call;
	assert_int_equal(bench_point_visit(&point, &visitor, &thrice, &samples, &idler), 0);
	assert_true(idler.wrong > 0);
	assert_ptr_equal(point.backend, &backend); /* the visitor may be gone before the point is */
	free(samples.seconds);
	bench_point_fini(&point);
}

/* ---- memory of a device, which is the host's here */

struct fake_device {
	int begun;
	bool spoils, idles;
};

static int copy_bytes(struct bench_backend *backend, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}

static int do_nothing(struct bench_backend *backend)
{
	return 0;
}

static int begin_chains(struct bench_backend *backend, const struct bench_call *calls,
			unsigned count)
{
	struct fake_device *fake = backend->context;

	fake->begun++;
	return 0;
}

static void end_chains(struct bench_backend *backend)
{
	struct fake_device *fake = backend->context;

	fake->begun--;
}

static int copy_chain(struct bench_backend *backend, const struct bench_call *calls, unsigned count,
		      struct bench_chain *took)
{
	const struct fake_device *fake = backend->context;

	for (unsigned i = 0; i < count && !fake->idles; i++)
		copy_call(backend, &calls[i]);
	if (fake->spoils)
		*(unsigned char *)calls[count / 2].recv ^= 1;
	*took = (struct bench_chain){ .seconds = 32 * 4e-6, .enqueue = 32 * 1e-6 };
	return 0;
}

static int copies_take_a_microsecond(struct bench_backend *backend, void *to, const void *from,
				     size_t bytes, size_t stride, unsigned count, double *seconds)
{
	*seconds = count * 1e-6;
	return 0;
}

static int combine_alone(struct bench_backend *backend, double *values, size_t count,
			 enum bench_combine how)
{
	return 0;
}

TEST(what_a_device_gets_wrong_is_found)
{
	static const struct bench_device device = { .name = "fake",
						    .shared = true,
						    .without = "it is the host",
						    .copy = copy_bytes,
						    .finish = do_nothing,
						    .begin = begin_chains,
						    .end = end_chains,
						    .chain = copy_chain,
						    .time_copies = copies_take_a_microsecond };
	struct fake_device fake = { 0 };
	struct bench_backend backend = { .size = 1,
					 .context = &fake,
					 .supports = supports_all,
					 .barrier = do_nothing,
					 .combine = combine_alone,
					 .describe = describe_nothing,
					 .device = &device };
	struct bench_samples samples = { 0 };
	struct bench_result right = { 0 }, spoilt = { 0 }, idle = { 0 };
	struct bench_point point;

	make_point(&point, &backend);
	assert_int_equal(fake.begun, 1);
	for (int visit = 0; visit < 2; visit++)
		assert_int_equal(bench_point_visit(&point, &backend, &thrice, &samples, &right), 0);
	assert_true(right.wrong == 0);
	assert_true(fabs(right.stats.median - 4) < 1e-9 && fabs(right.enqueue - 1) < 1e-9);
	assert_true(fabs(right.copy - 0.128) < 1e-9); /* 64 bytes there and back in a microsecond */
	assert_true(fabs(right.least - 128) < 1e-9 && fabs(right.of_copy - 0.25) < 1e-9);
	fake.spoils = true;
	assert_int_equal(bench_point_visit(&point, &backend, &thrice, &samples, &spoilt), 0);
	assert_true(spoilt.wrong == 1);
	fake = (struct fake_device){ .begun = 1, .idles = true };
	assert_int_equal(bench_point_visit(&point, &backend, &thrice, &samples, &idle), 0);
	assert_true(idle.wrong > 0);
	free(samples.seconds);
	bench_point_fini(&point);
	assert_int_equal(fake.begun, 0);
}

TEST(memory_delivers_and_takes_every_byte_once)
{
	assert_true(fabs(bench_least_factor(BENCH_ALL_REDUCE, 4, false) - 8) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_ALL_REDUCE, 4, true) - 8) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_ALL_GATHER, 4, false) - 5) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_ALL_GATHER, 4, true) - 4) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_REDUCE_SCATTER, 4, false) - 5) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_BROADCAST, 4, true) - 4) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_GATHER, 4, true) - 1.5) < 1e-12);
	assert_true(fabs(bench_least_factor(BENCH_BARRIER, 4, false)) < 1e-12);
}

/* ---- chosen against forced */

static void add_point(struct bench_tuning_table *tally, size_t bytes, double chosen, double ring,
		      double tree)
{
	const struct bench_result results[] = {
		{ .bytes = bytes, .algorithm = "tree", .stats.median = chosen },
		{ .bytes = bytes, .algorithm = "ring", .stats.median = ring },
		{ .bytes = bytes, .algorithm = "tree", .stats.median = tree },
	};

	bench_tuning_add(tally, results, 3);
}

TEST(a_tally_knows_the_worst_choice_and_the_mean)
{
	struct bench_tuning_table tally = { 0 };

	add_point(&tally, 8, 10, 20, 10);
	add_point(&tally, 64, 12, 8, 12);
	add_point(&tally, 512, 10.9, 10, 11);
	assert_int_equal(tally.points, 3);
	assert_int_equal(tally.close, 2);
	assert_true(fabs(tally.worst - 1.5) < 1e-12);
	assert_int_equal(tally.chosen.bytes, 64);
	assert_string_equal(tally.chosen.algorithm, "tree");
	assert_string_equal(tally.best.algorithm, "ring");
	assert_true(fabs(bench_tuning_mean(&tally) - cbrt(1.5 * 1.09)) < 1e-12);
	add_point(&tally, 4096, 40, 20, 30);
	assert_int_equal(tally.points, 4);
	assert_int_equal(tally.close, 2);
	assert_int_equal(tally.best.bytes, 4096);
	assert_true(fabs(bench_tuning_mean(&tally) - pow(1.5 * 1.09 * 2, 0.25)) < 1e-12);
}

/* ---- tables */

/* What bench_figure() prints. */
static const char *figure(int width, int decimals, double value)
{
	static char text[64];
	const int out = dup(STDOUT_FILENO);
	FILE *file = tmpfile();

	assert_true(out >= 0 && file);
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	bench_figure(width, decimals, value);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	text[pread(fileno(file), text, sizeof(text) - 1, 0)] = '\0';
	fclose(file);
	return text;
}

TEST(a_figure_keeps_to_its_column)
{
	assert_string_equal(figure(8, 2, 0.456), "     0.46");
	assert_string_equal(figure(8, 2, 12345.678), " 12345.68");
	assert_string_equal(figure(8, 2, 1234567.8), "  1234568");
	assert_string_equal(figure(8, 2, 99999999.9), " 1.00e+08");
	assert_string_equal(figure(8, 2, -1), "        -");
	assert_string_equal(figure(5, 0, 1234567), " 1e+06");
	for (double value = 1e-9; value < 1e15; value *= 1.7) {
		assert_true(strlen(figure(8, 2, value)) == 9);
		assert_true(strlen(figure(7, 3, value)) == 8);
	}
}

/* ---- the command line */

static enum bench_parsed parse(struct bench_options *options, const char *line)
{
	char *copy = strdup(line), *words[32] = { "tutti-bench" }, *save;
	enum bench_parsed parsed;
	int n = 1;

	assert_non_null(copy);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	parsed = bench_options_parse(n, words, options);
	free(copy);
	return parsed;
}

TEST(wrong_command_lines_are_refused)
{
	static const char *const lines[] = {
		"",
		"all_reduce broadcast",
		"all_reduce -b 0",
		"all_reduce -b 8X",
		"all_reduce -b 1025G",
		"all_reduce -b 99999999999999999999",
		"all_reduce -b -8",
		"all_reduce -b 2M -e 1M",
		"all_reduce -f 1",
		"all_reduce -n 0",
		"all_reduce -n 3x",
		"all_reduce -w -1",
		"all_reduce -o bxor",
		"scan -o avg",
		"all_reduce -c 2",
		"all_reduce -p elsewhere",
		"all_reduce -r 0",
		"all_reduce -R -1",
		"all_reduce --seconds 0",
		"all_reduce --plot .svg",
		"all_reduce --plot drawn.svg/picture",
		"all_reduce -m cuda --gpu -1",
		"all_reduce -m cuda --simulate cluster.json",
	};
	struct bench_options options;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (parse(&options, lines[i]) != BENCH_PARSED_WRONG)
			fail_msg("\"%s\" was taken", lines[i]);
	}
}

TEST(options_are_understood)
{
	struct bench_options o;

	assert_int_equal(parse(&o, "all_to_all -r 4 -b 1K -e 2G -f 4 -n 7 -w 0 -d half -o max -R 3 "
				   "-c 0 -m tutti -p in"),
			 BENCH_PARSED);
	assert_int_equal(o.kind, BENCH_ALL_TO_ALL);
	assert_int_equal(o.ranks, 4);
	assert_int_equal(o.begin, 1024);
	assert_int_equal(o.end, (size_t)2 << 30);
	assert_int_equal(o.factor, 4);
	assert_int_equal(o.iters, 7);
	assert_int_equal(o.warmup, 0);
	assert_int_equal(o.dtype, TUTTI_FLOAT16);
	assert_int_equal(o.op, TUTTI_MAX);
	assert_int_equal(o.root, 3);
	assert_false(o.check);
	assert_true(o.mappable);
	assert_true(o.inplace && !o.outplace);
	assert_false(o.cuda);
	assert_int_equal(o.gpu, -1);
	assert_int_equal(parse(&o, "all_reduce --memory cuda --gpu 3 --graph"), BENCH_PARSED);
	assert_true(o.cuda && !o.mappable && o.graph && !o.windows);
	assert_int_equal(o.gpu, 3);
	assert_int_equal(parse(&o, "all_reduce --plot drawn/picture.png"), BENCH_PARSED);
	assert_string_equal(o.plot, "drawn/picture.png");
	assert_int_equal(parse(&o, "-h"), BENCH_PARSED_HELP);
	assert_int_equal(parse(&o, "-V"), BENCH_PARSED_VERSION);
}

TEST(options_must_fit_the_ranks)
{
	struct bench_options o;

	assert_int_equal(parse(&o, "broadcast -R 2"), BENCH_PARSED);
	assert_true(bench_options_fit(&o, 3));
	assert_false(bench_options_fit(&o, 2));
	assert_int_equal(parse(&o, "latency"), BENCH_PARSED);
	assert_false(bench_options_fit(&o, 1));
	assert_int_equal(parse(&o, "broadcast -r 2"), BENCH_PARSED);
	assert_false(bench_options_fit(&o, 3));
	assert_int_equal(parse(&o, "broadcast --simulate cluster.json"), BENCH_PARSED);
	assert_false(bench_options_fit(&o, 3)); /* that is for no program that measures */
}

TEST(sizes_are_those_of_nccl_tests)
{
	assert_int_equal(bench_case_count(BENCH_ALL_REDUCE, 64, 4, 4), 16);
	assert_int_equal(bench_case_count(BENCH_ALL_GATHER, 64, 4, 4), 4);
	assert_int_equal(bench_case_bytes(BENCH_ALL_GATHER, 4, 4, 4), 64);
	assert_int_equal(bench_case_count(BENCH_ALL_GATHER, 8, 4, 4), 1);
	assert_int_equal(bench_case_count(BENCH_BARRIER, 8, 4, 4), 0);
	assert_true(fabs(bench_bus_factor(BENCH_ALL_REDUCE, 4) - 1.5) < 1e-12);
	assert_true(fabs(bench_bus_factor(BENCH_ALL_TO_ALL, 4) - 0.75) < 1e-12);
	assert_true(fabs(bench_bus_factor(BENCH_BROADCAST, 4) - 1) < 1e-12);
}

TEST(a_json_object_has_the_documented_keys)
{
	static const char *const keys[] = { "library", "collective", "transport", "algorithm",
					    "ranks",   "bytes",	     "count",	  "dtype",
					    "op",      "root",	     "inplace",	  "iters",
					    "time_us", "algbw_gbs",  "busbw_gbs", "wrong",
					    "version", "machine",    "date" };
	static const char *const times[] = { "min", "median", "p99", "mean" };
	const struct bench_result result = {
		.library = "tutti",
		.transport = "shm",
		.algorithm = "ring",
		.call = { .kind = BENCH_REDUCE, .dtype = TUTTI_INT8, .op = TUTTI_MAX },
		.wrong = -1,
	};
	json_t *object = bench_result_json(&result);

	assert_non_null(object);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_non_null(json_object_get(object, keys[i]));
	assert_int_equal(json_object_size(object), sizeof(keys) / sizeof(keys[0]));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		assert_true(json_is_real(
			json_object_get(json_object_get(object, "time_us"), times[i])));
	assert_true(json_is_null(json_object_get(object, "wrong")));
	json_decref(object);
}
