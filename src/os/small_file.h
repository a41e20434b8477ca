/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files, as /proc and /sys have them. */
#ifndef TT_SMALL_FILE_H
#define TT_SMALL_FILE_H

#include <stddef.h>

/* The file as a string, or as much of it as `size` bytes hold. Gives 0, or an errno value: ENODATA
 * where the file is empty; *out is then "". */
int tt_small_file_read(const char *path, char *out, size_t size);

#endif
