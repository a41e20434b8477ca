/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how much time tests give what is to happen at once.
 *
 * On a machine that does nothing else a second is long. On one that is busy any process may stand
 * still for seconds: TEST_PATIENCE=N, which `./check` sets, makes bounds N times as long. Deadlines
 * that a rank must not wait for are made longer, too, so that what is told at its deadline only is
 * still found. */
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

/* Claims about shares of the processors' time, and about what must not happen within a short one,
 * hold where nothing else runs: they are left to `./check --all`. */
static inline bool machine_may_be_busy(void)
{
	return patience() > 1;
}

#endif
