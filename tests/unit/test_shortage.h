/* SPDX-License-Identifier: BSD-3-Clause */
/* A process in which no descriptor is free. */
#ifndef TEST_SHORTAGE_H
#define TEST_SHORTAGE_H

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#define SHORTAGE_MOST 256 /* descriptors of the process */
#define SHORTAGE_FEW  20

struct shortage {
	struct rlimit before;
	int taken[SHORTAGE_MOST], count;
};

static inline void shortage_begin(struct shortage *s)
{
	struct rlimit low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &s->before), 0);
	low = s->before;
	low.rlim_cur = SHORTAGE_MOST;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	s->count = 0;
	for (int fd; (fd = dup(0)) >= 0;)
		s->taken[s->count++] = fd;
	assert_int_equal(errno, EMFILE);
}

static inline void shortage_free_one(struct shortage *s)
{
	close(s->taken[--s->count]);
}

/* So many are. */
static inline void shortage_begin_with_few(struct shortage *s)
{
	shortage_begin(s);
	for (int i = 0; i < SHORTAGE_FEW; i++)
		shortage_free_one(s);
}

static inline void shortage_end(struct shortage *s)
{
	while (s->count > 0)
		shortage_free_one(s);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s->before), 0);
}

#endif
