/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file tutti.h
 * tutti: collective communication between the ranks of a job.
 *
 * Conventions that hold for every function below, unless it says otherwise:
 *
 * - A *rank* is one participant, numbered 0 … size-1 in a *communicator*. A rank is a process,
 *   or a thread of one: several ranks may live in one process, each with its own `tutti_comm_t`.
 * - Counts are in elements of `dtype`, never bytes. A count of 0 is legal; buffers may then be
 *   NULL.
 * - All ranks of a communicator call the same collectives in the same order with matching
 *   arguments. Where they do not, every rank gets #TUTTI_ERR_MISMATCH, of that call or of its next
 *   one, and tutti_last_error() names the ranks and both calls. (Whoever waits for nobody, as the
 *   root of a broadcast, and calls nothing more, is not told.)
 * - Any thread may call; operations on one communicator happen in the order of the calls.
 * - `request` NULL makes a call blocking. Otherwise it returns at once with a request that
 *   tutti_test() or tutti_wait() finishes; until then the buffers belong to tutti: the input
 *   must not be changed, the output not be read. Count and displacement arrays are copied by the
 *   call.
 * - Buffers of collectives, sends and receives lie in memory of the host, or of GPUs, or in
 *   managed memory of CUDA, each as it comes: `send` of a rank may be on a GPU and `recv` on the
 *   host, and other ranks' elsewhere. What is on a GPU, or managed, is copied through memory of
 *   the host: the input before the call returns, the output before the call returns or its
 *   request is finished. No stream is waited for, so what writes the input, or uses the output,
 *   must have ended before the call (cudaStreamSynchronize()). A program that first loads CUDA
 *   when it has made its communicators calls tutti_cuda_devices() (tutti/cuda.h) then; where
 *   CUDA comes first, nothing need be done. Tables, scalars and buffers of stores are the
 *   host's.
 * - Input and output may be the same memory only in the way each function names "in place";
 *   any other overlap is undefined.
 * - Results: 0 is success, positive is in progress, negative is an error. After
 *   #TUTTI_ERR_INVALID nothing was sent and the communicator is as before. After any other error
 *   the communicator is revoked: all pending and later operations on it return the same error,
 *   on every rank, and it is only good for tutti_last_error(), tutti_comm_abort(),
 *   tutti_comm_shrink() and tutti_comm_destroy(). The operation itself may have succeeded on
 *   other ranks, whose result is right: they are told by their next one.
 * - A child of fork() cannot use the communicators, stores and requests of its parent: every
 *   call on them returns #TUTTI_ERR_INVALID there, and disturbs nobody; tutti_comm_destroy() and
 *   tutti_store_close() free its copies. It may make its own. Memory of tutti_mem_alloc() is
 *   there to be read, not to be written, and shows what the parent goes on writing. Programs
 *   that exec() starts inherit nothing.
 * - No function waits for ever, or raises a signal; none ends the process but for what follows.
 * - A function that the program hands over (an operation, a notice, a sink of the log, a store, …)
 *   must return. If it throws an exception (C++), or if its thread ends in it (pthread_exit(),
 *   pthread_cancel()), the process ends with a message on standard error: catch in it what it may
 *   throw. It must not be left by longjmp(): operations stay unfinished. Where it must not call
 *   tutti, later calls of its thread then return #TUTTI_ERR_INVALID, and tutti_comm_destroy() frees
 *   nothing. If an operation is left so, or does not return, and another thread has waited for it
 *   as long as the communicator's deadline, the process ends with a message. Calls that wait for a
 *   function of a store return #TUTTI_ERR_TIMEOUT at their own. Nor must a thread be cancelled in
 *   a call.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0 /**< of this header: the ABI */
#define TUTTI_VERSION_MINOR 2 /**< of this header: additions */
#define TUTTI_VERSION_PATCH 0 /**< of this header: corrections */

/** What every fallible function returns. */
typedef enum tutti_result {
	TUTTI_OK = 0,		   /**< done */
	TUTTI_IN_PROGRESS = 1,	   /**< not finished yet; only from tutti_test() and
				    *   tutti_wait_any_for() */
	TUTTI_ERR_INVALID = -1,	   /**< an argument is wrong; nothing was sent */
	TUTTI_ERR_MISMATCH = -2,   /**< ranks called different operations */
	TUTTI_ERR_TIMEOUT = -3,	   /**< the operation's deadline passed */
	TUTTI_ERR_PEER_LOST = -4,  /**< a rank died or closed its connection */
	TUTTI_ERR_ABORTED = -5,	   /**< a rank called tutti_comm_abort() */
	TUTTI_ERR_SYSTEM = -6,	   /**< the operating system refused something */
	TUTTI_ERR_NO_MEMORY = -7,  /**< memory could not be had */
	TUTTI_ERR_UNSUPPORTED = -8 /**< this build or machine cannot do it */
} tutti_result_t;

/**
 * Element types. A step of a reduction computes float64 in float64 and all other floats in
 * float32; it rounds 16- and 8-bit floats to nearest, ties to even, when it stores its result.
 * An algorithm of one step therefore rounds them once. An algorithm of several steps rounds them
 * in each: docs/algorithms.md bounds the error of each algorithm, tutti_config_t::reproducible
 * excludes the latter. Partial results of such algorithms have the element type and may overflow
 * where the result of a sum or a product does not; those of #TUTTI_AVG are averages and do not.
 */
typedef enum tutti_dtype {
	TUTTI_INT8 = 0,
	TUTTI_UINT8 = 1,
	TUTTI_INT16 = 2,
	TUTTI_UINT16 = 3,
	TUTTI_INT32 = 4,
	TUTTI_UINT32 = 5,
	TUTTI_INT64 = 6,
	TUTTI_UINT64 = 7,
	TUTTI_FLOAT16 = 8,  /**< IEEE 754 binary16 */
	TUTTI_BFLOAT16 = 9, /**< upper half of a float32 */
	TUTTI_FLOAT32 = 10,
	TUTTI_FLOAT64 = 11,
	TUTTI_FLOAT8_E4M3 = 12, /**< OCP OFP8 E4M3: no infinities, saturates to 448 */
	TUTTI_FLOAT8_E5M2 = 13, /**< OCP OFP8 E5M2 */
	TUTTI_DTYPE_COUNT = 14
} tutti_dtype_t;

/**
 * Reduction operations: one of the values below, or one made by tutti_op_create() or
 * tutti_op_create_premul_sum(). Integer sums and products wrap. The bitwise operations take
 * integer types only.
 *
 * #TUTTI_AVG divides the sum by the number of ranks before it rounds to the element type.
 * Integers are truncated towards zero.
 * - Integers of 8 to 32 bits are added in a type that holds every sum: the average is exact.
 * - 16- and 8-bit floats are added and divided in float32. The average of numbers up to the
 *   largest of float16 and of the 8-bit types does not overflow.
 * - Sums of int64, uint64, float32 and float64 have the element type, those of bfloat16 the
 *   range of float32. Where the sum overflows, integers wrap and floats may become infinite.
 */
