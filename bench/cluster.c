/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the keys of a cluster's file. Each error message names the file, the key, what was found
 * there and what was expected. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cluster.h"
#include "lines.h"

enum unit { MICROSECONDS, GIGABYTES };

/* A number, and where it goes: seconds, or seconds per byte. */
struct figure {
	const char *section, *key;
	enum unit unit;
	size_t offset; /* in tutti_cluster_t */
};

#define FIGURE(section, key, unit, member)                                                         \
	{                                                                                          \
		section, key, unit, offsetof(tutti_cluster_t, member)                              \
	}

static const struct figure figures[] = {
	FIGURE("within_host", "latency_us", MICROSECONDS, within.latency),
	FIGURE("within_host", "overhead_us", MICROSECONDS, within.overhead),
	FIGURE("within_host", "bandwidth_gbs", GIGABYTES, within.byte),
	FIGURE("within_host", "shared_gbs", GIGABYTES, shared_byte),
	FIGURE("within_host", "sync_us", MICROSECONDS, sync),
	FIGURE("within_host", "reduce_gbs", GIGABYTES, reduced_byte),
	FIGURE("between_hosts", "latency_us", MICROSECONDS, between.latency),
	FIGURE("between_hosts", "overhead_us", MICROSECONDS, between.overhead),
	FIGURE("between_hosts", "bandwidth_gbs", GIGABYTES, between.byte),
	FIGURE("between_hosts", "host_bandwidth_gbs", GIGABYTES, network_byte),
};
enum { FIGURES = sizeof(figures) / sizeof(figures[0]) };

static const char *const sections[] = { "within_host", "between_hosts" };
static const char *const keys[] = { "name", "note", "ranks_per_host", "within_host",
				    "between_hosts" };
static const char name_expected[] = "a string of 1 to 127 bytes without control characters";

static bool __attribute__((format(printf, 2, 3))) wrong(const char *path, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	bench_complain("--simulate: %s: %s", path, text);
	return false;
}

/* `value` stands under the key, or nothing does if it is NULL, and that is not what is expected. */
static bool misfit(const char *path, const char *key, const json_t *value, const char *expected)
{
	static const char *const types[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
		[JSON_TRUE] = "true",	     [JSON_FALSE] = "false",	[JSON_NULL] = "null",
	};

	if (!value)
		return wrong(path, "\"%s\" is missing, expected %s", key, expected);
	if (json_is_number(value))
		return wrong(path, "\"%s\" is %.12g, expected %s", key, json_number_value(value),
			     expected);
	return wrong(path, "\"%s\" is %s, expected %s", key, types[json_typeof(value)], expected);
}

/* ---- which keys there may be */

static bool is_top_key(const char *key)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

static bool is_figure(const char *section, const char *key)
{
	for (int i = 0; i < FIGURES; i++)
		if (strcmp(figures[i].section, section) == 0 && strcmp(figures[i].key, key) == 0)
			return true;
	return false;
}

static bool check_top_keys(const char *path, json_t *top)
{
	const char *key;
	json_t *value;

	json_object_foreach(top, key, value)
		if (!is_top_key(key))
			return wrong(
				path,
				"the key \"%s\" is unknown, expected only name, note, ranks_per_host, within_host "
				"and between_hosts",
				key);
	return true;
}

static bool check_section_keys(const char *path, const char *section, json_t *object)
{
	char list[256] = "";
	const char *key;
	json_t *value;

	for (int i = 0; i < FIGURES; i++)
		if (strcmp(figures[i].section, section) == 0)
			bench_append(list, sizeof(list), "%s%s", *list ? ", " : "", figures[i].key);
	json_object_foreach(object, key, value)
		if (!is_figure(section, key))
			return wrong(path, "the key \"%s.%s\" is unknown, expected only %s",
				     section, key, list);
	return true;
}

/* ---- values */

static bool read_name(const char *path, json_t *top, struct bench_cluster *cluster)
{
	json_t *value = json_object_get(top, "name"), *note = json_object_get(top, "note");
	const char *text = json_string_value(value);
	const size_t length = text ? strlen(text) : 0;

	if (!text)
		return misfit(path, "name", value, name_expected);
	if (length == 0 || length >= sizeof(cluster->name))
		return wrong(path, "\"name\" has %zu bytes, expected %s", length, name_expected);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ')
			return wrong(path, "\"name\" has a control character, expected %s",
				     name_expected);
	memcpy(cluster->name, text, length + 1);
	return !note || json_is_string(note) || misfit(path, "note", note, "a string");
}

static bool read_ranks(const char *path, json_t *top, struct bench_cluster *cluster)
{
	json_t *value = json_object_get(top, "ranks_per_host");
	const json_int_t ranks = json_integer_value(value);

	cluster->figures.ranks_per_host = (int)ranks;
	return (ranks >= 1 && ranks <= 65536) ||
	       misfit(path, "ranks_per_host", value, "a whole number from 1 to 65536");
}

static bool read_figure(const char *path, const struct figure *figure, json_t *section,
			tutti_cluster_t *out)
{
	json_t *value = json_object_get(section, figure->key);
	const double number = json_number_value(value);
	const double figured = figure->unit == MICROSECONDS ? number * 1e-6 : 1e-9 / number;
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", figure->section, figure->key);
	memcpy((char *)out + figure->offset, &figured, sizeof(figured));
	return (json_is_number(value) && number >= 0 && isfinite(figured)) ||
	       misfit(path, key, value,
		      figure->unit == MICROSECONDS ? "microseconds, a number of 0 or more"
						   : "10^9 bytes per second, a number above 0");
}

static bool read_section(const char *path, const char *section, json_t *top, tutti_cluster_t *out)
{
	json_t *object = json_object_get(top, section);

	if (!json_is_object(object))
		return misfit(path, section, object, "an object with its figures");
	if (!check_section_keys(path, section, object))
		return false;
	for (int i = 0; i < FIGURES; i++)
		if (strcmp(figures[i].section, section) == 0 &&
		    !read_figure(path, &figures[i], object, out))
			return false;
	return true;
}

static bool read_object(const char *path, json_t *top, struct bench_cluster *cluster)
{
	if (!json_is_object(top))
		return wrong(path, "holds an array, expected an object that describes a cluster");
	*cluster = (struct bench_cluster){ .figures.size = sizeof(cluster->figures) };
	if (!check_top_keys(path, top) || !read_name(path, top, cluster) ||
	    !read_ranks(path, top, cluster))
		return false;
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (!read_section(path, sections[i], top, &cluster->figures))
			return false;
	return true;
}

bool bench_cluster_read(const char *path, struct bench_cluster *cluster)
{
	FILE *file = fopen(path, "re");
	json_error_t error;
	json_t *top = file ? json_loadf(file, JSON_REJECT_DUPLICATES, &error) : NULL;
	const bool read = file && !ferror(file);
	const int why = errno;
	bool right;

	if (file)
		fclose(file);
	if (!read)
		return wrong(path,
			     "cannot be read (%s), expected a JSON file that describes a cluster",
			     strerror(why));
	if (!top)
		return wrong(path, "line %d, column %d is not JSON: %s", error.line, error.column,
			     error.text);
	right = read_object(path, top, cluster);
	json_decref(top);
	return right;
}
