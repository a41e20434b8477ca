/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how gnuplot is found and run, and what it is told of a page. Its script is a file in memory;
 * the picture comes through a pipe and is written here, since gnuplot does not notice that a disk
 * is full. */
#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output.h"
#include "theme.h" /* made of theme.gp: PLOT_THEME, a string */

enum { LINE_TYPES = 14 }; /* of the theme's, those that are for contestants */

bool picture_named(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && dot > path && dot[-1] != '/' &&
	       (strcmp(dot, ".svg") == 0 || strcmp(dot, ".png") == 0);
}

const char *picture_missing(void)
{
	if (system("command -v gnuplot >/dev/null") == 0)
		return NULL;
	return "gnuplot was not found in PATH; install it (Debian: gnuplot-nox) or leave out "
	       "--plot";
}

/* A quote is a string of its own: two in a row, each written twice, are an error to gnuplot 5.4. */
static void write_text(FILE *script, const char *text)
{
	fputc('\'', script);
	for (; *text; text++)
		fprintf(script, *text == '\'' ? "'.\"'\".'" : "%c", *text);
	fputc('\'', script);
}

static void write_string(FILE *script, const char *name, const char *text)
{
	fprintf(script, "%s = ", name);
	write_text(script, text);
	fputc('\n', script);
}

static void write_legend(FILE *script, const char *const *legend)
{
	fputs("names = ''\nstyles = ''\n", script);
	for (unsigned i = 0; legend[i]; i++) {
		fputs("names = names . '\"' . ", script);
		write_text(script, legend[i]);
		fprintf(script, " . '\" '\nstyles = styles . '%u '\n", i % LINE_TYPES + 1);
	}
}

FILE *picture_begin(const char *path, const struct picture_page *page)
{
	const int fd = memfd_create("picture", 0); /* gnuplot inherits it */
	FILE *script = fd < 0 ? NULL : fdopen(fd, "w");
	char origin[512];

	if (!script) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	snprintf(origin, sizeof(origin), "%s · tutti %s · %s", page->source, page->version,
		 picture_date());
	write_string(script, "file", path);
	write_string(script, "heading", page->heading);
	write_string(script, "origin", origin);
	write_legend(script, page->legend);
	fprintf(script, "body = %u.0\n%s", page->body, PLOT_THEME);
	return script;
}

/* What gnuplot draws goes to `picture`. Its exit status; -1: errno says why it has none. */
static int draw(int script, FILE *picture)
{
	char command[64], bytes[4096];
	size_t length;

	snprintf(command, sizeof(command), "exec gnuplot /dev/fd/%d", script);
	FILE *gnuplot = popen(command, "re");
	if (!gnuplot)
		return -1;
	while ((length = fread(bytes, 1, sizeof(bytes), gnuplot)) > 0)
		fwrite(bytes, 1, length, picture);
	const int status = pclose(gnuplot);
	return status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

const char *picture_end(FILE *script, const char *path)
{
	static char why[512];
	char *bytes = NULL;
	size_t length = 0;
	FILE *picture = open_memstream(&bytes, &length);
	int status = -1;

	fputs("unset multiplot\nunset output\n", script);
	if (picture && fflush(script) == 0 && !ferror(script))
		status = draw(fileno(script), picture);
	if (picture && fclose(picture) != 0)
		status = -1;
	*why = '\0';
	if (status < 0)
		snprintf(why, sizeof(why), "cannot run gnuplot: %s", strerror(errno));
	else if (status > 0 || length == 0)
		snprintf(why, sizeof(why),
			 "gnuplot ended with status %d and drew nothing for \"%.256s\"; its "
			 "message says why",
			 status, path);
	else if (!output_file(path, bytes, length))
		snprintf(why, sizeof(why), "cannot write \"%.256s\": %s; " OUTPUT_ADVICE, path,
			 strerror(errno));
	free(bytes);
	fclose(script);
	return *why ? why : NULL;
}
