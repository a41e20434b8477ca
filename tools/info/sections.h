/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the report, one file each, and how values are put into them. Every section is a JSON
 * object that always has the same keys; what is not known is null. A value that is a problem has an
 * error message under its key in "hints". */
#ifndef INFO_SECTIONS_H
#define INFO_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

json_t *section_cpu(void);
json_t *section_memory(void);
json_t *section_network(void);
json_t *section_rdma(void);
json_t *section_gpu(void);
json_t *section_limits(void);
json_t *section_kernels(void);
json_t *section_model(void);
json_t *section_launcher(void);

/* value.c: all take what cannot be had as null; running out of memory shows at the end, as a section
 * that lacks a key. */

/* An empty section with an empty "hints". */
json_t *value_section(void);
/* `text` may be NULL; it is copied. */
void value_text(json_t *section, const char *key, const char *text);
/* Like value_text(), and frees `text`. */
void value_take_text(json_t *section, const char *key, char *text);
void value_number(json_t *section, const char *key, int64_t number);
void value_number_if(json_t *section, const char *key, bool known, int64_t number);
void value_real_if(json_t *section, const char *key, bool known, double number);
void value_bool(json_t *section, const char *key, bool yes);
/* An empty list under `key`, borrowed. */
json_t *value_list(json_t *section, const char *key);
/* What to do about the value of `key`. */
void value_hint(json_t *section, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* text.c: print the report, an object of sections: the same content as the JSON, with hints below their
 * values. */
void text_print(FILE *out, const json_t *report);

#endif
