/* SPDX-License-Identifier: BSD-3-Clause */
/* The small text files in which the kernel describes a machine. Paths are relative to the root that
 * files_set_root() named ("proc/meminfo"). */
#ifndef INFO_FILES_H
#define INFO_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* false with errno if it is no directory */
bool files_set_root(const char *directory);
/* Its name as it was given. */
const char *files_root(void);
/* Is it the root of this machine? */
bool files_are_here(void);

/* The content without white space at its end, a new string; NULL if it cannot be read. */
char *files_read(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The number a file starts with; false if there is none. */
bool files_read_number(int64_t *value, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The last part of what a symbolic link names, a new string; NULL if there is none. */
char *files_read_link(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The names in a directory in alphabetical order, NULL at the end; NULL if it cannot be read or is
 * empty. Freed by files_free_list(). */
char **files_list(const char *format, ...) __attribute__((format(printf, 1, 2)));
void files_free_list(char **names);

/* What follows "key" and a colon in lines like those of /proc/meminfo and /proc/cpuinfo, a new
 * string; NULL if no line has that key. */
char *files_field(const char *text, const char *key);
/* Is this one of the words in the text, which may be NULL? */
bool files_has_word(const char *text, const char *word);

#endif
