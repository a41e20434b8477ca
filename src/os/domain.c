/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of caches and NUMA nodes, where hwloc has them from, too. */
#include "domain.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "small_file.h"

#define PATH_BYTES 256
#define LIST_BYTES (8 * 64 * TT_CPU_WORDS)

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

/* What the kernel says of cache `i` of a processor. */
static bool read_cache(const char *sys, int cpu, int i, const char *what, char *out, int size)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cache/index%d/%s", sys, cpu, i,
		 what);
	return tt_small_file_read(path, out, size) == 0;
}

static void read_caches(const char *sys, int cpu, const uint64_t cpus[TT_CPU_WORDS],
			struct tt_domain *out)
{
	char text[LIST_BYTES];
	int last = -1, highest = 0;

	for (int i = 0; read_cache(sys, cpu, i, "level", text, sizeof(text)); i++) {
		const int level = atoi(text);

		if (level > highest) {
			highest = level;
			last = i;
		}
		if (level == 2 && read_cache(sys, cpu, i, "size", text, sizeof(text)))
			out->level2 = (uint32_t)strtoul(text, NULL, 10) * 1024; /* such as 512K */
	}
	if (last >= 0 && read_cache(sys, cpu, last, "shared_cpu_list", text, sizeof(text)))
		out->cache = lowest_of(text, cpus);
}

/* A processor's folder has a link to its node. */
static uint16_t node(const char *sys, int cpu, const uint64_t cpus[TT_CPU_WORDS])
{
	char path[PATH_BYTES], list[LIST_BYTES];
	int number = -1;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d", sys, cpu);
	DIR *folder = opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder)) && number < 0;)
		if (sscanf(entry->d_name, "node%d", &number) != 1)
			number = -1;
	if (folder)
		closedir(folder);
	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sys, number);
	return number >= 0 && tt_small_file_read(path, list, sizeof(list)) == 0
		       ? lowest_of(list, cpus)
		       : 0;
}

struct tt_domain tt_domain_of(const char *sys, const uint64_t cpus[TT_CPU_WORDS])
{
	struct tt_domain domain = { 0 };
	int word = 0;

	while (word < TT_CPU_WORDS && !cpus[word])
		word++;
	if (word < TT_CPU_WORDS) {
		const int cpu = 64 * word + __builtin_ctzll(cpus[word]);

		read_caches(sys, cpu, cpus, &domain);
		domain.node = node(sys, cpu, cpus);
	}
	return domain;
}
