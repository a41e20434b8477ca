/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs tutti-bench as its users do, and reads what it said. */
#ifndef BENCH_RUNS_H
#define BENCH_RUNS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <jansson.h>

#include "launched.h"

#define TEXT_BYTES (1 << 18)

extern const char *program; /* the path of tutti-bench */

/* A program that runs, both of its outputs in files that are gone when it is. */
struct run {
	pid_t pid;
	FILE *out, *err;
	int status; /* as a shell has it: 128 + signal if killed */
	char out_text[TEXT_BYTES], err_text[TEXT_BYTES];
};

void start_words(struct run *run, char *const words[]);
void start(struct run *run, const char *line);
/* Wait for its end; no line of its output is wider than a terminal. */
void finish(struct run *run);
/* Run tutti-bench with `arguments` to its end; valid until the next such call. */
struct run *bench(const char *arguments);

void expect_status(const struct run *run, int status, const char *what);
/* tutti-bench ends with status 2, and says `words`. */
void expect_refused(const char *arguments, const char *words);

/* ---- objects of JSON */

const char *string_of(const json_t *object, const char *key);
/* Check each line of the run's output; returns how many there are. */
int each_result(struct run *run, void (*check)(const json_t *object, const void *context),
		const void *context);
/* One measurement, nothing of it wrong, of as many ranks as `context` points to. */
void check_result(const json_t *object, const void *context);

#endif
