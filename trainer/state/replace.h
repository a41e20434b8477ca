/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are whole, or as they were before. */
#ifndef TRAIN_REPLACE_H
#define TRAIN_REPLACE_H

#include <stddef.h>

#include "why.h"

/* As output_file() does, but to no device: who reads it needs a file. */
bool replace_file(const char *path, const void *bytes, size_t length);

/* By what names it; path NULL: there is none. */
struct named_file {
	const char *option, *path;
};
/* The first `inputs` of `count` files are there for something else, the others are written: is each of these
 * no other, by whatever name? Devices and pipes may be. */
bool replace_distinct(const struct named_file *files, size_t inputs, size_t count);

#endif
