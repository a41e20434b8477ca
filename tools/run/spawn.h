/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the process of one rank, or of one that replaces it. */
#ifndef RUN_SPAWN_H
#define RUN_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "bind.h"
#include "options.h"

/* What was true when tutti-run started and shall be true for its ranks. */
struct inherited {
	sigset_t mask;
	struct sigaction pipe, xfsz, ttin, ttou; /* tutti-run ignores these signals itself */
	struct rlimit files;
};

enum { SPAWN_STREAMS = 2 }; /* 0: standard output, 1: standard error */

/* The first members are the caller's, and stay so. */
struct spawn {
	const struct options *options;
	const struct inherited *inherited;
	const char *store; /* address where the ranks meet */
	const char *mark;  /* "TUTTI_JOB=…" */
	int master_port;   /* for PyTorch's store, which rank 0 serves */
	bool terminal[SPAWN_STREAMS];
	int stdin_fd; /* rank 0's input; -1 when it was handed on */
	struct binder binder;
	int null_fd;	 /* the input of all others */
	bool pipes_said; /* that there are no pseudo terminals */
};

/* What a new process is in the job. */
struct seat {
	int rank;
	bool joins;   /* in place of one that failed: the others go on already */
	int restarts; /* how many failed ranks may be replaced from now on */
};

struct process {
	pid_t pid;
	int pidfd;		    /* -1: the kernel has none, SIGCHLD tells of the end */
	int streams[SPAWN_STREAMS]; /* to read its output from; non-blocking */
};

/* false: what is wrong was said. */
bool spawn_init(struct spawn *spawn);
/* Start the process that takes `seat`, at the rank's place. 0, or the exit status that tutti-run shall end with: what is
 * wrong was said and nothing is left running. */
int spawn_rank(struct spawn *spawn, const struct seat *seat, struct process *process);
/* All ranks are started: let go of what only they read. */
void spawn_hand_over(struct spawn *spawn);
void spawn_finish(struct spawn *spawn);

/* environment.c: the environment of a rank. */

/* A NULL-terminated array of "K=V": what makes it a rank, then --env, then what tutti-run was
 * given. Freed by environment_free(); NULL if memory is short. */
char **environment_of_rank(const struct spawn *spawn, const struct seat *seat);
void environment_free(char **env);

/* What the ranks' environment has by that name; NULL: nothing. */
const char *environment_value(const struct options *options, const char *name);

#endif