typedef int32_t tutti_op_t;
/** The built-in operations. */
enum {
	TUTTI_SUM = 0,	   /**< sum */
	TUTTI_PROD = 1,	   /**< product */
	TUTTI_MIN = 2,	   /**< a NaN on any rank gives a NaN */
	TUTTI_MAX = 3,	   /**< a NaN on any rank gives a NaN */
	TUTTI_AVG = 4,	   /**< sum, divided by the number of ranks */
	TUTTI_BAND = 5,	   /**< bitwise and */
	TUTTI_BOR = 6,	   /**< bitwise or */
	TUTTI_BXOR = 7,	   /**< bitwise exclusive or */
	TUTTI_OP_COUNT = 8 /**< operations made by the user follow */
};

/**
 * What elements of an all-reduce travel as: fewer bytes than they have in memory, where the network
 * is what it waits for. It counts for tutti_all_reduce() of float32 by #TUTTI_SUM and #TUTTI_AVG
 * between two ranks or more, and for no other call; nor for short ones of a group that travel
 * together. All ranks give the same.
 *
 * Each rank rounds its input to this format. The rounded inputs are added in float32, and the
 * result is rounded once more, whatever the number of ranks; between hosts of equally many ranks
 * the sum of each host may be rounded, too. Every rank gets the same bits. docs/algorithms.md
 * bounds the error ("Narrow elements").
 *
 * float8 and int8 are codes of a byte. Each block of 128 elements of the vector has a scale, by
 * which its largest magnitude has the largest code; so small numbers beside large ones lose their
 * digits. A block with a NaN or an infinity becomes NaNs.
 *
 * Or-ed with #TUTTI_WIRE_IF_FASTER: only where the cost model expects it to be faster than
 * elements as they are; tutti_comm_last_plan() tells. In the reproducible mode never.
 */
typedef int32_t tutti_wire_t;
/** The formats. */
enum {
	TUTTI_WIRE_DEFAULT = 0,	   /**< of a call: its communicator's; of a config: TUTTI_WIRE */
	TUTTI_WIRE_FLOAT32 = 1,	   /**< as in memory */
	TUTTI_WIRE_BFLOAT16 = 2,   /**< half the bytes; about the range of float32 */
	TUTTI_WIRE_FLOAT16 = 3,	   /**< half the bytes; from 65520 on it overflows */
	TUTTI_WIRE_FLOAT8 = 4,	   /**< E4M3 with scales: 132 bytes of 128 elements */
	TUTTI_WIRE_INT8 = 5,	   /**< integers with scales: 132 bytes of 128 elements */
	TUTTI_WIRE_COUNT = 6,	   /**< no format */
	TUTTI_WIRE_IF_FASTER = 256 /**< with one of the narrow formats */
};

typedef struct tutti_comm *tutti_comm_t;       /**< a communicator */
typedef struct tutti_request *tutti_request_t; /**< an operation in flight */
typedef struct tutti_store *tutti_store_t;     /**< where ranks meet */

/* ---------------------------------------------------------------- life */

/**
 * How to make a communicator. Zero every member you do not set: 0 or NULL is the default, and the
 * environment (docs/reference/environment.md) is read where a default is taken.
 */
typedef struct tutti_config {
	size_t size;	  /**< sizeof(tutti_config_t), so that the struct can grow */
	double timeout_s; /**< deadline of every operation, seconds, at most 1e9; 0: TUTTI_TIMEOUT
			   *   or 300 */
	const char
		*transports; /**< those allowed, such as "shm,tcp"; NULL: TUTTI_TRANSPORT or all */
	const char *algorithm; /**< force one by name; NULL: TUTTI_ALGORITHM or chosen by cost */
	const char *host_id;   /**< ranks share memory only with equal ids; NULL: TUTTI_HOST_ID or
				*   found from the kernel */
	int reproducible;      /**< 1: reductions give the same bits for any algorithm, transport,
				*   message and segment size: those of a left fold in rank order,
				*   ((x0 op x1) op x2) …, in float64 for float64, in float32 for
				*   other floats, rounded once to the element type; #TUTTI_AVG
				*   divides before that. NaNs are equal but for their payload.
				*   -1: not even if TUTTI_REPRODUCIBLE says so; 0: as it says */
	const char *key; /**< the job's key, 64 hexadecimal digits; NULL: TUTTI_KEY, else the file
			  *   TUTTI_KEY_FILE, else none (docs/reference/security.md); copied */
	int encrypt; /**< 1: TLS on all TCP connections, needs a key; -1: not even if TUTTI_ENCRYPT
		      *   says so; 0: as it says */
	tutti_wire_t wire; /**< what float32 travels as in all-reduces; 0: as TUTTI_WIRE says */
} tutti_config_t;

/** The usual start of a config: `tutti_config_t config = TUTTI_CONFIG_INIT;` */
#define TUTTI_CONFIG_INIT                                                                          \
	{                                                                                          \
		sizeof(tutti_config_t), 0.0, NULL, NULL, NULL, 0, NULL, 0, TUTTI_WIRE_DEFAULT      \
	}

/**
 * Check `config` (may be NULL), and the environment where it takes a default, without making
 * anything. For programs that start ranks: each rank would otherwise report the same error. That
 * encryption has a key is for the ranks to find out, as a launcher may bring it.
 * TUTTI_ERR_INVALID: a value is wrong; tutti_last_error(NULL) names it. TUTTI_ERR_SYSTEM: the file
 * of the key cannot be read.
 */
TUTTI_API tutti_result_t tutti_config_check(const tutti_config_t *config);

/** Characters of a job's key. */
#define TUTTI_KEY_LENGTH 64

/**
 * Make a key for a job, of random bits, as text with its end: for a program whose ranks know each
 * other by means of their own. One rank makes the key and hands it to the others, which all put it
 * into tutti_config_t::key; who can read it on that way belongs to the job
 * (docs/reference/security.md). TUTTI_ERR_SYSTEM: the system gives no random bits; `key` is "".
 */
TUTTI_API tutti_result_t tutti_key_make(char key[TUTTI_KEY_LENGTH + 1]);

/**
 * Make the communicator of all ranks that one launcher started, from the environment it gave:
 * tutti-run, torchrun, Open MPI, MPICH (Hydra), Slurm, or another one that speaks PMI. A process
 * started by none of them becomes the only rank. `config` may be NULL. Returns when all ranks
 * have joined.
 *
 * TUTTI_ERR_INVALID: the environment or `config` makes no sense; tutti_last_error(NULL) says
 * what was found. TUTTI_ERR_TIMEOUT: not all ranks came. TUTTI_ERR_PEER_LOST: one came and could
 * not join, or died meanwhile, or the host of the store did: all are told at once where ranks
 * meet at tcp:// or unix: (where the store has served earlier starts, once rank 0 has come), and
 * at their deadline in other stores. Ranks that do not fit together
 * get TUTTI_ERR_INVALID (two sizes, a rank number that two processes have, different keys) or
 * TUTTI_ERR_UNSUPPORTED (no transport joins two of them), all of them at once. On error `*comm`
 * is NULL, and rank 0, where it hosts the store, returns up to a second later than the others,
 * so that those who come late are told as well.
 */
TUTTI_API tutti_result_t tutti_init(const tutti_config_t *config, tutti_comm_t *comm);

/**
 * Make a communicator of `size` ranks that meet in `store`, of which the caller is `rank`.
 * The store is only used during the call and stays the caller's. Several communicators may be made
 * through one store, one after another, also by other processes, and after some that died. A rank
 * that dies before rank 0 calls is missed at the deadline.
 */
