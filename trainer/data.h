/* SPDX-License-Identifier: BSD-3-Clause */
/* Labelled samples in memory, read from CSV or IDX files, plain or compressed by gzip. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"
#include "why.h"

#define DATA_LABEL_MAX 65535

/* Zeroed is empty. */
struct data {
	size_t rows, features;
	unsigned classes;
	float *x;    /* [rows][features], all finite */
	uint32_t *y; /* [rows], each below `classes` */
};

/* What to read. */
struct data_source {
	const char *path;   /* CSV with the label last, or IDX */
	const char *labels; /* the labels of an IDX file, else NULL */
	unsigned classes;   /* 0: the largest label + 1, and each of them occurs */
	size_t most;	    /* bytes that a file may have, uncompressed */
};

/* On failure `out` is empty and `why` says where and what. */
tutti_result_t data_read(const struct data_source *source, struct data *out, struct why *why);
void data_finish(struct data *data);

/* Equal for equal data. */
uint64_t data_hash(const struct data *data);

/* ---- what data_read() is made of, each on memory, for the tests as well */

/* A whole file, uncompressed; `bytes` is followed by a NUL that `length` does not count. One of
 * more than `most` bytes is refused once so many are read: a few of gzip's can stand for any
 * number. */
struct input {
	const char *path; /* for messages */
	char *bytes;
	size_t length;
};

tutti_result_t input_read(const char *path, size_t most, struct input *out, struct why *why);
void input_finish(struct input *input);

/* Rows of numbers, the last of each the label. Sets everything but `classes`. */
tutti_result_t csv_parse(const struct input *input, struct data *out, struct why *why);

/* Does the file begin as IDX does (two zero bytes, which no text has)? */
int idx_looks_like(const struct input *input);
/* Sets everything but `classes`. */
tutti_result_t idx_parse(const struct input *samples, const struct input *labels, struct data *out,
			 struct why *why);

#endif
