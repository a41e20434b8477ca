/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user of tutti-run asked for. */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <stdbool.h>

#include "bind.h"

enum { RUN_MAX_RANKS = 4096, RUN_MAX_RESTARTS = 1000000 };

/* exit statuses of tutti-run itself, those of timeout(1) and env(1) */
enum { RUN_TIMED_OUT = 124, RUN_FAILED = 125, RUN_NOT_EXECUTABLE = 126, RUN_NOT_FOUND = 127 };

struct options {
	int ranks;
	int min_ranks; /* the job goes on while so many do; `ranks` if not given */
	int restarts;  /* how many failed ranks are replaced */
	enum bind_policy bind;
	double timeout; /* seconds; 0: none */
	double grace;	/* seconds between SIGTERM and SIGKILL; negative: not given */
	bool label;
	char *python;	  /* starts programs that end in .py; NULL: they start themselves */
	const char **env; /* "K=V", pointing into argv */
	int env_count;
	char **program; /* the rest of argv, NULL at its end */
};

/* May the job go on when a rank has failed? */
static inline bool options_outlive(const struct options *options)
{
	return options->min_ranks < options->ranks || options->restarts > 0;
}

enum options_verdict { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* OPTIONS_DONE: --help or --version was answered. OPTIONS_WRONG: what is wrong was said. */
enum options_verdict options_parse(struct options *options, int argc, char **argv);
void options_finish(struct options *options);

#endif
