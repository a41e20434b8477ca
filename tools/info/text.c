/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how the report is laid out for people. It knows no section: units follow from the ends of
 * keys ("_bytes", "_mbit"), and what null means from "limit" in a key. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "printable.h"
#include "sections.h"

enum { LABEL_COLUMNS = 32 };

static bool ends_with(const char *text, const char *end)
{
	const size_t a = strlen(text), b = strlen(end);

	return a >= b && strcmp(text + a - b, end) == 0;
}

static void format_bytes(char *text, size_t capacity, double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	int unit = 0;

	while (bytes >= 1024 && unit < 5) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, capacity, "%.*f %s", bytes < 10 && unit > 0 && bytes != (long)bytes ? 1 : 0,
		 bytes, units[unit]);
}

static void format_number(char *text, size_t capacity, const char *key, const json_t *value)
{
	const double number = json_number_value(value);

	if (ends_with(key, "_bytes"))
		format_bytes(text, capacity, number);
	else if (ends_with(key, "_mbit"))
		snprintf(text, capacity, "%.0f Mbit/s", number);
	else
		snprintf(text, capacity, "%.15g", number);
}

static void format_scalar(char *text, size_t capacity, const char *key, const json_t *value)
{
	if (json_is_string(value))
		snprintf(text, capacity, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(text, capacity, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_is_number(value))
		format_number(text, capacity, key, value);
	else
		snprintf(text, capacity, "%s", strstr(key, "limit") ? "unlimited" : "none");
	tt_printable(text);
}

/* "size_bytes" is called "size"; variables of the environment keep their names. */
static void format_label(char *label, size_t capacity, const char *key)
{
	snprintf(label, capacity, "%s", key);
	tt_printable(label);
	if (ends_with(label, "_bytes") || ends_with(label, "_mbit"))
		*strrchr(label, '_') = '\0';
	if (*key >= 'A' && *key <= 'Z')
		return;
	for (char *c = label; *c; c++)
		if (*c == '_')
			*c = ' ';
}

static void print_label(FILE *out, int indent, const char *key)
{
	char label[128];

	format_label(label, sizeof(label), key);
	fprintf(out, "%*s%-*s ", indent, "", LABEL_COLUMNS - indent, label);
}

static void print_hint(FILE *out, int indent, const json_t *owner, const char *key)
{
	const char *hint = json_string_value(json_object_get(json_object_get(owner, "hints"), key));

	if (hint)
		fprintf(out, "%*s! %s\n", indent, "", hint);
}

static void print_scalars(FILE *out, int indent, const char *key, const json_t *list)
{
	size_t i;
	json_t *value;
	char text[1024];

	print_label(out, indent, key);
	json_array_foreach(list, i, value) {
		format_scalar(text, sizeof(text), key, value);
		fprintf(out, "%s%s", i > 0 ? ", " : "", text);
	}
	fprintf(out, "%s\n", json_array_size(list) == 0 ? "none" : "");
}

static void print_object(FILE *out, int indent, const json_t *object);

static void print_objects(FILE *out, int indent, const char *key, const json_t *list)
{
	size_t i;
	json_t *entry;
	char name[256], label[128];

	format_label(label, sizeof(label), key);
	fprintf(out, "%*s%s\n", indent, "", label);
	json_array_foreach(list, i, entry) {
		format_scalar(name, sizeof(name), "name", json_object_get(entry, "name"));
		fprintf(out, "%*s%s\n", indent + 2, "", name);
		print_object(out, indent + 4, entry);
	}
}

static void print_member(FILE *out, int indent, const char *key, const json_t *value)
{
	char text[1024];

	if (json_is_object(json_array_get(value, 0))) {
		print_objects(out, indent, key, value);
	} else if (json_is_array(value)) {
		print_scalars(out, indent, key, value);
	} else if (json_is_object(value)) {
		char label[128];

		format_label(label, sizeof(label), key);
		fprintf(out, "%*s%s%s\n", indent, "", label,
			json_object_size(value) ? "" : ": none");
		print_object(out, indent + 2, value);
	} else {
		print_label(out, indent, key);
		format_scalar(text, sizeof(text), key, value);
		fprintf(out, "%s\n", text);
	}
}

static void print_object(FILE *out, int indent, const json_t *object)
{
	const char *key;
	json_t *value;
	/* the name of an entry of a list is its heading; a section's is a value */
	const bool heading = indent > 2;

	json_object_foreach((json_t *)(uintptr_t)object, key, value) {
		if (strcmp(key, "hints") == 0 || (heading && strcmp(key, "name") == 0))
			continue;
		print_member(out, indent, key, value);
		print_hint(out, indent, object, key);
	}
}

void text_print(FILE *out, const json_t *report)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)report, key, value) {
		if (json_is_object(value)) {
			fprintf(out, "\n%s\n", key);
			print_object(out, 2, value);
		} else {
			print_member(out, 0, key, value);
		}
	}
}
