/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs tutti-train as a user does, in a directory of its own, and reads its log. The environment names the
 * programs and the data: TEST_RUN, TEST_TRAIN, DIGITS; and perhaps TRAIN_DEVICE. */
#ifndef TRAIN_CURVES_H
#define TRAIN_CURVES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS_MAX = 64, OUTPUT_BYTES = 1 << 16 };

extern const char *digits, *device;
extern char output[OUTPUT_BYTES]; /* of the last command, both streams */

/* The directory, before a group of claims and after it. */
int prepare(void **state);
int clean_up(void **state);

/* ---- commands: each in that directory */

/* Run a shell command line; its exit status. */
int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* tutti-train on `ranks` ranks; its exit status. */
int train(int ranks, const char *options);
/* Until it has saved something, as ck. */
void train_until_killed(int ranks, const char *data, const char *options);

void expect_output(const char *error_text);
void expect_success(int status);
/* It ends by itself, with this error message. */
void refuses(int ranks, const char *options, const char *error_text);
/* The same where `sh` gives each of three ranks options of its own. */
void refuses_unequal(const char *options, const char *error_text);

/* ---- the JSON log */

struct curve {
	int epochs;
	double train[EPOCHS_MAX], test[EPOCHS_MAX];
	double hits[EPOCHS_MAX]; /* in training: a sum over samples */
	double least_share[EPOCHS_MAX];
	double accuracy, blocked;
	double samples, parameters, steps, sent; /* bytes, by the rank that sent most */
	int ranks;
	char weights[20]; /* checksum of rank 0's */
};

/* The log of the last training, to be read. */
FILE *open_log(void);
double real_of(const json_t *object, const char *key);
struct curve read_curve(void);
/* Of a training on digits, which ends well. */
struct curve train_digits(int ranks, const char *options);

/* A number of each rank, or epoch: the least and the most. */
struct range {
	double least, most;
};

/* Of the ranks, in the last line of the log. */
struct range range_of(const char *key);

/* ---- what several claims say */

void assert_close(double a, double b);
/* Numbers of the log, whichever way ranks train. */
void expect_equal_curves(const struct curve *one, const struct curve *other, double most);
/* Servers need a worker, and each rank a share. */
int least_ranks(const char *way);
/* A killed training goes on bit for bit. A checkpoint of the way is left … */
void expect_resumed(const char *way);
/* … which by other options is refused, and then removed. */
void refuse_to_resume(const char *options, const char *text);

#endif
