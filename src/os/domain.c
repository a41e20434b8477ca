/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of caches and NUMA nodes, where hwloc has them from, too. */
#include "domain.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES 256

/* The beginning of a line; false: there is none. */
static bool read_line(const char *path, char *out, int size)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	const bool there = fgets(out, size, file);
	fclose(file);
	return there;
}

/* What a list such as 0-3,8 and `cpus` have in common is 1 + its lowest number if that is all of
 * `cpus`, else 0. */
static uint16_t lowest_of(const char *list, const uint64_t cpus[TT_CPU_WORDS])
{
	uint64_t rest[TT_CPU_WORDS];
	unsigned long lowest = 64 * TT_CPU_WORDS;

	for (int i = 0; i < TT_CPU_WORDS; i++)
		rest[i] = cpus[i];
	for (char *end; *list >= '0' && *list <= '9'; list = end + (*end == ',')) {
		const unsigned long first = strtoul(list, &end, 10);
		const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

		lowest = first < lowest ? first : lowest;
		for (unsigned long cpu = first; cpu <= last && cpu < 64 * TT_CPU_WORDS; cpu++)
			rest[cpu / 64] &= ~(1ull << (cpu % 64));
	}
	for (int i = 0; i < TT_CPU_WORDS; i++)
		if (rest[i])
			return 0;
	return lowest < 64 * TT_CPU_WORDS ? (uint16_t)(1 + lowest) : 0;
}

static uint16_t shared(const char *path, const uint64_t cpus[TT_CPU_WORDS])
{
	char list[8 * 64 * TT_CPU_WORDS];

	return read_line(path, list, sizeof(list)) ? lowest_of(list, cpus) : 0;
}

static uint16_t last_cache(const char *sys, int cpu, const uint64_t cpus[TT_CPU_WORDS])
{
	char path[PATH_BYTES], level[16];
	int last = -1, highest = 0;

	for (int i = 0;; i++) {
		snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cache/index%d/level", sys,
			 cpu, i);
		if (!read_line(path, level, sizeof(level)))
			break;
		if (atoi(level) > highest) {
			highest = atoi(level);
			last = i;
		}
	}
	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list",
		 sys, cpu, last);
	return last < 0 ? 0 : shared(path, cpus);
}

/* A processor's folder has a link to its node. */
static uint16_t node(const char *sys, int cpu, const uint64_t cpus[TT_CPU_WORDS])
{
	char path[PATH_BYTES];
	int number = -1;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d", sys, cpu);
	DIR *folder = opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder)) && number < 0;)
		if (sscanf(entry->d_name, "node%d", &number) != 1)
			number = -1;
	if (folder)
		closedir(folder);
	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sys, number);
	return number < 0 ? 0 : shared(path, cpus);
}

struct tt_domain tt_domain_of(const char *sys, const uint64_t cpus[TT_CPU_WORDS])
{
	int word = 0;

	while (word < TT_CPU_WORDS && !cpus[word])
		word++;
	if (word == TT_CPU_WORDS)
		return (struct tt_domain){ 0, 0 };
	const int cpu = 64 * word + __builtin_ctzll(cpus[word]);
	return (struct tt_domain){ last_cache(sys, cpu, cpus), node(sys, cpu, cpus) };
}
