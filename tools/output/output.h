/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs write: a standard output that is checked, and files that are whole or not there. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The end of every error message about what could not be written. */
#define OUTPUT_ADVICE "make space, or name another place"

/* To be called first in main(). If standard output could not be written, the process ends with an
 * error message and the exit status `failed`. Standard streams that are closed are opened, so that
 * no file or socket gets their numbers; to write there is such an error, too. So is a file that is as
 * large as files may be (ulimit -f), whose signal (SIGXFSZ) is ignored. */
void output_begin(int failed);

/* fflush() of a stream. What fails of standard output is remembered for its end. */
bool output_flush(FILE *stream);

/* Write a whole file, on disk when this returns true, or to a device; links stay. False: errno says
 * why not, and a file is as it was; or, if only its directory could not be brought to disk, the new one.
 * `bytes` NULL: could a file be written? That is tried beside `path`, where nothing changes. */
bool output_file(const char *path, const void *bytes, size_t length);

/* Where that is, which may be no file yet, by the only name that it has without links: the caller's to free.
 * NULL: errno says why nowhere. */
char *output_end(const char *path);

/* Are they the same file, or the same place for one? Devices and pipes are not. */
bool output_same(const char *one, const char *other);

#ifdef __cplusplus
}
#endif

#endif