TUTTI_API tutti_result_t tutti_comm_create(tutti_store_t store, int rank, int size,
					   const tutti_config_t *config, tutti_comm_t *comm);

/**
 * Make communicators of the ranks that passed the same `color`, ordered by `key`, then by rank.
 * Collective over `comm`, several operations long: no other thread calls on `comm` meanwhile. A
 * negative `color` takes part but gets `*out` NULL. `comm` stays usable, also if a rank could
 * not make its part, for want of descriptors or memory: all ranks then return its error. (Unless
 * the fault is one of `comm`: see tutti_comm_error().) The new communicator has the
 * configuration of `comm`.
 */
TUTTI_API tutti_result_t tutti_comm_split(tutti_comm_t comm, int color, int key, tutti_comm_t *out);

/**
 * Make a communicator of the same ranks in the same order, whose operations are independent of
 * those of `comm`: for a library that is given a communicator, or for threads that each need an
 * order of calls of their own. Otherwise as tutti_comm_split().
 */
TUTTI_API tutti_result_t tutti_comm_dup(tutti_comm_t comm, tutti_comm_t *out);

/**
 * Go on without those who are gone: make a communicator of the ranks of `comm` that are left, in
 * their old order. Collective over the survivors; `comm` may be revoked, as it is after a rank
 * died, or healthy. Each survivor calls it once it has the error; no other thread calls on
 * `comm` meanwhile, but for tutti_comm_abort(), which ends the wait.
 *
 * All survivors agree on the same members and return the same result, also when others die
 * meanwhile. A rank that is alive but does not come within the deadline of `comm`, counted from
 * each one's call, is left out as if dead: `comm` is then revoked, and its own call, if it comes
 * later, returns TUTTI_ERR_TIMEOUT. Unresponsive ranks, which live and fall silent in the middle,
 * delay the call by at most 3.75 such deadlines plus 3 s after the last of them fell silent. One
 * that does so at the end may be a member of the new communicator. The call waits for no rank
 * that has destroyed `comm`. Ranks that hear nothing of each other for that long, though all live
 * (a network in two halves), go on apart.
 *
 * `*out` has the settings of `comm`, the size and ranks of what is left, and nothing else:
 * operations of tutti_op_create() are to be made anew, sends and receives begin anew, memory of
 * tutti_mem_alloc() and the buffers of operations that failed are as the failure left them.
 * `comm` is still to be destroyed, in case of an error, too. Needs no store.
 *
 * TUTTI_ERR_TIMEOUT and TUTTI_ERR_ABORTED: the others have gone on without this rank.
 * TUTTI_ERR_NO_MEMORY and TUTTI_ERR_SYSTEM may be this rank's alone, where it lacked what agreeing
 * with the others takes: the others then wait for its next call, by their deadlines, or have gone
 * on without it, which that call says at once. Any other error, and these where another rank is
 * named, is the same on all survivors: one of them could not make the new communicator,
 * tutti_last_error(NULL) says which and why; they may try again. So after any error but the first
 * two, calling again is right.
 */
TUTTI_API tutti_result_t tutti_comm_shrink(tutti_comm_t comm, tutti_comm_t *out);

/**
 * Take newcomers in: make a communicator of the ranks of `comm`, which keep their ranks, and of
 * `newcomers` processes (or threads) that call tutti_comm_join(), whose ranks follow. Collective
 * over the healthy `comm`, several operations long: no other thread calls on `comm` meanwhile.
 * All give the same `newcomers`. They meet in `store`, which matters on rank 0 only and stays
 * the caller's; NULL: the one of TUTTI_STORE, which somebody else must serve, as tutti-run does.
 * Newcomers may come before or after this call. One communicator at a time may grow through a
 * store, any number one after another.
 *
 * `*out` has the settings of `comm`, like that of tutti_comm_shrink(); `comm` stays usable, and
 * is still to be destroyed. If not all newcomers come by the deadline of `comm`, or that which
 * tutti_next_call() gives rank 0, every member gets TUTTI_ERR_TIMEOUT; if one fails or dies
 * while it joins, its error or TUTTI_ERR_PEER_LOST. After these, and after errors of the store,
 * `comm` is as before, and growing may be tried again. If a member is lost, `comm` has failed, and
 * tutti_comm_shrink() goes on from it. All ranks have the larger communicator, or none has.
 */
TUTTI_API tutti_result_t tutti_comm_grow(tutti_comm_t comm, tutti_store_t store, int newcomers,
					 tutti_comm_t *out);

/**
 * Become a rank of a communicator that grows (tutti_comm_grow()) through `store`; NULL: the one
 * of TUTTI_STORE. `config` may be NULL. Its rank and size tutti_comm_rank() and
 * tutti_comm_size() tell. Where growing fails for another's sake, or another was invited in its
 * place as it did not answer within 3 s, it waits for the next. tutti_init() does this by itself
 * where TUTTI_JOIN is 1. TUTTI_ERR_TIMEOUT: not taken in by the deadline.
 */
TUTTI_API tutti_result_t tutti_comm_join(tutti_store_t store, const tutti_config_t *config,
					 tutti_comm_t *comm);

/**
 * Free `comm`; NULL is allowed. Waits for no other rank: finish your requests first, or they end
 * with an error on the other ranks, and are freed here: they must not be used after, and results
 * that have come are not handed out. No other thread may be using `comm`. Functions of
 * tutti_notify() are called first. In a child of fork() it frees the child's copy, if no thread of
 * the parent was inside a call on `comm` then, and tells nobody.
 */
TUTTI_API void tutti_comm_destroy(tutti_comm_t comm);

/**
 * Revoke `comm` on every rank: pending and later operations return TUTTI_ERR_ABORTED with
 * `reason` (may be NULL) in tutti_last_error(). Returns at once. `comm` is still to be destroyed.
 * A tutti_comm_shrink() of `comm` that another thread of this rank is in ends, too, with
 * TUTTI_ERR_ABORTED here: the other ranks go on without this one.
 */
TUTTI_API tutti_result_t tutti_comm_abort(tutti_comm_t comm, const char *reason);

/**
 * Is `comm` revoked? TUTTI_OK while it is healthy, otherwise what every operation on it returns;
 * tutti_last_error(comm) then says why. `*rank` (may be NULL) is the rank that the fault is about,
 * -1 for none. Looks at what has become known without a call, too, and does not wait.
 * Where ranks are reached by a network, a fault counts 0.2 s after it was found, when all ranks
 * have settled on the same; operations return it then, too. Of ranks that wait in a chain, each for
 * the next, a missed deadline is about the last; each of them takes up to 0.2 s more. The loss of a
 * process of this host counts when its parent can know of it, at most 1 s later.
 */
TUTTI_API tutti_result_t tutti_comm_error(tutti_comm_t comm, int *rank);

/** The caller's rank in `comm`, 0 … size-1; -1 for NULL. */
TUTTI_API int tutti_comm_rank(tutti_comm_t comm);

/** The number of ranks of `comm`; -1 for NULL. */
TUTTI_API int tutti_comm_size(tutti_comm_t comm);

/** The deadline of operations that have none of their own, seconds; -1 for NULL. */
TUTTI_API double tutti_comm_timeout(tutti_comm_t comm);

