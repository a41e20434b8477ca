/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about memory and its pages. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "sections.h"

static void put_field(json_t *section, const char *key, const char *meminfo, const char *field,
		      int64_t unit)
{
	char *text = files_field(meminfo, field);
	char *end = text;
	const long long number = text ? strtoll(text, &end, 10) : 0;

	value_number_if(section, key, end != text, number * unit);
	free(text);
}

/* The word in brackets of "always [madvise] never". */
static char *chosen(char *text)
{
	const char *open = text ? strchr(text, '[') : NULL;
	const char *close = open ? strchr(open, ']') : NULL;
	char *word = close ? strndup(open + 1, (size_t)(close - open - 1)) : NULL;

	free(text);
	return word;
}

json_t *section_memory(void)
{
	json_t *section = value_section();
	char *meminfo = files_read("proc/meminfo");
	char *pages = chosen(files_read("sys/kernel/mm/transparent_hugepage/enabled"));
	char *shared = chosen(files_read("sys/kernel/mm/transparent_hugepage/shmem_enabled"));

	put_field(section, "total_bytes", meminfo, "MemTotal", 1024);
	put_field(section, "available_bytes", meminfo, "MemAvailable", 1024);
	put_field(section, "swap_bytes", meminfo, "SwapTotal", 1024);
	value_number(section, "page_bytes", sysconf(_SC_PAGESIZE));
	put_field(section, "huge_page_bytes", meminfo, "Hugepagesize", 1024);
	put_field(section, "huge_pages", meminfo, "HugePages_Total", 1);
	put_field(section, "huge_pages_free", meminfo, "HugePages_Free", 1);
	value_text(section, "transparent_huge_pages", pages);
	value_text(section, "transparent_huge_pages_shared", shared);
	if (pages && strcmp(pages, "never") == 0)
		value_hint(section, "transparent_huge_pages",
			   "large buffers cost more page faults: echo madvise > "
			   "/sys/kernel/mm/transparent_hugepage/enabled");
	free(meminfo);
	free(pages);
	free(shared);
	return section;
}
