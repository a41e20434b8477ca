/* SPDX-License-Identifier: BSD-3-Clause */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *set_name(const struct tt_library *library)
{
	const char *set = library->variable ? getenv(library->variable) : NULL;

	return set && *set ? set : NULL;
}

const char *tt_library_name(const struct tt_library *library)
{
	const char *set = set_name(library);

	return set ? set : library->names[0];
}

static void *open_any(const struct tt_library *library, int flags, const char **name)
{
	const char *set = set_name(library);
	void *opened = NULL;

	*name = set;
	if (set)
		return dlopen(set, flags);
	for (int i = 0; i < TT_LIBRARY_NAMES && library->names[i] && !opened; i++) {
		*name = library->names[i];
		opened = dlopen(*name, flags);
	}
	return opened;
}

/* The name of the first function that is missing, or NULL. */
static const char *take_functions(void *opened, const struct tt_library *library, void *into)
{
	for (size_t i = 0; i < library->count; i++) {
		const struct tt_function *wanted = &library->functions[i];
		void *const function = dlsym(opened, wanted->name);

		if (!function && !wanted->optional)
			return wanted->name;
		memcpy((char *)into + wanted->at, &function, sizeof(function));
	}
	return NULL;
}

static void *open_with(const struct tt_library *library, int flags, void *into, char *why)
{
	const char *name;
	const int scope = library->global ? RTLD_GLOBAL : RTLD_LOCAL;
	void *const opened = open_any(library, flags | RTLD_NOW | scope, &name);

	if (!opened) {
		const char *said = dlerror();

		snprintf(why, TT_LIBRARY_WHY, "%s%s%s", library->before ? library->before : "",
			 said ? said : name, library->after ? library->after : "");
		return NULL;
	}
	const char *lacks = take_functions(opened, library, into);

	if (!lacks)
		return opened;
	snprintf(why, TT_LIBRARY_WHY, "%s has no %s%s%s", name, lacks,
		 library->expected ? ": expected " : "",
		 library->expected ? library->expected : "");
	dlclose(opened);
	return NULL;
}

void *tt_library_open(const struct tt_library *library, void *into, char why[TT_LIBRARY_WHY])
{
	return open_with(library, 0, into, why);
}

void *tt_library_find(const struct tt_library *library, void *into)
{
	char why[TT_LIBRARY_WHY];

	return open_with(library, RTLD_NOLOAD, into, why);
}