/** The rank within this host, 0 … (ranks on the host)-1, and how many there are; -1 for NULL. */
TUTTI_API int tutti_comm_local_rank(tutti_comm_t comm);
/** The number of ranks on this host; -1 for NULL. */
TUTTI_API int tutti_comm_local_size(tutti_comm_t comm);

/**
 * The transport that carries messages between the caller and rank `peer` in memory of the host:
 * "shm", "rdma" or "tcp"; "none" for the caller's own rank. NULL if `comm` is NULL or has no
 * such rank. The text is static.
 */
TUTTI_API const char *tutti_comm_transport(tutti_comm_t comm, int peer);

/* ---------------------------------------------------------------- stores */

/**
 * Open a store by address:
 * - `tcp://HOST:PORT` a TCP store at that address,
 * - `unix:NAME` the same protocol on a unix socket in the abstract namespace,
 * - `file:DIRECTORY` a directory that all ranks see. With `serve` non-zero the caller also hosts
 * the store (one rank does; port 0 picks a free port, see tutti_store_address()). Others retry
 * until the host is there, `timeout_s` seconds at most (at most 1e9; 0: 300). No meaning of
 * `serve` for a directory.
 *
 * A job with a key (TUTTI_KEY or TUTTI_KEY_FILE, or tutti_store_open_with()) lets only those use
 * its TCP or unix store that have the same. Without a key an address of TCP must be one of the
 * loopback interface. TUTTI_ERR_INVALID: it is not; or the keys differ.
 */
TUTTI_API tutti_result_t tutti_store_open(const char *address, int serve, double timeout_s,
					  tutti_store_t *store);

/** How to open a store where tutti_store_open() does not suffice. Zero every member you do not
 * set. */
typedef struct tutti_store_config {
	size_t size;	  /**< sizeof(tutti_store_config_t), so that the struct can grow */
	int serve;	  /**< as in tutti_store_open() */
	double timeout_s; /**< as in tutti_store_open() */
	const char *key;  /**< as in tutti_config_t */
	int encrypt;	  /**< as in tutti_config_t */
} tutti_store_config_t;

/** The usual start of a config: `tutti_store_config_t config = TUTTI_STORE_CONFIG_INIT;` */
#define TUTTI_STORE_CONFIG_INIT                                                                    \
	{                                                                                          \
		sizeof(tutti_store_config_t), 0, 0.0, NULL, 0                                      \
	}

/** tutti_store_open() with all that can be said. */
TUTTI_API tutti_result_t tutti_store_open_with(const char *address,
					       const tutti_store_config_t *config,
					       tutti_store_t *store);

/** What the user of tutti_store_create() supplies; all three are called by one thread at a time.
 * They may use other stores; inside them this one returns #TUTTI_ERR_INVALID. */
typedef struct tutti_store_ops {
	size_t size; /**< sizeof(tutti_store_ops_t) */
	/** Keep `length` bytes under `key`; 0 or an errno value. `value` is never NULL, also for
	 * 0 bytes. */
	int (*set)(void *context, const char *key, const void *value, size_t length);
	/** Wait up to `timeout_s` for `key`; copy at most `*length` bytes, give the true length
	 *  back in `*length`; 0, ETIMEDOUT, EMSGSIZE or another errno value. `value` is never
	 *  NULL, also for 0 bytes. */
	int (*get)(void *context, const char *key, void *value, size_t *length, double timeout_s);
	/** Free `context`; may be NULL. */
	void (*destroy)(void *context);
} tutti_store_ops_t;

/** A store of the user's own (an embedding program's key-value store). `ops` is copied. */
TUTTI_API tutti_result_t tutti_store_create(const tutti_store_ops_t *ops, void *context,
					    tutti_store_t *store);

/** The address under which others open the store, with the port filled in. Valid until closed. */
TUTTI_API const char *tutti_store_address(tutti_store_t store);

/** Keep `length` bytes (at most 1 MiB) under `key` (at most 255 bytes). */
TUTTI_API tutti_result_t tutti_store_set(tutti_store_t store, const char *key, const void *value,
					 size_t length);

/**
 * Wait up to `timeout_s` seconds, 0 to 1e9, for `key`. `*length`: bytes of room on entry, bytes of
 * the value on return; TUTTI_ERR_INVALID if it does not fit, TUTTI_ERR_TIMEOUT if it does not come.
 */
TUTTI_API tutti_result_t tutti_store_get(tutti_store_t store, const char *key, void *value,
					 size_t *length, double timeout_s);

/**
 * Close; NULL is allowed. The host of a store first waits until the others have closed theirs
 * (at most 10 s), so that nobody's answer is cut off. In a child of fork() it frees the child's
 * copy only; `destroy` of a user's store is not called.
 */
TUTTI_API void tutti_store_close(tutti_store_t store);

/* ---------------------------------------------------------------- reduction operations */

/**
 * A user's reduction: `inout[i] = inout[i] op in[i]` for `count` elements of `dtype`. Must be
 * associative; may be called from any thread of tutti. It must not call tutti: functions that
 * take a communicator, a request or a window return #TUTTI_ERR_INVALID inside it.
 */
typedef void (*tutti_reduce_fn_t)(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
				  void *context);

/**
 * Make an operation out of `function`. All ranks make the same operations of `comm` in the same
 * order. With `commutative` 0 contributions are combined in rank order, 0 first; so they are in
 * the reproducible mode, each step of which then stores elements of the type. `context` is
 * passed to every call. A communicator has 256 operations at most: TUTTI_ERR_NO_MEMORY beyond,
 * after which it is as before.
 */
TUTTI_API tutti_result_t tutti_op_create(tutti_comm_t comm, tutti_reduce_fn_t function,
					 int commutative, void *context, tutti_op_t *op);

/**
 * Make a sum in which this rank's input is first multiplied by `*scalar`, an element of `dtype`;
 * ranks may pass different scalars. The product is rounded to `dtype` (of integers it wraps),
 * and the sum is that of these products. The operation is good for that `dtype` only. The scalar
 * is copied. Of the 256 it is one, too.
 */
TUTTI_API tutti_result_t tutti_op_create_premul_sum(tutti_comm_t comm, const void *scalar,
						    tutti_dtype_t dtype, tutti_op_t *op);

/**
 * Free an operation. TUTTI_ERR_INVALID: it is none, or a pending request or a call in an open
 * group still uses it; it is then as before.
 */
TUTTI_API tutti_result_t tutti_op_destroy(tutti_comm_t comm, tutti_op_t op);

/* ---------------------------------------------------------------- collectives */

/**
 * Copy `count` elements of `root`'s `send` into every rank's `recv`. `send` matters at the root
 * only. In place: `send == recv` at the root.
 */
TUTTI_API tutti_result_t tutti_broadcast(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, int root,
					 tutti_request_t *request);

/**
 * Reduce `count` elements of every rank into `recv` at `root`; `recv` matters there only.
 * In place: `send == recv` at the root.
 */
TUTTI_API tutti_result_t tutti_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, tutti_op_t op, int root,
				      tutti_request_t *request);

/**
 * Reduce `count` elements of every rank into `recv` on every rank; the result has the same bits on
 * every rank. In place: `send == recv`.
 */
TUTTI_API tutti_result_t tutti_all_reduce(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype, tutti_op_t op,
					  tutti_request_t *request);

/**
 * Reduce `size × count` elements of every rank; rank r receives the r-th block of `count`.
 * In place: `recv == send + rank × count`.
 */
