/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the curves by gnuplot, which gets script and numbers on its standard input. Owns nothing.
 */
#include "report.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static tutti_result_t check_directory(const char *path, struct why *why)
{
	char *copy = strdup(path);
	tutti_result_t result = TUTTI_OK;

	if (!copy)
		return why_no_memory(why, "a file name");
	if (access(dirname(copy), W_OK | X_OK) < 0)
		result = why_set(why, TUTTI_ERR_SYSTEM,
				 "--plot: %s cannot be written, its directory: %s", path,
				 strerror(errno));
	free(copy);
	return result;
}

tutti_result_t plot_check(const struct options *options, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	if (system("command -v gnuplot >/dev/null 2>&1") != 0)
		return why_set(why, TUTTI_ERR_UNSUPPORTED,
			       "--plot: gnuplot was not found; install it (apt-get install "
			       "gnuplot-nox) or leave --plot out");
	for (unsigned i = 0; i < options->plot_count && result == TUTTI_OK; i++)
		result = check_directory(options->plots[i], why);
	return result;
}

/* In gnuplot's single quotes only the quote itself is special. */
static void print_quoted(FILE *to, const char *text)
{
	fputc('\'', to);
	for (; *text; text++)
		fputs(*text == '\'' ? "''" : (char[]){ *text, '\0' }, to);
	fputs("'\n", to);
}

static void print_numbers(FILE *to, const struct epoch *epochs, unsigned count)
{
	fputs("$curves << END\n", to);
	for (unsigned i = 0; i < count; i++)
		fprintf(to, "%u %.9g %.9g %.9g %.9g\n", epochs[i].number, epochs[i].train_loss,
			epochs[i].test_loss, epochs[i].train_accuracy, epochs[i].test_accuracy);
	fputs("END\n", to);
}

static void print_script(FILE *to, bool validated)
{
	static const char style[] =
		"set style line 1 lw 2 lc rgb '#1f77b4'\nset style line 2 lw 2 lc rgb '#d62728'\n"
		"set grid lt 1 lw 1 lc rgb '#cccccc'\nset xlabel 'epoch'\nset border 3\nset tics "
		"nomirror\n";

	fputs(style, to);
	fputs("set multiplot layout 1,2\n", to);
	fputs("set ylabel 'loss (cross-entropy)'\nset logscale y\nset key top right\nplot $curves "
	      "using 1:2 with linespoints ls 1 pt 7 ps 0.4 title 'training'",
	      to);
	if (validated)
		fputs(", '' using 1:3 with linespoints ls 2 pt 7 ps 0.4 title 'validation'", to);
	fputs("\nunset logscale y\nset ylabel 'accuracy'\nset yrange [:1]\nset key bottom right\n"
	      "plot $curves using 1:4 with linespoints ls 1 pt 7 ps 0.4 title 'training'",
	      to);
	if (validated)
		fputs(", '' using 1:5 with linespoints ls 2 pt 7 ps 0.4 title 'validation'", to);
	fputs("\nunset multiplot\nunset output\n", to);
}

tutti_result_t plot_write(const char *path, const struct epoch *epochs, unsigned count,
			  struct why *why)
{
	const char *dot = strrchr(path, '.');
	const bool png = dot && strcmp(dot, ".png") == 0;
	FILE *gnuplot = popen("gnuplot", "we");
	int status;

	if (!gnuplot)
		return why_set(why, TUTTI_ERR_SYSTEM, "--plot: gnuplot cannot be started: %s",
			       strerror(errno));
	fprintf(gnuplot, "set terminal %s size 1000,420 background rgb 'white'\nset output ",
		png ? "pngcairo" : "svg");
	print_quoted(gnuplot, path);
	print_numbers(gnuplot, epochs, count);
	print_script(gnuplot, !isnan(epochs[0].test_loss));
	status = pclose(gnuplot);
	if (status != 0 || access(path, R_OK) < 0)
		return why_set(
			why, TUTTI_ERR_SYSTEM,
			"--plot: gnuplot could not write %s (status %d); its message says why",
			path, WIFEXITED(status) ? WEXITSTATUS(status) : status);
	return TUTTI_OK;
}
