/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what a test sees of what its process holds: entries of directories such as /proc/self/fd,
 * lines of files such as /proc/self/maps, and memory. */
#ifndef TT_TESTS_HELD_H
#define TT_TESTS_HELD_H

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "." and ".." are two; of descriptors in /proc/self/fd the one that looks is one. */
static inline int count_entries(const char *directory)
{
	DIR *entries = opendir(directory);
	int n = 0;

	while (entries && readdir(entries))
		n++;
	if (entries)
		closedir(entries);
	return n;
}

static inline int count_lines(const char *path, const char *words)
{
	FILE *file = fopen(path, "re");
	char line[1024];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, words) != NULL;
	if (file)
		fclose(file);
	return n;
}

/* In the order of /proc/self/statm. */
enum held { HELD_ADDRESSES, HELD_RESIDENT, HELD_SHARED };

/* Bytes; 0: unknown. */
static inline size_t bytes_held(enum held which)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	for (int i = 0; file && i <= (int)which; i++)
		if (fscanf(file, "%zu", &pages) != 1)
			pages = 0;
	if (file)
		fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
