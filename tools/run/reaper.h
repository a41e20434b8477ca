/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that outlives a killed tutti-run just long enough to end what it left. */
#ifndef RUN_REAPER_H
#define RUN_REAPER_H

#include <stdbool.h>
#include <sys/types.h>

struct reaper {
	pid_t pid;
	int lifeline; /* write end of a pipe; its end of file is the death of tutti-run */
};

/* Start it; `mark` ("TUTTI_JOB=…") is in the environment of every process of the job. Called before
 * any other thread exists. false with errno. */
bool reaper_start(struct reaper *reaper, const char *mark);
/* End it and wait for its end: the job is over and has left nothing. */
void reaper_stop(struct reaper *reaper);

#endif
