/* SPDX-License-Identifier: BSD-3-Clause */
/* The seam between devices with memory of their own, such as GPUs, and the runtime. */
#ifndef TT_SPI_DEVICE_H
#define TT_SPI_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

struct tutti_comm;
struct tt_call;
struct tt_staged; /* what stands for a call's buffers on GPUs, or for those of the calls of a group */

struct tt_device {
	/* Take notice of a driver that the program has loaded; says nothing if there is none.
	 * Does not start it. */
	void (*probe)(void);
	/* Learn of faults that the kernels of a bound communicator have found. Cheap, asks
	 * nothing of the driver. Lock held. */
	void (*learn)(struct tutti_comm *comm);
	/* Put the calls of a group, or one, on their streams. Lock held, but not all the time. */
	tutti_result_t (*start)(struct tutti_comm *comm, const struct tt_call *const *calls,
				size_t n);
	/* If a buffer of `call` is on a device, let it take host memory with the same input, and
	 * add what is to be done later to the list at `staged`; else leave both as they are, and
	 * so where an argument is wrong, which is for those to say who check all calls. The lock
	 * of `comm` is not held. On error nothing was added. */
	tutti_result_t (*stage)(struct tutti_comm *comm, struct tt_call *call,
				struct tt_staged **staged);
	/* All operations of the calls have ended with `result`: copy what they received to the
	 * device, if it is good, and give back their memory. Gives `result`, or why that failed,
	 * for which `comm` is revoked. Lock likewise. NULL is fine. */
	tutti_result_t (*stage_end)(struct tutti_comm *comm, struct tt_staged *staged,
				    tutti_result_t result);
	/* What is left of calls that a parent of fork() made, or whose communicator goes:
	 * touches neither it nor the device. NULL is fine. */
	void (*stage_forget)(struct tt_staged *staged);
	/* Is this memory of a device, or managed? False where that cannot be asked. */
	bool (*holds)(const void *pointer);
	/* The communicator is about to go; it was not bound is fine. Lock not held. */
	void (*unbind)(struct tutti_comm *comm);
	/* It is gone but for its memory: free what is left, in a child of fork(), too. No
	 * operation of it is in flight. */
	void (*free)(struct tutti_comm *comm);
};

/* registry.c's choice. */
extern const struct tt_device *const tt_device;

/* A driver's library is open: buffers may be on devices. All that this costs programs without
 * one is a relaxed load. */
extern _Atomic bool tt_device_is_there;
static inline bool tt_device_may_have_buffers(void)
{
	return __builtin_expect(atomic_load_explicit(&tt_device_is_there, memory_order_relaxed), 0);
}

#endif