TUTTI_API tutti_result_t tutti_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
					      size_t count, tutti_dtype_t dtype, tutti_op_t op,
					      tutti_request_t *request);

/**
 * Collect `count` elements of every rank into the `size × count` elements of `recv`, by rank.
 * In place: `send == recv + rank × count`.
 */
TUTTI_API tutti_result_t tutti_all_gather(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype,
					  tutti_request_t *request);

/**
 * Collect `count` elements of every rank into the `size × count` elements of `recv` at `root`.
 * In place at the root: `send == recv + root × count`.
 */
TUTTI_API tutti_result_t tutti_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, int root, tutti_request_t *request);

/**
 * Hand the r-th block of `count` elements of `root`'s `send` to rank r.
 * In place at the root: `recv == send + root × count`.
 */
TUTTI_API tutti_result_t tutti_scatter(tutti_comm_t comm, const void *send, void *recv,
				       size_t count, tutti_dtype_t dtype, int root,
				       tutti_request_t *request);

/**
 * Hand the r-th block of `count` elements of `send` to rank r; block r of `recv` comes from rank r.
 * In place: `send == recv`.
 */
TUTTI_API tutti_result_t tutti_all_to_all(tutti_comm_t comm, const void *send, void *recv,
					  size_t count, tutti_dtype_t dtype,
					  tutti_request_t *request);

/**
 * tutti_reduce_scatter() with `counts[r]` elements for rank r; `counts` has `size` entries, the
 * same on every rank; `send` holds the blocks without gaps. In place: `recv` equals the start of
 * the caller's block in `send`.
 */
TUTTI_API tutti_result_t tutti_reduce_scatter_v(tutti_comm_t comm, const void *send, void *recv,
						const size_t *counts, tutti_dtype_t dtype,
						tutti_op_t op, tutti_request_t *request);

/**
 * tutti_all_gather() with `counts[r]` elements from rank r, put at `recv + displs[r]` elements;
 * `displs` NULL: without gaps. `counts` is the same on every rank, `displs` need not be.
 * In place: `send` equals the place of the caller's block in `recv`.
 */
TUTTI_API tutti_result_t tutti_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
					    const size_t *counts, const size_t *displs,
					    tutti_dtype_t dtype, tutti_request_t *request);

/**
 * tutti_gather() of `send_count` elements from the caller, `counts[r]` at the root from rank r,
 * put at `recv + displs[r]` elements (`displs` NULL: without gaps). `counts`, `displs` and
 * `recv` matter at the root only. In place at the root: `send` equals the place of its block in
 * `recv`.
 */
TUTTI_API tutti_result_t tutti_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
					void *recv, const size_t *counts, const size_t *displs,
					tutti_dtype_t dtype, int root, tutti_request_t *request);

/**
 * tutti_scatter() of `counts[r]` elements at `send + displs[r]` to rank r, which receives
 * `recv_count`. `send`, `counts` and `displs` matter at the root only (`displs` NULL: without
 * gaps). In place at the root: `recv` equals the place of its block in `send`.
 */
TUTTI_API tutti_result_t tutti_scatter_v(tutti_comm_t comm, const void *send, const size_t *counts,
					 const size_t *displs, void *recv, size_t recv_count,
					 tutti_dtype_t dtype, int root, tutti_request_t *request);

/**
 * tutti_all_to_all() with `send_counts[r]` elements at `send + send_displs[r]` for rank r and
 * `recv_counts[r]` elements from rank r put at `recv + recv_displs[r]`; displacements NULL: without
 * gaps. Never in place.
 */
TUTTI_API tutti_result_t tutti_all_to_all_v(tutti_comm_t comm, const void *send,
					    const size_t *send_counts, const size_t *send_displs,
					    void *recv, const size_t *recv_counts,
					    const size_t *recv_displs, tutti_dtype_t dtype,
					    tutti_request_t *request);

/** Inclusive prefix reduction: rank r receives the reduction of ranks 0 … r. In place: `send ==
 * recv`. */
TUTTI_API tutti_result_t tutti_scan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				    tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request);

/**
 * Exclusive prefix reduction: rank r > 0 receives the reduction of ranks 0 … r-1; `recv` of rank 0
 * is left as it was. #TUTTI_AVG is not defined for the prefix reductions. In place: `send == recv`.
 */
TUTTI_API tutti_result_t tutti_exscan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				      tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request);

/** No rank returns before every rank has called. */
TUTTI_API tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_request_t *request);

/**
 * Send to, or receive from, rank `peer` (not oneself outside a group). Sends and receives
 * between two ranks match in the order of the calls, independent of the collectives; count and
 * dtype must be equal on both sides. A blocking send may wait for the receive.
 */
TUTTI_API tutti_result_t tutti_send(tutti_comm_t comm, const void *send, size_t count,
				    tutti_dtype_t dtype, int peer, tutti_request_t *request);
/** The other end of tutti_send(). */
TUTTI_API tutti_result_t tutti_recv(tutti_comm_t comm, void *recv, size_t count,
				    tutti_dtype_t dtype, int peer, tutti_request_t *request);

/** In place of a peer: receive from whichever rank sends. */
#define TUTTI_ANY_PEER (-1)

/** What a receive took. */
typedef struct tutti_message {
	size_t size;  /**< sizeof(tutti_message_t), set by the caller */
	int peer;     /**< who sent it */
	size_t count; /**< its elements */
} tutti_message_t;

/**
 * tutti_send() with a tag, 0 or more. Messages between two ranks match in the order of the calls
 * with equal tags; tutti_send() and tutti_recv() have tag 0. A message that is in the way of one
 * that is waited for is put aside in memory of the receiver: TUTTI_ERR_NO_MEMORY there if it has
 * none.
 */
TUTTI_API tutti_result_t tutti_send_tagged(tutti_comm_t comm, const void *send, size_t count,
					   tutti_dtype_t dtype, int peer, int tag,
					   tutti_request_t *request);

/**
 * The other end of tutti_send_tagged(). With `message` NULL the message has `count` elements. Else
 * it has `count` at most; `*message`, which stays valid until the request is finished, then tells
 * who sent how many. What lies behind them in `recv` is as before.
 *
 * `peer` #TUTTI_ANY_PEER takes the next message with the tag of any other rank, unless a receive
 * from that rank waits for it. Such a receive looks at all ranks in turn, and costs nothing where
 * none is called.
 */
TUTTI_API tutti_result_t tutti_recv_tagged(tutti_comm_t comm, void *recv, size_t count,
					   tutti_dtype_t dtype, int peer, int tag,
					   tutti_message_t *message, tutti_request_t *request);

