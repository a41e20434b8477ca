/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how gnuplot is found, started and ended. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gnuplot.h"

bool bench_gnuplot_possible(void)
{
	const char *at = getenv("PATH");
	char path[4096];

	while (at && *at) {
		const int n = (int)strcspn(at, ":");

		snprintf(path, sizeof(path), "%.*s/gnuplot", n, at);
		if (access(path, X_OK) == 0)
			return true;
		at += at[n] == ':' ? n + 1 : n;
	}
	fprintf(stderr,
		"--plot: gnuplot was not found in PATH; install it (Debian: gnuplot-nox) or "
		"leave out --plot\n");
	return false;
}

FILE *bench_gnuplot_start(void)
{
	FILE *script = popen("gnuplot", "we");

	if (!script)
		perror("--plot: start gnuplot");
	return script;
}

/* In single quotes, of which one inside is written twice. */
void bench_gnuplot_string(FILE *script, const char *text)
{
	fputc('\'', script);
	for (; *text; text++)
		fprintf(script, *text == '\'' ? "''" : "%c", *text);
	fputc('\'', script);
}

int bench_gnuplot_finish(FILE *script, const char *path)
{
	const int status = pclose(script);

	if (status == 0)
		return 0;
	fprintf(stderr, "--plot: gnuplot ended with status %d and did not draw \"%s\"\n",
		WIFEXITED(status) ? WEXITSTATUS(status) : status, path);
	return -1;
}
