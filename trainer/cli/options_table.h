/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of options: one row says how an option is named, read, told to the user, and compared. */
#ifndef TRAIN_OPTIONS_TABLE_H
#define TRAIN_OPTIONS_TABLE_H

#include "options.h"

enum kind {
	FLAG,  /* bool, to true */
	TEXT,  /* const char *, and not empty */
	COUNT, /* unsigned, from low to high */
	SIZE,  /* size_t or uint64_t, likewise */
	BYTES, /* size_t, from 1 to high, with K, M or G */
	REAL,  /* double, from low to high */
	WORD,  /* int: the place among choices */
	NAMED, /* pointer to a struct that begins with its name: one of choices */
	OTHER, /* what `read` makes of the text */
};

/* Who has to have the same; and PREDICT. */
enum scope {
	NOTHING = 0,	    /* each rank, and each run, may have its own */
	RANKS = 1,	    /* all ranks, and also a training that goes on from a checkpoint: */
	CURVE = RANKS | 2,  /* always */
	LENGTH = RANKS | 4, /* where the rate falls until the last epoch */
	LOCAL = RANKS | 8,  /* where each rank makes steps of its own */
	ASYNC = RANKS | 16, /* where updates are parts of a batch */
	PREDICT = 32,	    /* it also goes with tutti-train predict */
};

struct spec {
	const char *name;
	const char *value; /* what the help calls it; NULL: it has none */
	unsigned scope;	   /* of enum scope */
	enum kind kind;
	size_t offset; /* in struct options */
	double low, high;
	const char *usual;	    /* its text, if it is not given; NULL: see `help` */
	const char *heading;	    /* of the options from this one on */
	const void *const *choices; /* of WORD, and of OTHER for hints: texts; ends with NULL */
	/* Of OTHER: moves *at behind what it takes, which is to be all. */
	void (*read)(const char **at, struct options *options);
	const char *variable; /* of the environment, which the library reads, to have this text */
	const char *letter;   /* "-h, ", if -h is the same */
	const char *help;
	const char *expected; /* NULL: a number from low to high, a name, or `value` */
};

extern const struct spec options_table[];
extern const size_t options_count;

/* What the option of that text means. */
bool option_read(const struct spec *spec, const char *text, struct options *options);
/* Fill in what follows from other options, and refuse what does not go together. */
bool options_check(struct options *options);

#endif
