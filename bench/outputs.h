/* SPDX-License-Identifier: BSD-3-Clause */
/* Where results go beside the picture: the table on standard output and the file of --json. With
 * --json - the objects take the place of the table. */
#ifndef BENCH_OUTPUTS_H
#define BENCH_OUTPUTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "options.h"

struct bench_outputs {
	bool table;
	const char *path; /* of `json` */
	FILE *json;	  /* NULL without */
};

/* Can all files that the options name be written, and a picture be drawn? To be called before the
 * measurement. False: the reason was printed. */
bool bench_outputs_possible(const struct bench_options *options);
/* Likewise, and opens it. */
bool bench_outputs_open(struct bench_outputs *outputs, const struct bench_options *options);
/* Write `object` (NULL: there was no memory for it) as a line where JSON is wanted, and let go
 * of it. -1: said why. */
int bench_outputs_json(const struct bench_outputs *outputs, json_t *object);
int bench_outputs_close(struct bench_outputs *outputs);

#endif
