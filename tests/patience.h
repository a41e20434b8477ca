/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how much time tests give what is to happen at once.
 *
 * On a machine that does nothing else a second is long. On a busy one any process may stand still
 * for seconds. TEST_PATIENCE=N, which `./check` sets, makes bounds N times as long, up to 100 s.
 * The usual deadline of ranks grows as well, to USUAL_DEADLINE_S: an error that is reported only at
 * the deadline still fails its test. `meson test` ends a test after 180 s, later than all these. */
#ifndef TT_TESTS_PATIENCE_H
#define TT_TESTS_PATIENCE_H

#include <stdbool.h>
#include <stdlib.h>

/* 1, or what TEST_PATIENCE says. */
static inline double patience(void)
{
	const char *text = getenv("TEST_PATIENCE");
	const double times = text ? atof(text) : 1;

	return times > 1 ? times : 1;
}

/* The bound for what takes `seconds` at most where nothing else runs. */
static inline double bound_s(double seconds)
{
	const double busy = seconds * patience();

	return busy < 100 ? busy : seconds > 100 ? seconds : 100;
}

/* Of ranks that are to be told of something before it. */
#define USUAL_DEADLINE_S (machine_may_be_busy() ? 140 : 40)

/* Claims about shares of the processors' time, and about what must not happen within a short one,
 * hold where nothing else runs: they are left to `./check --all`. */
static inline bool machine_may_be_busy(void)
{
	return patience() > 1;
}

#endif
