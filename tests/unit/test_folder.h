/* SPDX-License-Identifier: BSD-3-Clause */
/* A folder of the test's own, in memory where there is such a place. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

/* For the setup of a test, of all of them, or of a test's own. */
static inline int make_folder(void **state)
{
	strcpy(folder, "/dev/shm/tutti-test-XXXXXX");
	if (mkdtemp(folder))
		return 0;
	strcpy(folder, "/tmp/tutti-test-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *status, int kind,
			     struct FTW *where)
{
	return remove(path);
}

/* With all that is in it. */
static inline int remove_folder(void **state)
{
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A path in it, of which the next call but three may make another. */
static inline char *path_of(const char *name)
{
	static char paths[4][192];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

/* And the folders that it is in. */
static inline const char *file_with(const char *name, const char *text)
{
	char *path = path_of(name);

	for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	return path;
}

#endif
