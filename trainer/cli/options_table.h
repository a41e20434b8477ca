/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of options: one row says how an option is named, read, told to the user, and compared. */
#ifndef TRAIN_OPTIONS_TABLE_H
#define TRAIN_OPTIONS_TABLE_H

#include "options.h"

enum kind {
	FLAG,	/* bool, to true */
	TEXT,	/* const char *, and not empty */
	DIGITS, /* const char *: a whole number from low to high, that others read */
	NUMBER, /* likewise, any number */
	COUNT,	/* unsigned, from low to high */
	SIZE,	/* size_t, likewise */
	BYTES,	/* size_t, from 1 to high, with K, M or G */
	REAL,	/* double, from low to high */
	WORD,	/* int: the place among words */
	NAMED,	/* pointer to a struct that begins with its name: one of `named` */
	OTHER,	/* const char *: the text, of which `read` makes more */
};

/* What has to be the same. */
enum scope {
	NOTHING, /* each rank, and each run, may have its own */
	RANKS,	 /* on all ranks */
	CURVE,	 /* also in a training that goes on from a checkpoint */
};

/* One option, or, without a name, the heading of those that follow. */
struct spec {
	const char *name;
	const char *value; /* what the help calls it; NULL: it has none */
	const char *help;
	enum scope alike; /* what has to have the same */
	enum kind kind;
	size_t offset;	   /* in struct options */
	const char *usual; /* its text, if it is not given; NULL: see `help` */
	double low, high;
	const char *expected;
	const char *const *words; /* of WORD; of OTHER some, for hints; ends with NULL */
	const void *const *named; /* likewise */
	bool (*read)(const char *text, struct options *options); /* of OTHER */
	/* Does the option do something? If not, for want of `without`, or because of `beside`. */
	bool (*met)(const struct options *options);
	const char *without, *beside;
};

#define BELOW_ONE 0.99999999999999989

extern const struct spec options_table[];
extern const size_t options_count;

/* Where the option's value is. */
static inline const void *option_value(const struct spec *spec, const struct options *options)
{
	return (const char *)options + spec->offset;
}

/* Of those that NAMED are. */
static inline const char *option_name_of(const void *named)
{
	return *(const char *const *)named;
}

/* ---- options_values.c: texts that are read */

/* What the option of that text means. */
bool option_read(const struct spec *spec, const char *text, struct options *options);

/* Those of OTHER: is it one? */
bool read_hidden(const char *text, struct options *options);
bool read_batch(const char *text, struct options *options);
bool read_schedule(const char *text, struct options *options);
bool read_seed(const char *text, struct options *options);
bool read_outer(const char *text, struct options *options);
bool read_parallel(const char *text, struct options *options);
bool read_shares(const char *text, struct options *options);
bool read_slow(const char *text, struct options *options);
bool read_plot(const char *text, struct options *options);

/* ---- options_check.c: options that need each other, or exclude each other */

bool is_async(const struct options *options);
bool has_servers(const struct options *options);
bool is_local(const struct options *options);
bool reads_csv(const struct options *options);
bool saves(const struct options *options);
bool is_cut(const struct options *options);
bool has_momentum(const struct options *options);
bool has_squares(const struct options *options);
bool is_lars(const struct options *options);
bool has_one_source(const struct options *options);
bool has_own_batch(const struct options *options);

/* Fill in what follows from other options, and refuse what does not go together. */
bool options_check(struct options *options);

#endif
