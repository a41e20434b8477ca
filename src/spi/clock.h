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
#include <time.h>

/* The bound, where a wait is long: looks are to be 100 ms apart at most. */
#define TT_LOOK_NS UINT64_C(250000000)

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t tt_now(void);

/* From now on; 0: the deadline has passed. */
static inline uint64_t tt_left(uint64_t deadline)
{
	const uint64_t now = tt_now();

	return deadline > now ? deadline - now : 0;
}

/* For functions that take one. */
static inline struct timespec tt_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

/* Seconds that a program or its environment gives: no call waits for ever. Not so for a NaN. */
static inline bool tt_seconds_sound(double seconds)
{
	return seconds >= 0 && seconds <= 1e9;
}

/* Of sound seconds; any but 0 are one at least, as 0 often says that there are none. */
static inline uint64_t tt_nanoseconds(double seconds)
{
	return seconds > 0 && seconds < 1e-9 ? 1 : (uint64_t)(seconds * 1e9);
}

/* How much of the time from one look at a wait, `looked`, to the next, `now`, does not count. */
static inline uint64_t tt_uncounted(uint64_t looked, uint64_t now, uint64_t most)
{
	return now > looked + most ? now - looked - most : 0;
}

#endif
