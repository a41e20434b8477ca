/* SPDX-License-Identifier: BSD-3-Clause */
/* Labelled samples in memory, made up or read from CSV or IDX files, plain or compressed by gzip. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"
#include "why.h"

#define DATA_LABEL_MAX 65535

/* Zeroed is empty. */
struct data {
	size_t rows, features;
	size_t test_rows; /* at the end, for validation alone; 0: split_create() chooses some */
	unsigned classes;
	float *x;	 /* [rows][features], all finite */
	uint32_t *y;	 /* [rows], each below `classes` */
	size_t read;	 /* bytes of content that were read, or made */
	uint64_t origin; /* of a part: equal for parts of what is equally long, or made alike */
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

/* On failure `out` is empty and why says where and what. */
bool data_read(const struct data_source *source, struct data *out);
/* Samples for a model of `features`, of a file; `y` stays NULL where they have no labels. */
bool data_read_samples(const struct data_source *source, struct data *out);
/* Part `index` of `count` of it: the rows that begin in that part of each plain file, or that are made
 * there, and perhaps none. `test_rows` are those of the file for validation. `classes` is set only for
 * what is made. */
struct data_part {
	int index, count;
};
bool data_read_part(const struct data_source *source, struct data_part part, struct data *out);
/* A bit for each label. */
struct labels {
	uint64_t seen[(DATA_LABEL_MAX + 1) / 64];
};
/* Labels of rows from `first` on. */
void data_note_labels(const struct data *data, size_t first, size_t count, struct labels *labels);
/* Sets `classes` by the labels that all parts have together: of rows for training, and of the others. */
bool data_count_classes(const struct data_source *source, const struct labels *labels,
			const struct labels *test, struct data *data);
void data_finish(struct data *data);

/* Equal for equal data. What it has of rows is a sum: of parts of the data, whose rows have the numbers
 * from `first` on in the whole, it may be added up. */
uint64_t data_hash(const struct data *data);
uint64_t data_hash_rows(const struct data *data, size_t from, size_t count, size_t first);
uint64_t data_hash_of(size_t rows, size_t test_rows, size_t features, unsigned classes,
		      uint64_t sum);

/* ---- what data_read() is made of, each on memory, for the tests as well */

/* A whole file, uncompressed; `bytes` is followed by a NUL that `length` does not count. One of
 * more than `most` bytes is refused once so many are read: a few of gzip's can stand for any
 * number. */
struct input {
	const char *path; /* for messages */
	char *bytes;
	size_t length;
	bool part;	 /* of a file, … */
	size_t begins;	 /* … so many bytes behind its beginning */
	uint64_t mark;	 /* of a part: equal for equal files */
	size_t features; /* rows of so many fields have no label; 0: all have one */
};

bool input_read(const char *path, size_t most, struct input *out);
/* The lines that begin in part `part` of a plain file. */
bool input_read_lines(const char *path, struct data_part part, size_t most, struct input *out);
/* Bytes of a plain file from `first` on, `count` of them if it has so many; and how many it has. */
bool input_read_bytes(const char *path, size_t first, size_t count, struct input *out, size_t *all);
void input_finish(struct input *input);

/* Rows of numbers, of which field `label_column`, from 1, is the label; 0: the last is. Sets everything but
 * `classes`. */
bool csv_parse(const struct input *input, size_t label_column, struct data *out);

/* Does the file begin as IDX does (two zero bytes, which no text has)? */
int idx_looks_like(const struct input *input);
/* Sets everything but `classes`. `labels` NULL: there are none. */
bool idx_parse(const struct input *samples, const struct input *labels, struct data *out);
/* The rows of a part of two such files. */
bool idx_read_part(const char *samples, const char *labels, struct data_part part, size_t most,
		   struct data *out);

/* "synthetic:ROWSxFEATURESxCLASSES[:SEED]" */
struct synthetic {
	size_t rows, features;
	unsigned classes;
	uint64_t seed;
};

bool synthetic_is(const char *path);
bool synthetic_parse(const char *path, struct synthetic *out);
/* At most `most` bytes of features. */
bool synthetic_make(const char *path, struct data_part part, size_t most, struct data *out);

#endif
