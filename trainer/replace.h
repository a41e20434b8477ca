/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are whole, or as they were before. */
#ifndef TRAIN_REPLACE_H
#define TRAIN_REPLACE_H

#include <stddef.h>

#include "why.h"

/* Can a file be written to `path`? Tries by one beside it, which it removes: what stands at `path`
 * stays as it is. */
tutti_result_t replace_check(const char *path, struct why *why);

/* The file is on disk when this returns TUTTI_OK. On failure what was at `path` is still there, and
 * nothing else; but if `why` says that the directory could not be brought to disk, the new file is
 * there. */
tutti_result_t replace_file(const char *path, const void *bytes, size_t length, struct why *why);

#endif
