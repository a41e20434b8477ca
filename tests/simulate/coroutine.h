/* SPDX-License-Identifier: BSD-3-Clause */
/* Coroutines of one thread, each with a stack and, as threads have, errno and thread-local
 * memory of its own. One runs at a time, until it goes on with another; none does where the
 * thread is at home. */
#ifndef TT_SIMULATE_COROUTINE_H
#define TT_SIMULATE_COROUTINE_H

#include <stdbool.h>

struct coroutine {
	void (*main)(void); /* does not return */
	bool begun;
	void *place[5]; /* where it goes on, for __builtin_longjmp() */
	char *stack;	/* kept for the next one in this place; behind it `locals` */
	char *locals;
	void *fake_stack; /* the sanitizer's */
	int error;
};

/* Anew; zeros, or what was one before. */
void coroutine_make(struct coroutine *coroutine, void (*main)(void));
/* From home, until one goes there. */
void coroutine_run(struct coroutine *first);
/* `self`, which runs, stops here until another goes on with it, or for good if it has ended;
 * `next` NULL is home. */
void coroutine_go_on(struct coroutine *self, bool ended, struct coroutine *next);

#endif
