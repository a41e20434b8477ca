/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading below the root directory, which is "/" unless the user named another. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

enum { LARGEST = 1 << 21 };

static int root = -1;
static const char *root_name = "/";

bool files_set_root(const char *directory)
{
	root = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	root_name = directory;
	return root >= 0;
}

const char *files_root(void)
{
	return root_name;
}

bool files_are_here(void)
{
	return strcmp(root_name, "/") == 0;
}

static int open_path(int flags, const char *format, va_list args)
{
	char path[PATH_MAX];

	vsnprintf(path, sizeof(path), format, args);
	return openat(root, path,
		      /* below another root anything may be */
		      flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Everything until the end of the file, which does not tell its size. */
static char *slurp(int fd)
{
	FILE *file = fdopen(fd, "r");
	char *text = file ? malloc(LARGEST + 1) : NULL;

	if (text)
		text[fread(text, 1, LARGEST, file)] = '\0';
	if (text && ferror(file)) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	else
		close(fd);
	return text;
}

static char *read_path(const char *format, va_list args)
{
	const int fd = open_path(O_RDONLY, format, args);
	char *text;
	size_t length;

	if (fd < 0)
		return NULL;
	text = slurp(fd);
	if (!text)
		return NULL;
	length = strlen(text);
	while (length > 0 && strchr(" \t\n", text[length - 1]))
		text[--length] = '\0';
	return text;
}

char *files_read(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	char *text = read_path(format, args);
	va_end(args);
	return text;
}

bool files_read_number(int64_t *value, const char *format, ...)
{
	va_list args;
	char *end;

	va_start(args, format);
	char *text = read_path(format, args);
	va_end(args);
	if (!text)
		return false;
	errno = 0;
	const long long number = strtoll(text, &end, 0);
	const bool ok = end != text && errno == 0;
	if (ok)
		*value = number;
	free(text);
	return ok;
}

char *files_read_link(const char *format, ...)
{
	char path[PATH_MAX], target[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	const ssize_t length = readlinkat(root, path, target, sizeof(target) - 1);
	if (length < 0)
		return NULL;
	target[length] = '\0';
	const char *slash = strrchr(target, '/');
	return strdup(slash ? slash + 1 : target);
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

char **files_list(const char *format, ...)
{
	struct dirent **entries = NULL;
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	const int count = scandirat(root, path, &entries, visible, alphasort);
	if (count < 0)
		return NULL;
	char **names = count > 0 ? calloc((size_t)count + 1, sizeof(*names)) : NULL;
	for (int i = 0; i < count; i++) {
		if (names)
			names[i] = strdup(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return names;
}

void files_free_list(char **names)
{
	for (char **name = names; name && *name; name++)
		free(*name);
	free(names);
}

char *files_field(const char *text, const char *key)
{
	const size_t length = strlen(key);

	for (const char *line = text; line && *line;) {
		const char *end = line + strcspn(line, "\n");
		const char *value = line + length;

		if (strncmp(line, key, length) == 0) {
			value += strspn(value, " \t");
			if (*value == ':') {
				value++;
				value += strspn(value, " \t");
				return value < end ? strndup(value, (size_t)(end - value))
						   : strdup("");
			}
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

bool files_has_word(const char *text, const char *word)
{
	const size_t length = strlen(word);

	for (const char *at = text; at && (at = strstr(at, word)); at += length)
		if ((at == text || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}
