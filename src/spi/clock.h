/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock, and waits of which only the time counts in which the process ran.
 *
 * A job that was stopped as a whole, by a shell, by a scheduler, or with the machine that it runs on,
 * goes on where it was; and a rank that was stopped reads what came meanwhile before it finds others
 * late. So whoever waits looks several times a second, and of the time between two looks no more than
 * a bound counts. */
#ifndef TT_SPI_CLOCK_H
#define TT_SPI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The bound, where a wait is long: looks are to be 100 ms apart at most. */
#define TT_LOOK_NS UINT64_C(250000000)

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t tt_now(void);

/* How much of the time from one look at a wait, `looked`, to the next, `now`, does not count. */
static inline uint64_t tt_uncounted(uint64_t looked, uint64_t now, uint64_t most)
{
	return now > looked + most ? now - looked - most : 0;
}

/* When a wait is over, in nanoseconds of tt_now(), and when it was looked at last. */
struct tt_limit {
	uint64_t at, looked;
};

static inline struct tt_limit tt_limit_in(uint64_t now, uint64_t ns)
{
	return (struct tt_limit){ .at = now + ns, .looked = now };
}

/* A look at it: is it over? `most`: what counts of the time since the last. */
static inline bool tt_limit_passed(struct tt_limit *limit, uint64_t now, uint64_t most)
{
	limit->at += tt_uncounted(limit->looked, now, most);
	limit->looked = now;
	return now >= limit->at;
}

#endif
