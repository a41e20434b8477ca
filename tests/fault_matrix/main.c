/* SPDX-License-Identifier: BSD-3-Clause */
/* One case of the fault matrix: no survivor hangs, all blame the same rank and it is the right one,
 * later calls return the same error, the survivors go on, and nothing is left behind. matrix.py
 * chooses cases and starts this program for each.
 *
 *   fault_matrix              prints the names of all cases
 *   fault_matrix CASE [SEED]  plays one; 77: it cannot be played here */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>

#include "harness.h"
#include "network.h"
#include "scene.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NO_LIMIT "a sanitizer has taken all address space, which cannot be limited any more"
#else
#define NO_LIMIT NULL
#endif

/* Why the case cannot be played; NULL: it can. */
static const char *obstacle(const struct fault_case *c)
{
	if (c->fault == FAULT_MEMORY)
		return NO_LIMIT;
	return c->fault == FAULT_UNPLUGGED ? network_refused() : NULL;
}

static int play(const struct fault_case *c, uint64_t seed)
{
	const char *why = obstacle(c);
	struct verdict verdict;

	if (why) {
		puts(why);
		return 77;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	scene_play(c, seed, &verdict);
	if (verdict.failed)
		puts(verdict.why);
	else if (verdict.told_s >= 0)
		printf("told within %.2f s\n", verdict.told_s);
	else
		puts("no call failed, and none had to");
	return verdict.failed;
}

int main(int argc, char **argv)
{
	const size_t count = case_all(NULL);
	struct fault_case *cases = calloc(count, sizeof(*cases)), *wanted = NULL;

	if (!cases)
		abort();
	case_all(cases);
	for (size_t i = 0; i < count; i++) {
		char name[64];

		case_name(&cases[i], name, sizeof(name));
		if (argc == 1)
			puts(name);
		else if (strcmp(name, argv[1]) == 0)
			wanted = &cases[i];
	}
	int status = argc == 1 ? 0 : 2;
	if (wanted)
		status = play(wanted, argc > 2 ? strtoull(argv[2], NULL, 0) : 1);
	else if (status)
		fprintf(stderr,
			"fault_matrix: there is no case %s; without arguments it prints all\n",
			argv[1]);
	free(cases);
	return status;
}
