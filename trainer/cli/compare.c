/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way to compare.py, which compares trainings: this process becomes Python. */
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "picture.h"

/* Where this program is, and the script from there: as it is installed, and as it was built. False: errno
 * says why not. */
static bool find(char program[PATH_MAX], char script[2 * PATH_MAX])
{
	static const char *const places[] = { TRAIN_SCRIPTS, "." };

	for (int i = 0; i < 2 && realpath("/proc/self/exe", program); i++) {
		snprintf(script, 2 * PATH_MAX, "%.*s/%s/compare.py",
			 (int)(strrchr(program, '/') - program), program, places[i]);
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
	const bool found = words && find(program, script);

	if (found) {
		snprintf(origin, sizeof(origin), "%s · tutti %s · %s", picture_machine(),
			 tutti_version(), picture_date());
		memcpy(words, head, sizeof(head));
		memcpy(words + HEAD, argv, (size_t)argc * sizeof(*words));
		execvp(words[0], words);
	}
	fprintf(stderr, "tutti-train %s: %s: %s; install %s\n", argv[0],
		found ? "python3, which does this, cannot be started"
		      : TRAIN_SCRIPTS "/compare.py, which does this, cannot be read",
		strerror(errno), found ? "it (Debian: python3)" : "all of tutti");
	free(words);
	return EXIT_FAILURE;
}
