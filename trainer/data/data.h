/* SPDX-License-Identifier: BSD-3-Clause */
/* Labelled samples in memory, made up or read from CSV or IDX files, plain or gzip's. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "why.h"

#define DATA_LABEL_MAX 65535

/* The rows that begin in part `index` of `count` of each file, or are made there: perhaps none. */
struct data_part {
	int index, count;
};
#define DATA_WHOLE ((struct data_part){ 0, 1 })

/* Zeroed is empty. */
struct data {
	size_t rows, features;
	size_t test_rows; /* at the end, for validation alone; 0: split_create() chooses some */
	size_t all_rows, all_test_rows; /* of all parts together */
	unsigned classes;
	float *x;	 /* [rows][features], all finite */
	uint32_t *y;	 /* [rows], each below `classes` */
	size_t read;	 /* bytes of content that were read, or made */
	uint64_t origin; /* equal for parts of what is equally long, or made alike */
	uint64_t hash;	 /* of all parts together: equal for equal data */
	/* [features], what standardise() has subtracted and multiplied by, else NULL */
	double *mean, *inverse;
};

/* What to read. */
struct data_source {
	/* CSV, or IDX; or "synthetic:…", which takes neither labels nor test files */
	const char *path;
	const char *labels;	 /* the labels of an IDX file, else NULL */
	const char *test_path;	 /* samples for validation, in a file like `path`, or NULL */
	const char *test_labels; /* its labels, as `labels` */
	unsigned label_column;	 /* of CSV, from 1; 0: the last */
	size_t features;	 /* rows of so many need no labels; 0: all need them */
	unsigned classes;	 /* 0: the largest label + 1, and each of them occurs */
	size_t most;		 /* bytes: of a file, uncompressed; of samples that are made */
	double test_fraction;	 /* for validation, where there is no `test_path` */
};

/* "PATH: found …, expected …" */
bool data_refuse(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* On failure `out` is empty. */
bool data_read(const struct data_source *source, struct data *out);
/* Samples for a model of `features`, of a file; `y` stays NULL where they have no labels. */
bool data_read_samples(const struct data_source *source, struct data *out);
/* A part alone: what is about all parts is for data_judge(). */
bool data_read_part(const struct data_source *source, struct data_part part, struct data *out);
void data_finish(struct data *data);

/* What parts tell of themselves. Added up, it is about all of them, but for the last two. */
struct facts {
	uint64_t rows[2];  /* for training, for validation */
	uint32_t top[2];   /* their largest label */
	uint64_t test_row; /* the number of the first for validation with it */
	uint64_t seen[(DATA_LABEL_MAX + 1) / 64]; /* a bit for each label of those for training */
	uint64_t hash;
	uint64_t features, origin; /* no features: no row */
};
/* Of a part whose rows, for training and for validation, have the numbers from these on. */
void data_note(const struct data *data, size_t train, size_t test, struct facts *out);
void data_add_facts(struct facts *sum, const struct facts *part);
/* Check the labels, and set what is about all parts. */
bool data_judge(const struct data_source *source, const struct facts *facts, struct data *data);

/* ---- what data_read() is made of, each on memory, for the tests as well */

/* Bytes of a file, uncompressed, and a NUL that `length` does not count. After a failure as well it
 * wants input_finish(). */
struct input {
	const char *path; /* for messages */
	char *bytes;
	size_t length;
	struct data_part part; /* these are what it needs of the file, … */
	size_t begins;	       /* … from this byte on */
	size_t all;	       /* bytes of the file */
	size_t most;   /* more are refused once so many are read: gzip's can stand for any number */
	uint64_t mark; /* equal for equal files */
	struct gzFile_s *file;
};

/* Nothing of the file yet. Of a gzip stream several parts are refused. */
bool input_open(const char *path, struct data_part part, size_t most, struct input *out);
/* `count` bytes from `first` on, behind those that are there. */
bool input_add(struct input *input, size_t first, size_t count);
/* All, or the lines that begin in a part. */
bool input_read(const char *path, struct data_part part, size_t most, struct input *out);
void input_finish(struct input *input);

/* Memory for so many rows more, which the caller fills and counts; all have as many features. */
bool data_grow(const struct data_source *source, size_t rows, size_t features, bool labelled,
	       struct data *data);

/* These add rows to `out`. What a failure leaves is for data_finish(). */
bool csv_parse(const struct input *input, const struct data_source *source, struct data *out);
/* `labels` NULL: there are none. */
bool idx_parse(const struct input *samples, const struct input *labels,
	       const struct data_source *source, struct data *out);

/* Does the file begin as IDX does (two zero bytes, which no text has)? */
bool idx_looks_like(const struct input *input);
/* The header, and the rows of the part behind it. */
bool idx_read(const char *path, struct data_part part, size_t most, struct input *out);

/* "synthetic:ROWSxFEATURESxCLASSES[:SEED]" */
struct synthetic {
	uint64_t rows, features, classes, seed;
};

bool synthetic_is(const char *path);
bool synthetic_parse(const char *path, struct synthetic *out);
bool synthetic_make(const struct data_source *source, struct data_part part, struct data *out);

#endif
