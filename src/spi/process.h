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

#endif
