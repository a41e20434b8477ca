/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport of the tests: ranks are threads of one process, links are byte rings in its memory,
 * and what a network does to a program can be asked for.
 *
 * TUTTI_LOOP is a list of KEY=VALUE, separated by commas; ranks and bytes are decimal:
 *   short=N        a link operation moves a pseudo-random 1 … N bytes at most
 *   stall=N        a link operation moves nothing with probability 1/N (N > 1)
 *   capacity=BYTES a link holds so many bytes each way (4096 … 2^30; default 65536)
 *   delay=US       bytes can be read only so many microseconds after they were written
 *   jitter=US      … and up to so many more, as it comes out: links overtake each other
 *   news=US        ranks have no record in common: each learns at a time of its own, up to so many microseconds later, what
 *                  others tell, and of deaths; what a rank told just before it died may reach
 *                  some and not others
 *   cut=A-B@BYTES  the link of A with B is lost when A has written so many bytes to it; up to 8
 *   times
 *   refuse=A-B     A cannot connect to B; up to 8 times
 *   die=R@BYTES    rank R is gone without a word when it has written so many bytes in all
 *   seed=N         of the pseudo-random numbers (default 1) */
#ifndef TT_LOOP_H
#define TT_LOOP_H

#include <pthread.h>

#include "transport.h"

extern const struct tt_transport tt_transport_loop;

/* Use `text` (valid until the next call) instead of the environment for communicators of which the
 * first rank opens from now on; NULL: the environment again. Any thread may call. */
void tt_loop_set_faults(const char *text);

/* Every rank that `thread` has opened is gone without a word, like a process that is killed. Any
 * thread may call. */
void tt_loop_kill(pthread_t thread);

#endif
