/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the script of the picture: for each collective its data, then a graph of times beside one of
 * bandwidths. */
#include <stdio.h>
#include <string.h>

#include "lines.h"
#include "pattern.h"
#include "plot.h"

FILE *bench_plot_begin(const char *path, const struct picture_page *page)
{
	FILE *script = picture_begin(path, page);

	if (!script)
		bench_complain("--plot: make a script for gnuplot: %m");
	return script;
}

int bench_plot_end(FILE *script, const char *path)
{
	const char *why = picture_end(script, path);

	if (why)
		bench_complain("--plot: %s", why);
	return why ? -1 : 0;
}

/* ---- of measurements */

/* In pixels; one collective alone has more of them. */
enum { ALONE = 340, AMONG = 230, ABOVE = 26, BELOW = 46 };

static bool shown(const struct bench_result *r)
{
	return !bench_case(r->call.kind)->empty;
}

/* How many results are of the first one's collective. */
static size_t count_alike(const struct bench_result *results, size_t count)
{
	size_t alike = 1;

	while (alike < count && results[alike].call.kind == results->call.kind)
		alike++;
	return alike;
}

static unsigned count_kinds(const struct bench_result *results, size_t count)
{
	unsigned kinds = 0;

	for (size_t i = 0; i < count; i += count_alike(&results[i], count - i))
		kinds += shown(&results[i]);
	return kinds;
}

/* Of one place; results of the other one lie between them. False: there are none. */
static bool write_curve(FILE *out, const struct bench_result *results, size_t count, bool inplace)
{
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		const struct bench_result *r = &results[i];

		if (r->call.inplace != inplace)
			continue;
		if (!any)
			fprintf(out, "$%s << END\n", inplace ? "in" : "out");
		fprintf(out, "%zu %.6g %.6g\n", r->bytes, r->stats.median * 1e-6, r->busbw);
		any = true;
	}
	if (any)
		fputs("END\n", out);
	return any;
}

static void write_graph(FILE *out, int column, const bool any[2])
{
	const char *comma = "plot ";

	for (int i = 0; i < 2; i++) {
		if (!any[i])
			continue;
		fprintf(out, "%s$%s using 1:%d with linespoints lt %d notitle", comma,
			i ? "in" : "out", column, i + 1);
		comma = ", ";
	}
	fputc('\n', out);
}

/* Of results of one collective. */
static void write_kind(FILE *out, const struct bench_result *results, size_t count, unsigned top,
		       unsigned bottom)
{
	bool any[2];

	for (int i = 0; i < 2; i++)
		any[i] = write_curve(out, results, count, i == 1);
	fprintf(out, "eval bytes(%zu.0, %zu.0)\n", results->bytes, results[count - 1].bytes);
	fprintf(out,
		"eval graph(0, 2, %u, %u)\neval times\nset title '%s'\nset ylabel 'median time'\n",
		top, bottom, bench_case(results->call.kind)->name);
	write_graph(out, 2, any);
	fprintf(out,
		"eval graph(1, 2, %u, %u)\nunset logscale y\nset format y '%%g'\nset yrange [0:*]\n"
		"set ylabel 'bus bandwidth in GB/s'\n",
		top, bottom);
	write_graph(out, 3, any);
}

/* Of all results, each once. */
static void name_transports(const struct bench_result *results, size_t count, char *out,
			    size_t size)
{
	*out = '\0';
	for (size_t i = 0; i < count; i++) {
		bool known = false;

		for (size_t k = 0; k < i && !known; k++)
			known = strcmp(results[k].transport, results[i].transport) == 0;
		if (!known)
			bench_append(out, size, "%s%s", *out ? ", " : "", results[i].transport);
	}
}

/* What has no sizes is said in words. */
static void write_heading(const struct bench_result *results, size_t count, char *out, size_t size)
{
	char transports[128];

	name_transports(results, count, transports, sizeof(transports));
	snprintf(out, size, "%s, %d ranks, %s, %s", results->library, results->ranks, transports,
		 bench_type_name(results->call.dtype));
	for (size_t i = 0; i < count; i++)
		if (!shown(&results[i]))
			bench_append(out, size, ", %s in %.2f µs",
				     bench_case(results[i].call.kind)->name,
				     results[i].stats.median);
}

static bool any_inplace(const struct bench_result *results, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (results[i].call.inplace)
			return true;
	}
	return false;
}

int bench_plot(const char *path, const struct bench_result *results, size_t count)
{
	static const char *const places[] = { "out of place", "in place", NULL };
	const unsigned kinds = count_kinds(results, count), height = kinds == 1 ? ALONE : AMONG;
	char heading[512];
	unsigned top = 0;

	if (kinds == 0)
		return 0;
	write_heading(results, count, heading, sizeof(heading));
	const struct picture_page page = { .heading = heading,
					   .source = picture_machine(),
					   .version = results->version,
					   .legend = any_inplace(results, count) ? places
										 : &places[2],
					   .body = kinds * height };
	FILE *out = bench_plot_begin(path, &page);
	if (!out)
		return -1;
	for (size_t i = 0, alike; i < count; i += alike) {
		alike = count_alike(&results[i], count - i);
		if (!shown(&results[i]))
			continue;
		write_kind(out, &results[i], alike, top + ABOVE, top + height - BELOW);
		top += height;
	}
	return bench_plot_end(out, path);
}
