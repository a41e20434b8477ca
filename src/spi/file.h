/* SPDX-License-Identifier: BSD-3-Clause */
/* Files within the limit of their size (ulimit -f). A process that writes or grows a file beyond
 * it gets SIGXFSZ, which ends the process. Under a guard the call only fails with EFBIG. Memory of
 * memfd_create() has the same limit. All of this may be called in signal handlers. */
#ifndef TT_SPI_FILE_H
#define TT_SPI_FILE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that a file of this process may have; UINT64_MAX: there is no limit. */
uint64_t tt_file_limit(void);

/* The calling thread's part between begin and end. */
struct tt_file_guard {
	sigset_t before;
	bool idle; /* such a signal was pending before: it is not ours to take */
};
void tt_file_guard_begin(struct tt_file_guard *guard);
void tt_file_guard_end(const struct tt_file_guard *guard); /* keeps errno */

/* ftruncate() under a guard. */
int tt_file_resize(int fd, uint64_t bytes);
/* posix_fallocate() under a guard: 0 or an errno value. */
int tt_file_reserve(int fd, uint64_t offset, uint64_t bytes);
/* All of this at `offset`, under a guard: 0 or an errno value. */
int tt_file_write(int fd, uint64_t offset, const void *bytes, size_t length);

#endif
