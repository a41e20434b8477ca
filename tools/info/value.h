/* SPDX-License-Identifier: BSD-3-Clause */
/* Putting values into a section. All take what cannot be had as null; running out of memory shows
 * at the end, as a section that lacks a key. */
#ifndef INFO_VALUE_H
#define INFO_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

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

#endif