/**
 * Between tutti_group_begin() and tutti_group_end() the calling thread's operations on `comm`
 * are collected (each returns at once; its own `request` argument must be NULL) and started
 * together by tutti_group_end(): any mixture of collectives, sends and receives makes progress
 * together, and all-reduces of up to 4 KiB each with one dtype and operation travel together, in
 * messages of 256 KiB at most. Collectives of a group keep their order; sends and receives keep
 * theirs per peer. Within a group a rank may send to itself. With `request` NULL
 * tutti_group_end() blocks until all are done; otherwise it gives one request for the whole
 * group. If a collected call was invalid, tutti_group_end() starts nothing and returns that
 * error. Buffers of a collected call belong to tutti from that call on.
 *
 * Other calls that the thread makes on `comm` while the group is open:
 * - TUTTI_ERR_INVALID, and nothing is sent: tutti_comm_split(), tutti_comm_grow(),
 *   tutti_comm_shrink(), tutti_next_call(), tutti_group_begin(), tutti_cuda_bind(),
 *   tutti_cuda_register(), tutti_cuda_deregister(); tutti_op_destroy() of an operation that a
 *   collected call uses, by any thread.
 * - They act at once, as without a group: tutti_test(), tutti_wait() and the like on requests
 *   that were made before; tutti_op_create() and tutti_op_destroy() of other operations;
 *   tutti_comm_error() and all that asks. Memory of tutti_mem_alloc() may be had and freed, but
 *   for the buffers of collected calls.
 * - tutti_comm_abort() revokes `comm` at once; tutti_group_end() then starts nothing and returns
 *   the error.
 * - tutti_comm_destroy() drops the group with its calls, as if they had not been made. So it
 *   does with groups that other threads have open on `comm`.
 * Calls on other communicators are not affected. A group that a thread leaves open when it ends
 * is dropped; an operation that such a group used stays until tutti_comm_destroy().
 */
TUTTI_API tutti_result_t tutti_group_begin(tutti_comm_t comm);
/** The end of a group that tutti_group_begin() opened: start its calls. */
TUTTI_API tutti_result_t tutti_group_end(tutti_comm_t comm, tutti_request_t *request);

/** How one call differs from what its communicator has for all. Zero every member that you do
 * not set. */
typedef struct tutti_call {
	size_t size;	    /**< sizeof(tutti_call_t), so that the struct can grow */
	double timeout_s;   /**< its deadline, seconds; 0: that of the communicator */
	const char *caller; /**< where in the program it stands, such as "train.py:42 in step", for
			     *   the flight recorder: reports and tutti-trace say it. Copied, the
			     *   first 247 bytes; NULL: not said. Of the last 256 calls with one */
	tutti_wire_t wire; /**< what its elements travel as; 0: as the communicator has it. A narrow
			    *   format with a call that cannot have one: that is
			    *   #TUTTI_ERR_INVALID. Of a group it counts for those calls that can */
} tutti_call_t;

/** The usual start of a call: `tutti_call_t call = TUTTI_CALL_INIT;` */
#define TUTTI_CALL_INIT                                                                            \
	{                                                                                          \
		sizeof(tutti_call_t), 0.0, NULL, TUTTI_WIRE_DEFAULT                                \
	}

/**
 * Say how the next operation that this thread calls on `comm` differs: a collective, a send, a
 * receive, or, said before tutti_group_begin(), all of a group. That call takes it, also if it
 * turns out to be invalid; of several the last counts. Other threads are not affected. Ranks may
 * say different deadlines: where one's passes first, every rank gets its error. They say the same
 * `wire`, else the calls do not match. Calls on streams take the deadline, too, for each time that
 * their stream waits for other ranks (tutti/cuda.h); their elements travel as they are.
 * tutti_comm_split(), tutti_cuda_bind() and those of windows make several operations, of which
 * the first takes it; tutti_comm_grow() takes it as the time that newcomers have.
 * TUTTI_ERR_INVALID inside a group. After TUTTI_ERR_NO_MEMORY the next call is as usual; `comm`
 * is not revoked.
 */
TUTTI_API tutti_result_t tutti_next_call(tutti_comm_t comm, const tutti_call_t *call);

/**
 * Say what an element of the next operation that this thread calls on `comm` is to the program,
 * where its dtype does not say: `element`, such as "complex" for pairs of float32, has 1 to 8
 * printable characters of ASCII. Ranks that say different ones, or of which some say none, call
 * different operations: #TUTTI_ERR_MISMATCH, whose message has both. It is taken as what
 * tutti_next_call() says is, and stands beside that; inside a group it is of the next call alone.
 *
 * Ranks compare it of sends, of receives, and of collectives that are not given counts for each
 * rank, on memory of the host. All-reduces of a group that travel together are not compared.
 */
TUTTI_API tutti_result_t tutti_next_element(tutti_comm_t comm, const char *element);

/* ---------------------------------------------------------------- requests */

/**
 * Has `*request` finished? TUTTI_IN_PROGRESS: not yet. Otherwise the request is freed,
 * `*request` is set to NULL and its result returned. A NULL `*request` is finished: TUTTI_OK.
 */
TUTTI_API tutti_result_t tutti_test(tutti_request_t *request);

/** Wait for `*request`, free it, set it to NULL, return its result. NULL `*request`: TUTTI_OK. */
TUTTI_API tutti_result_t tutti_wait(tutti_request_t *request);

/** tutti_wait() for each of `count` requests; the first error, if any, after all have finished. */
TUTTI_API tutti_result_t tutti_wait_all(tutti_request_t *requests, size_t count);

/**
 * Wait until one of `count` requests has finished, free it, set it to NULL, put its place into
 * `*index` and return its result. NULL entries are passed over; all NULL: `*index` is `count`,
 * TUTTI_OK.
 */
TUTTI_API tutti_result_t tutti_wait_any(tutti_request_t *requests, size_t count, size_t *index);

/**
 * tutti_wait_any() that gives up after `timeout_s` seconds, 0 to 1e9: TUTTI_IN_PROGRESS, `*index`
 * is `count`, and all requests are as they were. Nothing is revoked: this is no deadline of an
 * operation (tutti_next_call()).
 */
TUTTI_API tutti_result_t tutti_wait_any_for(tutti_request_t *requests, size_t count,
					    double timeout_s, size_t *index);

/** Is told that a request has ended. */
typedef void (*tutti_notify_fn_t)(void *context);

/**
 * Have `function` called once `request` has ended, so that no thread need wait for it. It is still
 * to be finished: tutti_test() then gives its result at once. May be called again for the same
 * request; all functions are called, those that the progress thread calls in this order.
 *
 * - `function` is called exactly once for each call of this that returned TUTTI_OK; also if
 *   another thread finishes the request first, so that `context` must outlive that.
 * - Who calls it: the progress thread of the request's communicator, one function after another
 *   in the order in which requests end; or, where `request` is NULL, or has ended already and this
 *   is not called in such a function, the calling thread within this call. Signals are blocked in
 *   the progress thread, which may call the next while the calling thread is still in one.
 * - What it may do: finish this request or others, start operations on any communicator, wait.
 *   While it runs, other functions of the communicator wait, and operations on it advance only in
 *   calls of other threads. It must not destroy the communicator.
 * - tutti_comm_destroy() waits for a function that runs. Then it ends what is unfinished with
 *   TUTTI_ERR_ABORTED and calls the functions that are left, which may call nothing but
 *   tutti_test() for their own requests. In a child of fork() none is called.
 *
 * TUTTI_ERR_NO_MEMORY or TUTTI_ERR_SYSTEM: the function will not be called, the request is as
 * before.
 */
TUTTI_API tutti_result_t tutti_notify(tutti_request_t request, tutti_notify_fn_t function,
				      void *context);

/**
 * Have 1 written to `fd`, a descriptor of eventfd(), once `request` has ended: it becomes readable,
 * for programs that wait in poll() or in an event loop. Any number of requests may share one. The
 * request is still to be finished, as with tutti_notify(). `fd` stays the caller's, and open until
 * then. TUTTI_ERR_INVALID: it is no eventfd. Other errors as there.
 */
