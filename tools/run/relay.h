/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard input for rank 0. */
#ifndef RUN_RELAY_H
#define RUN_RELAY_H

#include <stdbool.h>
#include <stddef.h>

/* A terminal lets only its foreground process group read, which is tutti-run's and not rank 0's:
 * its lines are passed on through a pipe. Anything else rank 0 reads itself. */
struct relay {
	int in;	 /* the terminal; -1: nothing to pass on */
	int out; /* write end of the pipe, non-blocking */
	char bytes[4096];
	size_t head, length; /* read, but not written yet */
};

/* The descriptor that shall be rank 0's standard input; -1 with errno. */
int relay_init(struct relay *relay);
/* Pass on what can be; false when there is nothing more to come. */
bool relay_step(struct relay *relay);
void relay_finish(struct relay *relay);

#endif
