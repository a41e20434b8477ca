/* SPDX-License-Identifier: BSD-3-Clause */
/* What /proc tells of other processes of this machine, in the namespace of this one. */
#ifndef TT_SPI_PROCESS_H
#define TT_SPI_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Has the process ended, waited for by its parent or not? False where that cannot be known now. */
bool tt_process_has_ended(int32_t pid);

/* Has it begun to end, so that its files are closed or will be, while its parent cannot know of that
 * yet? False where that cannot be known now. */
bool tt_process_is_ending(int32_t pid);

/* Is it stopped, by a signal or a debugger? False where that cannot be known now. */
bool tt_process_is_stopped(int32_t pid);

/* A regular file that a process has open, as it tells others. */
struct tt_process_file {
	int32_t fd; /* its number there … */
	uint32_t exists;
	uint64_t device, inode; /* … which may be another file's by then */
};

/* That of this process; `exists` is 0 if there is none, as -1 stands for. */
struct tt_process_file tt_process_file(int fd);
/* Open another's to read and write, for tt_fd_close(). -1 with errno: it cannot be opened, or the
 * number is another file's (ESTALE). */
int tt_process_open(int32_t pid, const struct tt_process_file *file);

#endif
