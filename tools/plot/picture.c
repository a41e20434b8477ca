/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how gnuplot is found, started and ended, and what it is told of a page. Where it ends early,
 * the rest of its script goes nowhere, and is no reason to be killed by SIGPIPE. */
#include "picture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "theme.h" /* made of theme.gp: PLOT_THEME, a string */

static struct sigaction before; /* of SIGPIPE */

enum { LINE_TYPES = 14 }; /* of the theme's, those that are for contestants */

bool picture_named(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && dot > path && dot[-1] != '/' &&
	       (strcmp(dot, ".svg") == 0 || strcmp(dot, ".png") == 0);
}

const char *picture_missing(void)
{
	const char *at = getenv("PATH");
	char path[4096];

	while (at && *at) {
		const int n = (int)strcspn(at, ":");

		snprintf(path, sizeof(path), "%.*s/gnuplot", n, at);
		if (access(path, X_OK) == 0)
			return NULL;
		at += at[n] == ':' ? n + 1 : n;
	}
	return "gnuplot was not found in PATH; install it (Debian: gnuplot-nox) or leave out "
	       "--plot";
}

/* In single quotes, of which one inside is written twice. */
void picture_string(FILE *script, const char *text)
{
	fputc('\'', script);
	for (; *text; text++)
		fprintf(script, *text == '\'' ? "''" : "%c", *text);
	fputc('\'', script);
}

static void write_string(FILE *script, const char *name, const char *text)
{
	fprintf(script, "%s = ", name);
	picture_string(script, text);
	fputc('\n', script);
}

static void write_legend(FILE *script, const char *const *legend)
{
	fputs("names = ''\nstyles = ''\n", script);
	for (unsigned i = 0; legend[i]; i++) {
		fputs("names = names . '\"' . ", script);
		picture_string(script, legend[i]);
		fprintf(script, " . '\" '\nstyles = styles . '%u '\n", i % LINE_TYPES + 1);
	}
}

FILE *picture_begin(const char *path, const struct picture_page *page)
{
	FILE *script = popen("gnuplot", "we");
	char origin[512];

	if (!script)
		return NULL;
	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, &before);
	snprintf(origin, sizeof(origin), "%s · tutti %s · %s", page->source, page->version,
		 picture_date());
	write_string(script, "file", path);
	write_string(script, "heading", page->heading);
	write_string(script, "origin", origin);
	write_legend(script, page->legend);
	fprintf(script, "body = %u.0\n%s", page->body, PLOT_THEME);
	return script;
}

int picture_end(FILE *script)
{
	fputs("unset multiplot\nunset output\n", script);
	const int status = pclose(script);

	sigaction(SIGPIPE, &before, NULL);
	return status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : status;
}
