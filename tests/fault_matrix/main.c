/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: every way in which a rank can be lost, at every phase of a job, over every
 * transport, for every place of the victim. For each: no survivor hangs, all blame the same rank
 * and it is the right one, later calls return the same error, the survivors go on, and nothing
 * is left behind.
 *
 *   fault_matrix [--all] [--faults LIST] [--only TEXT] [--seed N] [--jobs N] [--slack S] [--list] [--help]
 *
 * Without --all or --only: a selection in which every two values of two axes meet. */
#include <getopt.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "harness.h"
#include "network.h"
#include "select.h"
#include "table.h"

#define JOBS_MAX   16
#define OUTPUT_MAX 20000 /* bytes of a failed case's output that are shown */

struct options {
	bool all, list, help;
	const char *faults, *only;
	uint64_t seed;
	int jobs;
	double slack_s;
};

struct player {
	pid_t pid; /* 0: free */
	size_t index;
	int output; /* a file in memory */
};

static void print_usage(FILE *to)
{
	fprintf(to,
		"usage: fault_matrix [options]\n"
		"  --all        every case, instead of a selection that covers all pairs\n"
		"  --faults A,B these faults alone, such as kill,abort\n"
		"  --only TEXT  of all cases those whose names contain TEXT, such as kill/large\n"
		"  --seed N     of the selection, and of what is random in a case (1)\n"
		"  --jobs N     cases at a time, 1 to %d (4)\n"
		"  --slack S    seconds by which a loaded machine may be late (2, times TEST_PATIENCE)\n"
		"  --list       print the names of the cases, run none\n"
		"  -h, --help   print this\n",
		JOBS_MAX);
}

static bool read_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "list", no_argument, NULL, 'l' },
		{ "faults", required_argument, NULL, 'f' },
		{ "only", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 's' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "slack", required_argument, NULL, 'S' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (option) {
		case 'a': o->all = true; break;
		case 'l': o->list = true; break;
		case 'f': o->faults = optarg; break;
		case 'o': o->only = optarg; break;
		case 's': o->seed = strtoull(optarg, NULL, 0); break;
		case 'j': o->jobs = atoi(optarg); break;
		case 'S': o->slack_s = atof(optarg); break;
		case 'h': o->help = true; return true;
		default: return false;
		}
	}
	return optind == argc && o->jobs >= 1 && o->jobs <= JOBS_MAX && o->slack_s >= 0;
}

/* ---- choosing */

/* Is the word in the list, with commas between? */
static bool lists(const char *list, const char *word)
{
	const size_t length = strlen(word);

	for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

/* Keeps those of the `count` cases that are asked for; returns how many. */
static size_t filter(const struct options *o, struct fault_case *cases, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		char name[64];

		case_name(&cases[i], name, sizeof(name));
		if ((!o->faults || lists(o->faults, axis_name(0, cases[i].fault))) &&
		    (!o->only || strstr(name, o->only)))
			cases[n++] = cases[i];
	}
	return n;
}

static size_t choose(const struct options *o, struct fault_case **out)
{
	const size_t count = case_all(NULL);
	struct fault_case *all = calloc(count, sizeof(*all)),
			  *chosen = calloc(count, sizeof(*chosen));

	if (!all || !chosen)
		abort();
	const size_t asked = filter(o, all, case_all(all));
	if (o->all || o->only) {
		*out = all;
		free(chosen);
		return asked;
	}
	*out = chosen;
	const size_t n = select_pairs(all, asked, o->seed, chosen);
	free(all);
	return n;
}

/* ---- running */

static void begin(struct player *p, const struct options *o, const struct fault_case *c,
		  size_t index, struct verdict *verdict)
{
	p->index = index;
	p->output = memfd_create("output", MFD_CLOEXEC);
	fflush(NULL);
	p->pid = fork();
	if (p->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(p->output, 1);
		dup2(p->output, 2);
		scene_play(c, o->seed, o->slack_s, verdict);
		exit(0);
	}
	if (p->pid < 0) {
		perror("fork");
		exit(1);
	}
}

static void show_output(int fd)
{
	static char text[OUTPUT_MAX + 1];
	const off_t length = lseek(fd, 0, SEEK_END);
	const ssize_t n =
		pread(fd, text, OUTPUT_MAX, length > OUTPUT_MAX ? length - OUTPUT_MAX : 0);

	if (n <= 0)
		return;
	text[n] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		printf("    | %s\n", line);
}

