/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the names of all sets of transports: bit i of a set is names[i]. */
#include <string.h>

#include "lines.h"
#include "transports.h"

static const char *const names[] = { "cuda", "shm", "rdma", "tcp" };
enum { NAMES = sizeof(names) / sizeof(names[0]), TEXT = 32 };

static unsigned set_of(const char *text)
{
	unsigned set = 0;

	while (*text) {
		const size_t length = strcspn(text, "+");

		for (unsigned i = 0; i < NAMES; i++) {
			if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0)
				set |= 1u << i;
		}
		text += length + (text[length] == '+');
	}
	return set;
}

/* Static, as results keep it. */
static const char *text_of(unsigned set)
{
	static char texts[1 << NAMES][TEXT];
	char *text = texts[set];

	if (*text)
		return text;
	for (unsigned i = 0; i < NAMES; i++)
		if (set & 1u << i)
			bench_append(text, TEXT, "%s%s", *text ? "+" : "", names[i]);
	return text;
}

int bench_join_transports(struct bench_backend *backend, const char **transports)
{
	const unsigned mine = set_of(*transports);
	double used[NAMES];
	unsigned all = 0;

	for (unsigned i = 0; i < NAMES; i++)
		used[i] = (mine >> i) & 1;
	if (backend->combine(backend, used, NAMES, BENCH_MAX) < 0)
		return -1;
	for (unsigned i = 0; i < NAMES; i++)
		all |= used[i] > 0 ? 1u << i : 0;
	if (all != 0)
		*transports = text_of(all);
	return 0;
}
