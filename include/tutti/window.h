/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file window.h
 * One-sided calls: a rank writes into another's memory, reads it, and adds to a word of it, while
 * that one computes.
 *
 * - A *window* is memory of each rank that the other ranks of a communicator may access, with a
 *   row of *signals*: counters of 64 bits beside it, which begin at 0 and only grow.
 * - What a rank puts into another's part of a window, and the signals that it sends there, arrive
 *   in the order of its calls. So who has seen a signal (tutti_wait_signal()) sees all that its
 *   sender put there before. Calls of several ranks have no order, nor have those on several
 *   windows: tutti_flush() is between them. A get or fetch_add finds what the same rank put before;
 *   one that has not ended may also find what it puts after.
 * - A put without a signal may travel with a later one: with the next signal, flush, get or
 *   fetch_add to that rank, or when the rank next waits in a call on the communicator.
 *   tutti_flush() says that it has arrived.
 * - Between ranks of one host that share memory calls are loads and stores, where the window's
 *   memory is of tutti_mem_alloc() and no two ranks are threads of one process. They take no part
 *   of the target's time. Otherwise they are messages that the target's waits serve, or, while it
 *   is in none, a thread of the library. All pairs of ranks that need messages are connected when
 *   the window is made.
 * - fetch_add is atomic with regard to fetch_add of all ranks, and to the target's own atomic
 *   instructions. Puts and gets are not atomic.
 * - Offsets, and `bytes`, are bytes. Memory of windows is the host's. What is put, and where a get
 *   writes, may be on a GPU (tutti/tutti.h says how).
 * - `request` NULL makes a call blocking. Otherwise it gives a request, or NULL where the call has
 *   ended at once; tutti_test() and tutti_wait() take both. `tutti_put` has ended when its buffer
 *   may be used again.
 * - Calls inside a group of tutti_group_begin() are refused.
 * - Failures are those of all calls (tutti/tutti.h): deadlines, lost ranks, and
 *   tutti_comm_abort() end them with an error message on every rank. A rank that has not yet
 *   learned of a failure may go on writing into a window until its owner destroys that.
 */
#ifndef TUTTI_WINDOW_H
#define TUTTI_WINDOW_H

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_window *tutti_window_t; /**< memory of each rank that the others access */

/**
 * Let the other ranks access `bytes` at `memory` of this rank, and make `signals` counters beside
 * it (65536 at most). Each rank may give another number of either, 0 included; `memory` may be
 * NULL where `bytes` is 0. The memory stays the caller's: it must be there until
 * tutti_window_destroy() has returned. Collective, and blocking.
 */
TUTTI_API tutti_result_t tutti_window_create(tutti_comm_t comm, void *memory, size_t bytes,
					     uint32_t signals, tutti_window_t *window);

/**
 * End a window: returns when all ranks have called it, and all that they put has arrived.
 * #TUTTI_ERR_INVALID: a request of this rank on the window has not ended, a group is open, or this
 * is a child of fork(); the window is as before. After any other result it is gone. NULL is fine.
 * Collective, and blocking.
 *
 * tutti_comm_destroy() ends windows that are left, without waiting for anybody: puts and signals
 * that have not been flushed may be lost, and their handles are void then. That, and an end
 * after a failure, moves memory that peers may still write to: it keeps its addresses and
 * contents, needs as much memory again meanwhile, and other threads must not write to it.
 */
TUTTI_API tutti_result_t tutti_window_destroy(tutti_window_t window);

/** Bytes of rank `rank` in the window; 0 if there is no such rank or window. */
TUTTI_API size_t tutti_window_bytes(tutti_window_t window, int rank);

/** Is the window of `rank` accessed by loads and stores, without messages: 1, or 0? */
TUTTI_API int tutti_window_direct(tutti_window_t window, int rank);

/** Write `bytes` of `from` to `offset` of the window of `rank`. */
TUTTI_API tutti_result_t tutti_put(tutti_window_t window, const void *from, size_t bytes, int rank,
				   size_t offset, tutti_request_t *request);

/** tutti_put(), and then tutti_signal(). Does not wait for the put to arrive. */
TUTTI_API tutti_result_t tutti_put_signal(tutti_window_t window, const void *from, size_t bytes,
					  int rank, size_t offset, uint32_t signal, uint64_t add,
					  tutti_request_t *request);

/** Add `add` to signal number `signal` of `rank`, behind all that this rank has put there. */
TUTTI_API tutti_result_t tutti_signal(tutti_window_t window, int rank, uint32_t signal,
				      uint64_t add);

/**
 * Wait until this rank's signal number `signal` is `least` or more; 0 waits for nothing. `value`
 * (may be NULL) becomes what it is then. #TUTTI_ERR_PEER_LOST: all other ranks have left, even if
 * another thread of this one could still send the signal.
 */
TUTTI_API tutti_result_t tutti_wait_signal(tutti_window_t window, uint32_t signal, uint64_t least,
					   uint64_t *value, tutti_request_t *request);

/** Read `bytes` from `offset` of the window of `rank` into `to`. */
TUTTI_API tutti_result_t tutti_get(tutti_window_t window, void *to, size_t bytes, int rank,
				   size_t offset, tutti_request_t *request);

/**
 * Add `add` to the 64-bit word at `offset` of the window of `rank`, whose address there is a
 * multiple of 8. `before` (may be NULL) becomes what it was.
 */
TUTTI_API tutti_result_t tutti_fetch_add(tutti_window_t window, int rank, size_t offset,
					 uint64_t add, uint64_t *before, tutti_request_t *request);

/**
 * Wait until all that this rank has put into the window of `rank`, and into other windows of it,
 * has arrived, and its signals; #TUTTI_ANY_PEER: of every rank. #TUTTI_ERR_PEER_LOST: the rank has
 * left, whether or not all had arrived before.
 */
TUTTI_API tutti_result_t tutti_flush(tutti_window_t window, int rank, tutti_request_t *request);

#ifdef __cplusplus
}
#endif

#endif