static void end(struct player *p, int status, const struct fault_case *c, struct verdict *v)
{
	char name[64];

	if (v->outcome == OUTCOME_NONE || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		v->outcome = OUTCOME_FAILED;
		snprintf(v->why, sizeof(v->why), "the parent of its ranks ended with status %d",
			 status);
	}
	if (v->outcome == OUTCOME_FAILED) {
		case_name(c, name, sizeof(name));
		printf("FAILED %s: %s\n", name, v->why);
		show_output(p->output);
		fflush(stdout);
	}
	close(p->output);
	p->pid = 0;
}

static void await_one(struct player *players, int jobs, const struct fault_case *cases,
		      struct verdict *verdicts)
{
	int status;
	const pid_t pid = waitpid(-1, &status, 0);

	for (int i = 0; i < jobs; i++)
		if (players[i].pid == pid)
			end(&players[i], status, &cases[players[i].index],
			    &verdicts[players[i].index]);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NO_LIMIT "a sanitizer has taken all address space, which cannot be limited any more"
#else
#define NO_LIMIT NULL
#endif

/* Why the case cannot be played; NULL: it can. */
static const char *obstacle(const struct fault_case *c, const char *no_network)
{
	if (c->fault == FAULT_MEMORY)
		return NO_LIMIT;
	return c->fault == FAULT_UNPLUGGED ? no_network : NULL;
}

/* Returns how many could not be played. */
static size_t skip(const struct fault_case *cases, size_t count, const char *no_network)
{
	size_t skipped = 0;

	for (size_t i = 0; i < count; i++) {
		const char *why = obstacle(&cases[i], no_network);
		char name[64];

		if (!why)
			continue;
		case_name(&cases[i], name, sizeof(name));
		printf("skipped %s: %s\n", name, why);
		skipped++;
	}
	return skipped;
}

static void play_all(const struct options *o, const struct fault_case *cases,
		     struct verdict *verdicts, size_t count, const char *no_network)
{
	struct player players[JOBS_MAX] = { 0 };
	int busy = 0;

	for (size_t i = 0; i < count; i++) {
		int free_one = 0;

		if (obstacle(&cases[i], no_network))
			continue;
		if (busy == o->jobs) {
			await_one(players, o->jobs, cases, verdicts);
			busy--;
		}
		while (players[free_one].pid)
			free_one++;
		begin(&players[free_one], o, &cases[i], i, &verdicts[i]);
		busy++;
	}
	for (; busy; busy--)
		await_one(players, o->jobs, cases, verdicts);
}

static int report(const struct options *o, const struct fault_case *cases,
		  const struct verdict *verdicts, size_t count, size_t skipped, double seconds)
{
	size_t ok = 0;

	table_print(cases, verdicts, count);
	for (size_t i = 0; i < count; i++)
		ok += verdicts[i].outcome == OUTCOME_OK;
	printf("fault matrix: %zu cases ok, %zu failed, %zu skipped, in %.0f s; seed %llu\n", ok,
	       count - ok - skipped, skipped, seconds, (unsigned long long)o->seed);
	return ok + skipped == count ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .jobs = 4, .slack_s = bound_s(2) };
	const double start = seconds_now();
	struct fault_case *cases;

	if (!read_options(argc, argv, &o)) {
		print_usage(stderr);
		return 2;
	}
	if (o.help) {
		print_usage(stdout);
		return 0;
	}
	const size_t count = choose(&o, &cases);
	if (o.list) {
		for (size_t i = 0; i < count; i++) {
			char name[64];

			case_name(&cases[i], name, sizeof(name));
			printf("%s\n", name);
		}
		return 0;
	}
	if (!count) {
		fprintf(stderr,
			"fault_matrix: no case of these faults has \"%s\" in its name; --all --list shows them\n",
			o.only ? o.only : "");
		return 2;
	}
	struct verdict *verdicts = shared_memory(count * sizeof(*verdicts));
	const char *no_network = network_refused();
	const size_t skipped = skip(cases, count, no_network);

	play_all(&o, cases, verdicts, count, no_network);
	const int failed = report(&o, cases, verdicts, count, skipped, seconds_now() - start);

	free(cases);
	return failed;
}
