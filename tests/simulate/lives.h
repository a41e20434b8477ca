/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank from the beginning to the end: the communicator it makes or joins, and those that come
 * of it. */
#ifndef TT_SIMULATE_LIVES_H
#define TT_SIMULATE_LIVES_H

/* The main function of its task; the argument is its struct participant. */
void *lives_main(void *argument);

#endif
