/* SPDX-License-Identifier: BSD-3-Clause */
/* Labelled samples in memory, made up or read from CSV or IDX files, plain or gzip's. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "why.h"

#define DATA_LABEL_MAX 65535

struct team;

/* The rows that begin in part `index` of `count` of each file, or are made there: perhaps none. */
struct data_part {
	int index, count;
};
#define DATA_WHOLE ((struct data_part){ 0, 1 })

/* What is to be judged of a CSV file once all of it has been read. Zeroed: it is none. */
struct csv {
	size_t label;		/* the field that is it, from 1; 0: none */
	struct spread *spreads; /* owned: [features] */
	size_t header;		/* the line of the first row, if that is 0, 1, 2, …; else 0 */
	double alike;		/* rows with the label that such a line has */
};

/* Zeroed is empty. */
struct data {
	size_t rows, features;
	size_t test_rows; /* at the end, for validation alone; 0: split_create() chooses some */
	size_t all_rows, all_test_rows; /* of all parts together */
	unsigned classes;
	float *x;	    /* [rows][features], all finite */
	uint32_t *y;	    /* [rows], each below `classes` */
	size_t read;	    /* bytes of content that were read, or made */
	uint64_t hash;	    /* of all parts together: equal for equal data */
	struct csv csv[2];  /* of the file for training, of that for validation */
	uint64_t origin[2]; /* likewise, of a part: equal for equal files, and what is made alike */
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
/* Samples for a model of `features`; `y` stays NULL where they have no labels. */
bool data_read_samples(const struct data_source *source, struct data *out);
/* A part alone: what is about all parts is for data_judge(). After a failure `origin` stays. */
bool data_read_part(const struct data_source *source, struct data_part part, struct data *out);
/* Collective, where there is a team, whose ranks have a part each: check what is about all parts,
 * and set it. The rows for training and for validation have the numbers from `first` on. */
bool data_judge(const struct data_source *source, struct team *team, const size_t first[2],
		struct data *data);
void data_finish(struct data *data);

/* Collective, where there is a team: to the `count` things of rank 0, each of `size` bytes, `add`
 * adds those of the other ranks; all have this at `mine` then. */
bool join_parts(struct team *team, void *mine, size_t count, size_t size,
		void (*add)(void *sum, const void *part));

/* ---- what data_read() is made of, each on memory, for the tests as well */

/* Bytes of a file, uncompressed, and a NUL that `length` does not count. After a failure as well it
 * wants input_finish(). */
struct input {
	const char *path; /* for messages */
	char *bytes;
	size_t length;
	struct data_part part; /* of several, these are the first `head` bytes of the file … */
	size_t head;
	size_t begins, ends; /* … and those of the part, that are here in the file */
	size_t all;	     /* bytes of the file */
	uint64_t mark;	     /* equal for equal files */
	size_t most; /* more are refused once so many are read: gzip's can stand for any number */
	struct gzFile_s *file;
};

#define INPUT_PLAIN 0 /* in place of `most`: any number, but of a file that is not compressed */

/* All; or the head, and behind it a part: the header and some rows of IDX, the first two lines and
 * some others of text. Parts of a gzip stream are refused. */
bool input_read(const char *path, struct data_part part, size_t most, struct input *out);
/* Of the file, between its head and the part. */
size_t input_lines_left_out(const struct input *input);
/* Is there nothing of the file behind a part but blank lines? */
bool input_ends_blank(const struct input *input);
void input_finish(struct input *input);

/* Memory for so many rows more, which the caller fills and counts; all have as many features. */
bool data_grow(const struct data_source *source, size_t rows, size_t features, bool labelled,
	       struct data *data);

/* These add rows to `out`. What a failure leaves is for data_finish(). */
bool csv_parse(const struct input *input, const struct data_source *source, struct csv *csv,
	       struct data *out);
/* Collective, where there is a team: what is about the whole file. */
bool csv_judge(const char *path, size_t features, struct team *team, struct csv *csv);
/* `labels` NULL: there are none. */
bool idx_parse(const struct input *samples, const struct input *labels,
	       const struct data_source *source, struct data *out);

enum { IDX_HEADER_MOST = 4 + 4 * 255 };

/* Does the file begin as IDX does (two zero bytes, which no text has)? */
bool idx_looks_like(const struct input *input);
/* Where its head and the rows of the part are, by its first IDX_HEADER_MOST bytes. */
bool idx_find(struct input *input);

/* "synthetic:ROWSxFEATURESxCLASSES[:SEED]" */
struct synthetic {
	uint64_t rows, features, classes, seed;
};

bool synthetic_is(const char *path);
bool synthetic_parse(const char *path, struct synthetic *out);
bool synthetic_make(const struct data_source *source, struct data_part part, struct data *out);

#endif
