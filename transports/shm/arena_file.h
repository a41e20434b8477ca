/* SPDX-License-Identifier: BSD-3-Clause */
/* The file behind an arena, of which a process has one descriptor, and on which it has a lock. */
#ifndef TT_SHM_ARENA_FILE_H
#define TT_SHM_ARENA_FILE_H

#include <stdbool.h>

/* Take over a noted descriptor of an arena's file. Gives the one that this process uses for that
 * file, with the process's lock on it; -1 with errno: `fd` is closed then, too. */
int shm_file_take(int fd);
/* One for each shm_file_take(). Keeps errno. */
void shm_file_drop(int fd);

/* Has the process `pid`, another one than this, its lock? It had it when all had joined. */
bool shm_file_is_held(int fd, int pid);

#endif
