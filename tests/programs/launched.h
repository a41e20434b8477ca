/* SPDX-License-Identifier: BSD-3-Clause */
/* A program under test, run as a process of its own with its output collected. */
#ifndef LAUNCHED_H
#define LAUNCHED_H

#include <stddef.h>
#include <sys/types.h>

/* include before cmocka.h what it needs */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct text {
	char *bytes; /* always ends with a NUL */
	size_t length;
};

struct launched {
	pid_t pid;
	int in; /* write end of its standard input; -1: closed */
	int fds[2];
	struct text texts[2]; /* 0: standard output, 1: standard error */
	int status;	      /* of waitpid(), after launched_finish() */
};

/* Start `argv`; its standard input is a pipe. Fails the test if it cannot. */
void launched_start(struct launched *launched, const char *const argv[]);
/* Collect output until `text` stands `times` times in stream `stream`; fails the test after 60 s.
 */
void launched_await(struct launched *launched, int stream, const char *text, int times);
void launched_close_input(struct launched *launched);
/* Collect all output, wait for the end; the exit status, or 128 + the signal. */
int launched_finish(struct launched *launched);
void launched_free(struct launched *launched);

/* Fail the test, and show all output so far. */
void launched_fail(const struct launched *launched, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* launched_start(), input closed, and launched_finish(). */
int launched_run(struct launched *launched, const char *const argv[]);

#define launched_out(launched) ((launched)->texts[0].bytes)
#define launched_err(launched) ((launched)->texts[1].bytes)

/* How often `part` stands in `text`. */
int count_of(const char *text, const char *part);
#define assert_contains(text, part)                                                                \
	do {                                                                                       \
		if (!strstr(text, part))                                                           \
			fail_msg("\"%s\" is not in:\n%s", part, text);                             \
	} while (0)
#define assert_lacks(text, part)                                                                   \
	do {                                                                                       \
		if (strstr(text, part))                                                            \
			fail_msg("\"%s\" is in:\n%s", part, text);                                 \
	} while (0)

/* No line is wider than 100 columns, but for those of JSON. */
void assert_narrow(const char *text);

/* The numbers behind each `key` in `text` ("pid 123"): how many, at most `room`. */
int numbers_after(const char *text, const char *key, long *numbers, int capacity);

#endif
