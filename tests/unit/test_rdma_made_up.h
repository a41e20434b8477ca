/* SPDX-License-Identifier: BSD-3-Clause */
/* What claims about registrations need: a device that a test makes up, threads of which there are so many to be
 * had, and memory. */
#ifndef TEST_RDMA_MADE_UP_H
#define TEST_RDMA_MADE_UP_H

#include <stddef.h>
#include <stdint.h>

#include "tutti_asserts.h"
#include "registration.h"

#define PAGE	4096u
#define BYTES	(16 * PAGE)
#define LIMIT_S 60 /* for what comes at once, on a machine that is busy */

extern struct rdma_adapter adapter;
extern size_t lockable, longest; /* bytes: there may be, and at once */
extern int regions_wanted, threads_left, threads_wanted;

/* Of claims: with the device, which has nothing left in the end. */
int begin(void **state);
int end(void **state);

void *map(void *at, size_t bytes, int flags);
/* Word of a change may be on its way for a while: there is none then, which is no error. */
struct rdma_registration *get(const void *pointer, size_t bytes);
void get_and_put(const void *pointer, size_t bytes);
/* Registered with the device, in use or not. */
int regions(void);
/* So many are there. Those that the kernel told of are buried by a thread. */
void expect(int count);

#endif
