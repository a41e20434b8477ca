/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way to compare.py, which compares trainings: this process becomes Python. */
#include "compare.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "picture.h"

/* From the program: as it is installed, and as it was built. */
static const char *const places[] = { TRAIN_SCRIPTS "/compare.py", "compare.py" };

/* Where this program is, and the script from there. False: errno says why not. */
static bool find(char program[PATH_MAX], char script[2 * PATH_MAX])
{
	const ssize_t length = readlink("/proc/self/exe", program, PATH_MAX - 1);

	if (length < 0)
		return false;
	program[length] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(script, 2 * PATH_MAX, "%.*s/%s", (int)(strrchr(program, '/') - program),
			 program, places[i]);
		if (access(script, R_OK) == 0)
			return true;
	}
	return false;
}

int compare_exec(int argc, char **argv)
{
	char program[PATH_MAX], script[2 * PATH_MAX], origin[512];
	char *head[] = { "python3", "-IB", script, program, origin };
	enum { HEAD = sizeof(head) / sizeof(head[0]) };
	char **words = calloc(HEAD + (size_t)argc + 1, sizeof(*words));

	if (!words || !find(program, script)) {
		fprintf(stderr,
			"tutti-train %s: %s, which does this, cannot be read: %s; install all of tutti\n",
			argv[0], places[0], strerror(errno));
		free(words);
		return EXIT_FAILURE;
	}
	snprintf(origin, sizeof(origin), "%s · tutti %s · %s", picture_machine(), tutti_version(),
		 picture_date());
	memcpy(words, head, sizeof(head));
	memcpy(words + HEAD, argv, (size_t)argc * sizeof(*words));
	execvp(words[0], words);
	fprintf(stderr,
		"tutti-train %s: python3, which does this, cannot be started: %s; install it (Debian: python3)\n",
		argv[0], strerror(errno));
	free(words);
	return EXIT_FAILURE;
}
