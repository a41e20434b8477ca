/* SPDX-License-Identifier: BSD-3-Clause */
/* The log, and the place where a failed call leaves its error message.
 *
 * TUTTI_LOG=debug sets every subsystem's level, TUTTI_LOG=info,tcp:trace that of one subsystem;
 * the default is warn. The level is tested before arguments are evaluated, and errno is kept.
 * Messages are lower case, name before value ("rank 3 maps 65536 bytes"), the cause seen and not
 * the cause guessed. */
#ifndef TT_SPI_LOG_H
#define TT_SPI_LOG_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tutti/tutti.h"

enum tt_log_subsystem {
	TT_LOG_COMM,  /* communicators, bootstrap, topology */
	TT_LOG_STORE, /* where ranks meet */
	TT_LOG_PLAN,  /* algorithms chosen, plans built */
	TT_LOG_EXEC,  /* operations, headers, deadlines */
	TT_LOG_MEM,   /* tutti_mem_alloc, scratch */
	TT_LOG_SHM,
	TT_LOG_TCP,
	TT_LOG_LOOP,
	TT_LOG_RDMA,
	TT_LOG_CUDA,
	TT_LOG_KERNEL,
	TT_LOG_SUBSYSTEM_COUNT
};

/* current level per subsystem; written once at start, read relaxed */
extern uint8_t tt_log_levels[TT_LOG_SUBSYSTEM_COUNT];
/* Set them as TUTTI_LOG would; NULL or "" is the default. Parts that make no sense are reported
 * on standard error. */
void tt_log_read(const char *text);

void tt_log_write(tutti_log_level_t level, enum tt_log_subsystem subsystem, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* tt_log(DEBUG, SHM, "rank %d maps %zu bytes", peer, len); */
#define tt_log(level, subsystem, ...)                                                              \
	do {                                                                                       \
		if (__builtin_expect(TUTTI_LOG_##level <= tt_log_levels[TT_LOG_##subsystem], 0))   \
			tt_log_write(TUTTI_LOG_##level, TT_LOG_##subsystem, __VA_ARGS__);          \
	} while (0)

/* Set the calling thread's error message for tutti_last_error(NULL), log it (from level info on, as
 * the caller is told anyway), and give `result` back: return tt_fail(TUTTI_ERR_INVALID, STORE,
 * "…", …); errno is kept. */
tutti_result_t tt_fail_write(tutti_result_t result, enum tt_log_subsystem subsystem,
			     const char *format, ...) __attribute__((format(printf, 3, 4)));
#define tt_fail(result, subsystem, ...) tt_fail_write(result, TT_LOG_##subsystem, __VA_ARGS__)

/* What an errno value means. For a shortage of descriptors or memory, also what the limit is and
 * how to raise it. */
#define TT_ERRNO_MAX 160
const char *tt_errno_text(int error, char text[TT_ERRNO_MAX]);
/* Does it say that the process or the machine has no more of a resource? A retry at once does not
 * help. */
bool tt_errno_is_shortage(int error);

/* Like tt_fail with TUTTI_ERR_SYSTEM (TUTTI_ERR_NO_MEMORY for ENOMEM) and ": <text of errno>"
 * behind the error message, which names what was tried. */
tutti_result_t tt_fail_errno_write(enum tt_log_subsystem subsystem, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
#define tt_fail_errno(subsystem, ...) tt_fail_errno_write(TT_LOG_##subsystem, __VA_ARGS__)

/* For lines that unauthenticated peers can cause: one in ten seconds. True: this one is due. It
 * ends with `more`, which says how many were left out since the last one, or is "". */
#define TT_LOG_MORE 64
struct tt_log_quota {
	uint64_t due_at;
	unsigned left_out;
};
bool tt_log_due(struct tt_log_quota *quota, char more[TT_LOG_MORE]);

#define TT_ERROR_MAX 640 /* bytes of an error message */

/* The calling thread's error message, "" if none. */
const char *tt_thread_error(void);
/* Put back an error message kept by the caller, where what it did since may have failed and does
 * not matter. */
void tt_thread_error_set(const char *error_text);

#endif