TUTTI_API tutti_result_t tutti_notify_fd(tutti_request_t request, int fd);

/** Is asked by threads that wait: should the wait end? */
typedef int (*tutti_interrupt_fn_t)(void);

/**
 * Have `function` asked by every thread that waits inside a blocking call, tutti_wait(),
 * tutti_wait_all() or tutti_wait_any(), about every 0.1 s while nothing moves, and every 0.5 s
 * while peers keep this rank busy, as by what they put into its windows. For interpreters, which
 * handle signals only between the steps of a program: a call that waits for ranks that do not
 * come could else not be ended from the keyboard. If it returns another number than 0, the
 * communicator that the thread waits for is revoked, as by tutti_comm_abort(), so that the other
 * ranks do not wait; it is not asked again then. No lock is held meanwhile; `function` must not
 * call tutti. One for the process; NULL: none. Functions that make communicators, and those of
 * stores, do not ask.
 */
TUTTI_API void tutti_interrupt_set(tutti_interrupt_fn_t function);

/* ---------------------------------------------------------------- memory */

/**
 * Allocate `bytes` of zeroed memory that the other ranks of this host can map, aligned to 4 KiB
 * at least. Collectives between such buffers read the peers' memory directly, without a copy; an
 * all-reduce also writes there, if its result is all of such memory, or whole pages of it. The
 * memory belongs to the process and may be used with any communicator, or none. `*memory` is
 * NULL on error. The limit of file sizes (ulimit -f) bounds what a process can have.
 *
 * A process has as much of it in all as the machine has memory, rounded up to a power of two. Peers
 * may still write to what they were lent when an operation failed, and to what tutti_comm_destroy()
 * finds a window on. That keeps its addresses and contents, but lies elsewhere from then on: so
 * much of the whole, and as much again once it is freed, is given to nobody while the process
 * lives.
 *
 * TUTTI_ERR_INVALID: `bytes` is 0 or beyond that bound. TUTTI_ERR_NO_MEMORY: no such block is
 * free.
 */
TUTTI_API tutti_result_t tutti_mem_alloc(size_t bytes, void **memory);

/** Free memory of tutti_mem_alloc() that no pending request uses; NULL is allowed. */
TUTTI_API void tutti_mem_free(void *memory);

/* ---------------------------------------------------------------- what happened */

/** An error message for `result`; never NULL. */
TUTTI_API const char *tutti_strerror(tutti_result_t result);

/**
 * What last failed: the operation, the ranks, what was found and expected, what to do. With
 * `comm` NULL, or if `comm` has not failed: the last failure of the calling thread. "" if none.
 * The text is valid until the thread's next call of tutti.
 */
TUTTI_API const char *tutti_last_error(tutti_comm_t comm);

/**
 * Every communicator records its last 4096 operations where it can be read when the process is
 * gone. When it is revoked, each rank writes them into the directory of TUTTI_TRACE
 * (docs/reference/trace.md); on SIGUSR1 all communicators of the process are written, at any
 * moment, whatever it does. For this the library handles SIGUSR1 from the first communicator on,
 * unless it was ignored or handled before, or TUTTI_TRACE is "off". tutti-trace reads the files.
 *
 * The ranks of a host report those of them that died. This function does so where nobody was
 * left: it writes the reports of all processes of this host whose TUTTI_TRACE is `directory` (NULL:
 * that of the caller) and that have ended without one since this machine was started. `*count` (may
 * be NULL) is how many it has written there.
 * TUTTI_ERR_SYSTEM: the directory cannot be read.
 */
TUTTI_API tutti_result_t tutti_trace_recover(const char *directory, int *count);

/** The name of a type ("float32"), NULL for a value that is none; its size in bytes, 0 for none. */
TUTTI_API const char *tutti_dtype_name(tutti_dtype_t dtype);
/** The size of an element in bytes; 0 for a value that is no type. */
TUTTI_API size_t tutti_dtype_size(tutti_dtype_t dtype);

/**
 * The name of a built-in operation ("sum"), "user" for the number of one made by the user, NULL for
 * a number that no operation of any communicator has.
 */
TUTTI_API const char *tutti_op_name(tutti_op_t op);

/** The names that TUTTI_ALGORITHM takes, by `number` from 0 on; NULL behind the last. Static. */
TUTTI_API const char *tutti_algorithm_name(int number);

/** "none" for #TUTTI_WIRE_FLOAT32, "bf16", "fp16", "fp8", "int8"; of #TUTTI_WIRE_IF_FASTER nothing
 * is said; NULL for #TUTTI_WIRE_DEFAULT and what is no format. Static. */
TUTTI_API const char *tutti_wire_name(tutti_wire_t wire);

/** Bytes of `count` elements of float32 in the format; 0 for none, SIZE_MAX for too many. */
TUTTI_API size_t tutti_wire_bytes(tutti_wire_t wire, size_t count);

/**
 * What an all-reduce of the `count` elements at `in` reads of this rank's input if they travel in
 * the format: out[i] = in[i], rounded to it. `out` may be `in`. For programs that add the
 * difference to their next input (error feedback). Any thread; needs no communicator.
 * TUTTI_ERR_INVALID: `wire` is no format, or a buffer is NULL.
 */
TUTTI_API tutti_result_t tutti_wire_round(tutti_wire_t wire, const float *in, float *out,
					  size_t count);

/**
 * The format of a name, as in TUTTI_WIRE: those of tutti_wire_name(), and the narrow ones behind
 * "auto:" with #TUTTI_WIRE_IF_FASTER. TUTTI_ERR_INVALID, and `*wire` is as before: it is none.
 */
TUTTI_API tutti_result_t tutti_wire_parse(const char *text, tutti_wire_t *wire);

/** "0.2.0": the version of the library, which may be newer than the header. */
TUTTI_API const char *tutti_version(void);

/**
 * The instruction set of the kernels in use: "avx512_fp16", "avx512_bf16", "avx512", "avx2",
 * "neon" or "c". Each of the first three has what the next one has.
 */
TUTTI_API const char *tutti_kernel_isa(void);

/** Levels of the log, as in TUTTI_LOG. */
typedef enum tutti_log_level {
	TUTTI_LOG_ERROR = 0,
	TUTTI_LOG_WARN = 1,
	TUTTI_LOG_INFO = 2,
	TUTTI_LOG_DEBUG = 3,
	TUTTI_LOG_TRACE = 4
} tutti_log_level_t;

/** Receives each line of the log, without a newline; may be called by any thread, one at a time. It
 * must not call tutti: what takes a communicator, a request or a window returns #TUTTI_ERR_INVALID
 * inside it. Lines that its calls cause go to standard error. */
typedef void (*tutti_log_fn_t)(tutti_log_level_t level, const char *subsystem, const char *line,
			       void *context);

/** Send the log of this process to `sink` instead of standard error; NULL: back to standard
 * error. */
TUTTI_API void tutti_log_set_sink(tutti_log_fn_t sink, void *context);

