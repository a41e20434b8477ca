/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes as ranks: each test body runs in every rank of a job, and the parent judges how
 * they ended.
 *
 * A body returns 0 when all of its claims hold, otherwise it has said on stderr which one
 * failed. A job that does not end within its time is killed and counts as a hang. */
#ifndef TT_HARNESS_H
#define TT_HARNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tutti/tutti.h>

#include "../patience.h"

typedef int rank_body(tutti_comm_t comm, void *argument);
/* A rank from its first instruction on, its environment being set: for claims about tutti_init
 * itself. */
typedef int rank_whole(int rank, void *argument);

struct job {
	int ranks, most;	/* most: 0, or it is run with each number of ranks up to this */
	const char *const *env; /* "NAME=VALUE" …, NULL at the end; or NULL */
	rank_body *body;
	rank_whole *whole; /* instead of `body` */
	void *argument;
	/* "NAME=…": a setting more, whose end is the path of a directory of the job's own */
	const char *with_directory;
	size_t shares; /* bytes, instead of `argument`: zeroed memory that ranks share, as long as they run */
	double limit_s;	   /* 0: 60; at least 160 where the machine may be busy */
	int expect_signal; /* 0, or the signal that may end ranks of `victims` */
	uint32_t victims;  /* bit mask of ranks that may end so */
};

/* Runs the job; 0 if every rank returned 0 (or was a victim that ended by the expected signal). */
int run_job(const struct job *job);
/* It does, and a claim that is no more than this: the fields of the job follow. After tests.h. */
#define HOLDS(...) assert_int_equal(run_job(&(const struct job){ __VA_ARGS__ }), 0)
#define JOB(name, ...)                                                                             \
	TEST(name)                                                                                 \
	{                                                                                          \
		HOLDS(__VA_ARGS__);                                                                \
	}
#define ENV(...)                                                                                   \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* One that is put together: of zeros, then line by line; `env` is for the job. */
struct environment {
	const char *env[17];
	char text[16][96];
};
void environment_add(struct environment *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* This process is one rank of a job that somebody else starts, as its environment says. Returns
 * what `body` does. */
int run_launched(rank_body *body, void *argument);

/* In a body: complain with rank, place and text, and return 1 from the body. */
int complain(tutti_comm_t comm, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
#define CLAIM(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return complain(comm, __FILE__, __LINE__, __VA_ARGS__);                    \
	} while (0)
#define SUCCEEDS(call)                                                                             \
	do {                                                                                       \
		const tutti_result_t claimed = (call);                                             \
		CLAIM(claimed == TUTTI_OK, "%s: %s (%s)", #call, tutti_strerror(claimed),          \
		      tutti_last_error(comm));                                                     \
	} while (0)

/* The call fails so, and the error message has these words; or it is invalid, and has them. */
#define FAILS(call, code, ...)                                                                     \
	do {                                                                                       \
		if (!fails(comm, __FILE__, __LINE__, #call, call, code,                            \
			   (const char *const[]){ __VA_ARGS__, NULL }))                            \
			return 1;                                                                  \
	} while (0)
#define REFUSES(call, ...)                                                                         \
	do {                                                                                       \
		if (!fails(comm, __FILE__, __LINE__, #call, call, TUTTI_ERR_INVALID,               \
			   (const char *const[]){ __VA_ARGS__, NULL }))                            \
			return 1;                                                                  \
	} while (0)
/* Otherwise it has complained. */
bool fails(tutti_comm_t comm, const char *file, int line, const char *call, tutti_result_t result,
	   tutti_result_t expected, const char *const *words);

/* Every rank contributes one: the sum is their number. */
int sums_right(tutti_comm_t comm);
/* Every kind of way that bytes take, with contributions that tell who made them: this rank's, and
 * those of all. */
int all_ways_compute(tutti_comm_t comm, int mine, const int *expected);
double seconds_now(void);
/* Zeroed memory that the parent and all ranks of its jobs share. */
void *shared_memory(size_t bytes);
/* Wait until `*count`, which each of `ranks` ranks adds one to, has all: a barrier that owes
 * nothing to the library. */
void meet_at(atomic_int *count, int ranks);
/* Wait until `*count` is that high. Who counts need not wake anybody. */
void await_count(const atomic_int *count, int least);
/* The same for so many seconds at most: is it that high? */
bool await_count_for(const atomic_int *count, int least, double seconds);
/* Between two looks at what somebody else is to do: who waits takes no processor's time. */
void look_again(void);
/* This thread's next call on the communicator has a deadline of its own. */
tutti_result_t next_call_takes(tutti_comm_t comm, double seconds);
/* In this process's environment. */
void set_number(const char *name, int value);
/* What the functions of a user's own store give where they hand on to one of the library's. */
int store_error(tutti_result_t result);
/* By a signal, as the system sees it: raise() may have been called and not be felt yet. */
bool is_stopped(pid_t pid);
/* Waits until it is. False: it has ended. */
bool await_stop(pid_t pid);
/* In one of several processes that may be: all of them are stopped, and go on after so many
 * seconds. False: they could not be. */
bool all_stand_still(const pid_t *pids, int n, double seconds);
/* Descriptors that this process has open. */
int open_descriptors(void);
/* From now on this process may open so many more, 64 at most; -1: as many as before. */
void allow_descriptors(int more);
/* In $TMPDIR, or /tmp, with all that is in it in the end. */
void make_directory(char path[64]);
void remove_directory(const char *path);
/* Nobody else is given it for a while. */
int free_port(void);
/* KiB of memory that this process has in use; under a sanitizer, which keeps what is freed,
 * those of its heap. */
long memory_in_use(void);
/* KiB of it that is no file's and shared with nobody; under a sanitizer all of it. */
long private_memory_in_use(void);

/* Read argv[1], the way ranks reach each other in all jobs of this program: shm, tcp, tls (tcp,
 * encrypted), rdma (where this host has a device), or mixed (two hosts, shared memory within
 * each and TCP between). Returns 0, or 2 after a word on usage. */
int choose_transport(int argc, char **argv);
/* What was chosen. */
extern const char *transport_chosen;

#endif
