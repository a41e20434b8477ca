/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the curves: loss beside accuracy over epochs. Owns nothing. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "output.h"
#include "picture.h"

enum { BODY = 330, ABOVE = 26, BELOW = 46 }; /* pixels */

bool plot_check(const struct options *options)
{
	const char *missing = options->plot_count > 0 ? picture_missing() : NULL;

	if (missing)
		return why_set(TUTTI_ERR_UNSUPPORTED, "--plot: %s", missing);
	for (unsigned i = 0; i < options->plot_count; i++)
		if (!output_file(options->plots[i], NULL, 0))
			return why_set(
				TUTTI_ERR_SYSTEM,
				"--plot: %s cannot be written: %s; give a file in a directory that "
				"exists and can be written",
				options->plots[i], strerror(errno));
	return true;
}

static void print_numbers(FILE *to, const struct epoch *epochs, unsigned count)
{
	fputs("$curves << END\n", to);
	for (unsigned i = 0; i < count; i++)
		fprintf(to, "%u %.9g %.9g %.9g %.9g\n", epochs[i].number, epochs[i].train_loss,
			epochs[i].test_loss, epochs[i].train_accuracy, epochs[i].test_accuracy);
	fputs("END\n", to);
}

/* Loss and accuracy, of training and, where there was any, of validation. What is not drawn widens a
 * range that is a single number: gnuplot would say that it is empty. */
static void print_graphs(FILE *to, const struct epoch *epochs, unsigned count, bool validated)
{
	static const char *const axes[] = {
		"set xlabel 'epoch'\nset ylabel 'loss (cross-entropy)'\nset logscale y\n"
		"set format y '%g'\n",
		"unset logscale y\nset ylabel 'accuracy'\nset yrange [:1]\n",
	};
	const double within[] = { 0.9 * epochs[0].train_loss, 0.99 };

	if (count == 1)
		fputs("set xrange [0:2]\nset xtics 1\n", to);
	for (unsigned place = 0; place < 2; place++) {
		fprintf(to, "%seval graph(%u, 2, %u, %u)\nplot %.9g lt nodraw notitle", axes[place],
			place, ABOVE, BODY - BELOW, within[place]);
		for (unsigned i = 0; i < 1u + validated; i++)
			fprintf(to, ", $curves using 1:%u with linespoints lt %u notitle",
				2 + 2 * place + i, i + 1);
		fputc('\n', to);
	}
}

bool plot_write(const char *path, const char *heading, const struct epoch *epochs, unsigned count)
{
	static const char *const legend[] = { "training", "validation", NULL };
	const bool validated = !isnan(epochs[0].test_loss);
	const struct picture_page page = { .heading = heading,
					   .source = picture_machine(),
					   .version = tutti_version(),
					   .legend = validated ? legend : &legend[2],
					   .body = BODY };
	FILE *script = picture_begin(path, &page);
	const char *failed;

	if (!script)
		return why_no_memory("the script of a picture");
	print_numbers(script, epochs, count);
	print_graphs(script, epochs, count, validated);
	failed = picture_end(script, path);
	return !failed || why_set(TUTTI_ERR_SYSTEM, "--plot: %s", failed);
}
