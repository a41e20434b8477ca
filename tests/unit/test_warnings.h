/* SPDX-License-Identifier: BSD-3-Clause */
/* The warnings that the library writes while a test runs, by any of its threads. */
#ifndef TEST_WARNINGS_H
#define TEST_WARNINGS_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "log.h"
#include "transport.h"
#include "tutti/tutti.h"

static atomic_int warnings;
static char last_warning[512];
static tutti_log_level_t warning_level;
static const char *warning_words;

static inline void note_warning(tutti_log_level_t level, const char *subsystem, const char *line,
				void *context)
{
	if (level > warning_level || !strstr(line, warning_words))
		return;
	snprintf(last_warning, sizeof(last_warning), "%s", line);
	atomic_fetch_add(&warnings, 1);
}

/* Only for those of this level, or more serious ones, that say this. */
static inline void listen_for(tutti_log_level_t level, const char *words)
{
	warning_level = level;
	warning_words = words;
	atomic_store(&warnings, 0);
	tutti_log_set_sink(note_warning, NULL);
}

static inline void listen_for_warnings(void)
{
	listen_for(TUTTI_LOG_WARN, "");
}

static inline void leave_warnings(void)
{
	tutti_log_set_sink(NULL, NULL);
}

/* Of level info, which is not logged otherwise; and how many said so. */
static inline void listen_to(const char *words)
{
	tt_log_read("info");
	listen_for(TUTTI_LOG_INFO, words);
}

static inline void expect_told(int times)
{
	leave_warnings();
	tt_log_read(getenv("TUTTI_LOG"));
	assert_int_equal(atomic_load(&warnings), times);
}

/* A thread's line comes when it comes. */
static inline void expect_warning(const char *says)
{
	const uint64_t deadline = tt_now() + 20000000000u;

	while (atomic_load(&warnings) == 0)
		assert_true(tt_now() < deadline);
	assert_says(last_warning, says);
}

#endif
