/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the shape of a section. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"
#include "sections.h"

json_t *value_section(void)
{
	json_t *section = json_object();

	json_object_set_new(section, "hints", json_object());
	return section;
}

void value_text(json_t *section, const char *key, const char *text)
{
	json_t *value = text ? json_string(text) : NULL;
	/* what the kernel or the environment gives need not be UTF-8 */
	char *shown = text && !value ? strdup(text) : NULL;

	if (shown)
		value = json_string(tt_printable(shown));
	free(shown);
	json_object_set_new(section, key, value ? value : json_null());
}

void value_take_text(json_t *section, const char *key, char *text)
{
	value_text(section, key, text);
	free(text);
}

void value_number(json_t *section, const char *key, int64_t number)
{
	json_object_set_new(section, key, json_integer(number));
}

void value_number_if(json_t *section, const char *key, bool known, int64_t number)
{
	json_object_set_new(section, key, known ? json_integer(number) : json_null());
}

void value_real_if(json_t *section, const char *key, bool known, double number)
{
	json_object_set_new(section, key, known ? json_real(number) : json_null());
}

void value_bool(json_t *section, const char *key, bool yes)
{
	json_object_set_new(section, key, json_boolean(yes));
}

json_t *value_list(json_t *section, const char *key)
{
	json_t *list = json_array();

	json_object_set_new(section, key, list);
	return list;
}

void value_hint(json_t *section, const char *key, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	value_text(json_object_get(section, "hints"), key, text);
}
