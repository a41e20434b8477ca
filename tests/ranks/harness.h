/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes as ranks: each test body runs in every rank of a job, and the parent judges how they ended.
 *
 * A body returns 0 when all of its claims hold, otherwise it has said on stderr which one failed. A job that does not end
 * within its time is killed and counts as a hang. */
#ifndef TT_HARNESS_H
#define TT_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

typedef int rank_body(tutti_comm_t comm, void *argument);

struct job {
	int ranks;
	const char *const *env; /* "NAME=VALUE" …, NULL at the end; or NULL */
	rank_body *body;
	void *argument;
	double limit_s;	     /* 0: 60 */
	int expect_signal;   /* 0, or the signal that may end ranks of `victims` */
	uint32_t victims;    /* bit mask of ranks that may end so */
};

/* Runs the job; 0 if every rank returned 0 (or was a victim that ended by the expected signal). */
int run_job(const struct job *job);

/* In a body: complain with rank, place and text, and return 1 from the body. */
int complain(tutti_comm_t comm, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
#define CLAIM(condition, ...)                                                   \
	do {                                                                    \
		if (!(condition))                                               \
			return complain(comm, __FILE__, __LINE__, __VA_ARGS__); \
	} while (0)
#define SUCCEEDS(call)                                                                           \
	do {                                                                                     \
		const tutti_result_t claimed = (call);                                           \
		CLAIM(claimed == TUTTI_OK, "%s: %s (%s)", #call, tutti_strerror(claimed), \
		      tutti_last_error(comm));                                                   \
	} while (0)

double seconds_now(void);

#endif