/** What a communicator chose, for programs that report it. */
typedef struct tutti_plan_info {
	size_t size;		/**< sizeof(tutti_plan_info_t), set by the caller */
	const char *algorithm;	/**< such as "ring" */
	const char *transports; /**< that carry it on this rank, such as "shm" or "shm+tcp";
				 * "cuda": it was on a stream; "none": this rank exchanges
				 * nothing; valid while `comm` is */
	size_t segment_bytes;	/**< of each block that moves at a time; 0: not cut */
	unsigned rounds;	/**< of the schedule on this rank */
	tutti_wire_t wire; /**< what its elements travel as; #TUTTI_WIRE_FLOAT32 for elements of
				 * any type that travel as in memory */
} tutti_plan_info_t;

/**
 * How the last collective that this rank started on `comm` is carried out; sends and receives do
 * not count, nor on streams gather_v, scatter_v and all_to_all_v. TUTTI_ERR_INVALID if there was
 * none, or it had no plan: on streams, between windows, between threads or by the host (cuda.h).
 */
TUTTI_API tutti_result_t tutti_comm_last_plan(tutti_comm_t comm, tutti_plan_info_t *info);

/** What steps take on this machine, by which algorithms are chosen. Seconds, and seconds per
 * byte. */
typedef struct tutti_model {
	size_t size;	 /**< sizeof(tutti_model_t), set by the caller */
	double line;	 /**< from a store on one core to a load on another that sees it */
	double handover; /**< from one thread to another on the same core */
	double copy;	 /**< per byte that another core has just written */
	double reduce;	 /**< per byte of a float32 sum of two vectors in the cache */
	double message;	 /**< a short message over TCP on the loopback interface: the send and its
			  * receive */
	double stream;	 /**< per byte of a long one */
	const char *source; /**< the file they are from, "measured", "measured in part" (the rest
			     * is builtin) or "builtin"; static */
} tutti_model_t;

/**
 * The figures of this machine. They are read once per process from the file of TUTTI_MODEL or
 * the user's cache (docs/reference/environment.md), or else measured, which takes some
 * milliseconds, and kept there. tutti_init() and the other makers of communicators do the same
 * on rank 0, whose figures then count for all ranks. Any thread; needs no communicator.
 * TUTTI_ERR_INVALID or TUTTI_ERR_SYSTEM if the file that TUTTI_MODEL names has other contents or
 * cannot be used.
 */
TUTTI_API tutti_result_t tutti_model(tutti_model_t *out);

/** A port of an RDMA device. What it points to is valid during the call that shows it. */
typedef struct tutti_rdma_port {
	const char *device; /**< such as "mlx5_0" */
	int port;	    /**< its number on the device, from 1 */
	int used; /**< 1: it fits, and with the settings in the environment is among those that
		   * would be used; else 0 */
	const char *why_not; /**< what follows its name: "is DOWN, expected ACTIVE: …"; NULL if it
			      * is used */
	unsigned speed_mbit; /**< Mbit/s; 0: not known */
	int numa_node;	     /**< of the device; -1: not known */
	int gid_index;	     /**< of the GID that would be used on it; -1: there is none */
	unsigned char gid[16]; /**< in network order; of IPv4 as RFC 4291 maps it */
	const char *gid_kind;  /**< "InfiniBand", or of RoCE v2: "IPv4", "IPv6", "link-local";
				* NULL: there is none */
} tutti_rdma_port_t;

/** Is shown one port after the other. */
typedef void (*tutti_rdma_port_fn_t)(const tutti_rdma_port_t *port, void *context);

/**
 * Show `each` every port of an RDMA device of this machine, those first that would be used, the
 * best of them first. TUTTI_RDMA_DEVICE, TUTTI_RDMA_PORT and TUTTI_RDMA_GID count
 * (docs/reference/environment.md). `sysroot` NULL; or a directory with a copy of another
 * machine's /sys, while addresses are still those of this one. Any thread; needs no
 * communicator, and no library of the devices. TUTTI_ERR_UNSUPPORTED: none can be used;
 * tutti_last_error(NULL) says why. TUTTI_ERR_INVALID: a setting makes no sense, no port was
 * shown.
 */
TUTTI_API tutti_result_t tutti_rdma_ports(const char *sysroot, tutti_rdma_port_fn_t each,
					  void *context);

/**
 * Can the RDMA device of this name register memory that is exported as a dma-buf, as GPUs' is?
 * It is opened and asked, which takes milliseconds. Any thread; needs no communicator.
 * TUTTI_ERR_UNSUPPORTED: it, its driver or the kernel cannot; another error: it could not be
 * asked. tutti_last_error(NULL) says why.
 */
TUTTI_API tutti_result_t tutti_rdma_dmabuf(const char *device);

/**
 * What a packet through this port carries at most, in *bytes: 256 to 4096. The device is opened
 * and asked, which takes milliseconds; `port` is 1 to 255. Any thread; needs no communicator.
 * Another result than TUTTI_OK: it could not be asked, and tutti_last_error(NULL) says why.
 */
TUTTI_API tutti_result_t tutti_rdma_mtu(const char *device, int port, int *bytes);

/** What messages take between two places of a cluster. Seconds, and seconds per byte. */
typedef struct tutti_path {
	double latency;	 /**< from the end of a send to its arrival */
	double overhead; /**< of the two calls; messages that a rank sends or receives at once take
			  * it each */
	double byte;	 /**< per byte */
} tutti_path_t;

/**
 * A cluster of equal hosts that need not exist. Ranks fill the hosts one after another, every
 * rank has a core of its own, and those of a host share memory.
 */
typedef struct tutti_cluster {
	size_t size;	      /**< sizeof(tutti_cluster_t), set by the caller */
	int ranks_per_host;   /**< 1 at least */
	tutti_path_t within;  /**< between two ranks of a host */
	tutti_path_t between; /**< between two ranks of different hosts */
	double network_byte;  /**< a byte through the network of a host, which all of its ranks
			       * share */
	double shared_byte;   /**< a byte that is put where the ranks of the host can read it, or
			       * read there */
	double sync;	      /**< until every rank of a host knows that all of them are there */
	double reduced_byte;  /**< a byte combined with another */
} tutti_cluster_t;

/** Room for the algorithms of a tutti_prediction_t. */
#define TUTTI_PREDICTIONS_MAX 32

/** What a collective takes by each algorithm. */
typedef struct tutti_prediction {
	size_t size;	     /**< sizeof(tutti_prediction_t), set by the caller */
	unsigned algorithms; /**< how many there are, the same for all collectives */
	int chosen;	     /**< the one that takes least, of equal ones the first; -1: none can */
	const char *algorithm[TUTTI_PREDICTIONS_MAX]; /**< such as "ring"; static */
	double seconds[TUTTI_PREDICTIONS_MAX];	      /**< negative: it cannot, with these ranks */
} tutti_prediction_t;

/**
 * Predict `collective`, such as "all_reduce" or "barrier", of `ranks` ranks, 2 to 1048576, on
 * `cluster`, by the costs by which algorithms are chosen. `bytes` are those of the vector, or
 * for collectives of blocks of all ranks' blocks together; roots and types make no difference.
 * Starts nothing, needs no communicator; any thread. TUTTI_ERR_INVALID if an argument is none of
 * these, a figure is negative or not finite, or no algorithm has the collective.
 */
TUTTI_API tutti_result_t tutti_predict(const tutti_cluster_t *cluster, const char *collective,
				       int ranks, double bytes, tutti_prediction_t *out);

#ifdef __cplusplus
}
#endif

#endif
