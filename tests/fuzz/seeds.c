/* SPDX-License-Identifier: BSD-3-Clause */
/* Every fuzzer without libFuzzer, so with any compiler: each gets its seeds, and each seed cut in
 * several places. The build names the fuzzers: -DFUZZERS="EACH(agree) EACH(csv)".
 *   seeds FOLDER    with a folder of seeds for each, by name */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CUTS 8 /* a seed is cut at so many places, and is whole at last */

#define EACH(name) void fuzzer_##name(const uint8_t *data, size_t size);
FUZZERS
#undef EACH
#define EACH(name) { #name, fuzzer_##name },
static const struct {
	const char *name;
	void (*run)(const uint8_t *data, size_t size);
} fuzzers[] = { FUZZERS };

/* What the child has been given last, for who sees it end. */
static struct input {
	char path[PATH_MAX];
	size_t length;
} * last;

static void give(void (*run)(const uint8_t *data, size_t size), const uint8_t *seed, size_t length)
{
	uint8_t *data = fuzz_copy(seed, length);

	last->length = length;
	run(data, length);
	free(data);
}

static void give_cut(void (*run)(const uint8_t *data, size_t size))
{
	FILE *file = fopen(last->path, "rbe");
	static uint8_t seed[1 << 16];

	FUZZ_PROMISE(file);
	const size_t size = fread(seed, 1, sizeof(seed), file);
	fclose(file);
	for (size_t cut = 1; cut <= CUTS; cut++)
		give(run, seed, size * cut / CUTS);
}

static void give_all(const char *folder, const char *name,
		     void (*run)(const uint8_t *data, size_t size))
{
	char path[PATH_MAX - NAME_MAX - 1];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	DIR *seeds = opendir(path);

	fuzz_be_quiet();
	give(run, NULL, 0);
	for (const struct dirent *i; seeds && (i = readdir(seeds));) {
		snprintf(last->path, sizeof(last->path), "%s/%s", path, i->d_name);
		if (i->d_name[0] != '.')
			give_cut(run);
	}
	if (seeds)
		closedir(seeds);
}

/* In a process of its own: whatever it does, the others are run. */
static bool passes(const char *folder, size_t which)
{
	int status = 0;

	snprintf(last->path, sizeof(last->path), "nothing");
	fflush(stdout); /* or the child writes it, too */
	const pid_t child = fork();

	if (child == 0) {
		give_all(folder, fuzzers[which].name, fuzzers[which].run);
		exit(EXIT_SUCCESS); /* with what a sanitizer of leaks has to say */
	}
	FUZZ_PROMISE(child > 0 && waitpid(child, &status, 0) == child);
	if (status != 0)
		printf("fuzzer %s ended with status 0x%x, given %zu bytes of %s\n",
		       fuzzers[which].name, status, last->length, last->path);
	return status == 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	FUZZ_PROMISE(argc == 2 && access(argv[1], R_OK | X_OK) == 0);
	last = mmap(NULL, sizeof(*last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	FUZZ_PROMISE(last != MAP_FAILED);
	for (size_t i = 0; i < sizeof(fuzzers) / sizeof(fuzzers[0]); i++)
		failed += !passes(argv[1], i);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
