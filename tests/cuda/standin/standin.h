/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for CUDA's driver where none is, as a library that TUTTI_CUDA_LIBRARY names: GPUs of
 * host memory, whose streams are threads. It is as strict as the driver about what it is given, and
 * does what it is asked for, so that what processes and threads do with GPUs can be tested by
 * processes and threads. What a GPU does for speed it does not have.
 *
 * As drivers may, it does all that the GPU was given before when memory is freed, pinned memory taken,
 * a module loaded, or a kernel launched that was neither launched nor looked at before. Whoever puts
 * more than 1000 works on a stream waits until some have begun, and so do all calls of other threads
 * meanwhile, as users of CUDA report it.
 *
 * Variables:
 *
 * STANDIN_DEVICES: how many GPUs there are (2).
 *
 * CUDA_VISIBLE_DEVICES: a number; this process sees that one alone, as number 0.
 *
 * STANDIN_MEMORY: bytes of each (1 GiB), counted in each process by itself.
 *
 * STANDIN_APART, set: memory of GPUs can be read and written by streams alone, as with most GPUs;
 * the host gets a fault.
 *
 * STANDIN_PEERS: "all": each reaches all others; "none"; "pairs": 0 and 1, 2 and 3, …; "threes": 0
 * to 2, 3 to 5, …; else each reaches the one before it.
 *
 * CUDA_DEVICE_MAX_CONNECTIONS: how many connections there are to a GPU (8, at most 32), to which
 * streams are assigned in turn. What is behind a wait on one waits, too, whatever its stream.
 *
 * STANDIN_FAILS: which functions fail, separated by commas: NAME, or NAME:K, from the K-th call on,
 * counted from when the variable was set. "work" is what a stream does: where it fails the context
 * is broken, as after a kernel's wrong access.
 *
 * STANDIN_ERROR: with which error they fail (999).
 *
 * STANDIN_MPS, set: NVIDIA's MPS runs, as whose clients processes share GPUs.
 *
 * STANDIN_MULTICAST, set: GPUs are joined by a switch that adds up and hands on.
 *
 * STANDIN_GARBLES, set: a copy brings wrong bytes from the memory of another GPU, as where something
 * between the two redirects them.
 *
 * STANDIN_WITHOUT_FENCE: functions of the library's kernels whose fences do nothing.
 *
 * STANDIN_SPOILS, set: kernels of the library add 1 to the first byte that they write, and so leave
 * it wrong.
 *
 * One lock guards everything but the memory of GPUs. The files: device.c the start, errors, what is
 * said of GPUs; table.c of all that is made; context.c; memory.c; ipc.c; segments.c the virtual memory
 * API; multicast.c; stream.c; work.c what streams do; event.c; capture.c capture and graphs; module.c
 * kernels and their launch; kernels.cpp the kernels of the library, programs.cpp those
 * of the programs, which no_kernels.c replaces where no C++ compiler is.
 * cublas.c and nvml.c are libraries of their own. */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "cuda_functions.h"
#include "cuda/kernels.h"
#include "kernel.h"
#include "results.h"

#pragma GCC diagnostic ignored                                                                     \
	"-Wmissing-prototypes" /* they are of <cuda.h>, which need not be there */

#define API		    __attribute__((visibility("default")))
#define DEVICES_MAX	    64
#define ARGUMENTS_BYTES_MAX 4096 /* of all of a kernel's, each at a multiple of 16 */
#define ADDRESS_OF(pointer) ((cuda_address)(uintptr_t)(pointer))

/* A function of the driver. Its body runs with the lock, where the driver has been started,
 * STANDIN_FAILS does not name it, and `check`, of its parameters, has found no error. */
#define CALL_AFTER(check, name, arguments, ...)                                                    \
	static cuda_result do_##name(__VA_ARGS__);                                                 \
	API cuda_result name(__VA_ARGS__)                                                          \
	{                                                                                          \
		cuda_result error = standin_enter(__func__);                                       \
                                                                                                   \
		if (!error)                                                                        \
			error = check;                                                             \
		return standin_leave(error ? error : do_##name arguments);                         \
	}                                                                                          \
	static cuda_result do_##name(__VA_ARGS__)
#define CALL(name, arguments, ...) CALL_AFTER(0, name, arguments, __VA_ARGS__)
/* One that needs a context of the thread's, which context_here() gives … */
#define CALL_HERE(name, arguments, ...) CALL_AFTER(context_error(), name, arguments, __VA_ARGS__)
/* … and cannot be captured. */
#define CALL_OUTSIDE(name, arguments, ...)                                                         \
	CALL_AFTER(capture_forbids_here(), name, arguments, __VA_ARGS__)

/* All that the driver makes but contexts is in a table of its kind, and begins with this. */
enum kind {
	MEMORIES,
	ALLOCATIONS,
	RANGES,
	STREAMS,
	EVENTS,
	CAPTURES,
	GRAPHS,
	EXECUTABLES,
	MODULES,
	FUNCTIONS,
	KINDS
};
struct made {
	struct made *next;
	enum kind kind;
	struct CUctx_st *context; /* with which it goes; NULL: none */
};

struct CUctx_st {
	cuda_device device;
	unsigned retained;
	cuda_result broken; /* what a stream's work failed with: all that follows does, too */
	bool peers[DEVICES_MAX];
	struct CUstream_st *legacy, *per_thread; /* made when first used */
	unsigned streams;			 /* that were ever made */
};

enum memory_kind {
	MEMORY_DEVICE,
	MEMORY_OPENED,
	MEMORY_MAPPED, /* by the virtual memory API */
	MEMORY_PINNED,
	MEMORY_REGISTERED,
	MEMORY_MANAGED
};
struct allocation; /* segments.c */

struct memory {
	struct made made; /* by the context that made or opened it; none: of MEMORY_MAPPED */
	enum memory_kind kind;
	cuda_device device; /* whose it is: an opened one's that of its owner, perhaps none that
			     * is seen here */
	char *base;	    /* its address */
	char *real;	    /* where it is: with STANDIN_APART elsewhere */
	size_t bytes;
	int fd;		 /* of MEMORY_DEVICE, -1 of others */
	unsigned opened; /* MEMORY_OPENED: how often, by this handle */
	struct CUipcMemHandle_st handle;
	struct allocation *allocation; /* MEMORY_MAPPED: of which it is a mapping */
};

/* Of one cuEventRecord(): whoever waits for it waits for this, and not for what is recorded
 * later. */
struct record {
	unsigned references;
	bool done;
	struct timespec when;
};

struct CUevent_st {
	struct made made;
	unsigned flags;
	struct record *last;	    /* NULL: never recorded */
	uint64_t capture;	    /* recorded last in the capture of this number; 0: in none */
	struct CUstream_st *stream; /* of that capture, and how much of it there was then */
	unsigned captured;
};

enum work_kind { WORK_COPY, WORK_SET, WORK_MEM_OP, WORK_KERNEL, WORK_HOST, WORK_RECORD, WORK_WAIT };

struct work {
	struct work *next;
	uint64_t number; /* of all that was ever given to streams */
	bool follows;	 /* of a graph, or of a call, not the first: it takes no room in a queue */
	enum work_kind kind;
	union {
		struct {
			void *dst;
			const void *src;
			size_t bytes;
			void *staged; /* copy of a source that the caller may change after the
				       * call */
		} copy;
		struct {
			void *dst;
			size_t bytes;
			unsigned char byte;
		} set;
		union CUstreamBatchMemOpParams_union op;
		struct {
			struct standin_kernel kernel;
			unsigned grid[3], block[3];
			_Alignas(16) char arguments[ARGUMENTS_BYTES_MAX];
			bool spoils;
			struct tt_cuda_place place; /* of the library's kernels, with addresses
						     * as the stream finds them */
		} launch;
		struct {
			void (*function)(void *);
			void *data;
		} host;
		struct record *record;
	};
};

struct work_list {
	struct work *first, *last;
	unsigned count; /* of those that take room in a queue */
};

struct capture {
	struct made made;
	uint64_t number;
	unsigned mode;
	bool invalid;
	struct CUstream_st *origin;
	const void *thread; /* that began it */
	struct work_list work;
};

struct CUstream_st {
	struct made made;
	unsigned long long id; /* of no other stream before */
	unsigned flags;
	bool served;	/* it has a thread */
	bool destroyed; /* by the caller: it ends when it has nothing to do */
	struct work_list work;
	uint64_t running; /* number of the work that it does; 0: none */
	bool waiting;	  /* that is a wait */
	unsigned connection;
	pthread_cond_t more;
	struct capture *capture; /* NULL: none */
	unsigned captured;	 /* work that it gave to the capture */
	bool joined;		 /* another stream of the capture waits for all of that */
};

/* device.c. standin_enter() takes the lock, also where it fails; standin_leave() gives it back
 * and returns `result`. */
cuda_result standin_enter(const char *function);
cuda_result standin_leave(cuda_result result);
cuda_result standin_failing(const char *function);
long standin_setting(const char *name, long otherwise);
int standin_devices(void);
bool standin_has(cuda_device device);
int standin_first(void); /* which of the machine is number 0 here */
bool standin_reaches(cuda_device device, cuda_device peer);
size_t standin_memory_bytes(void);
bool standin_is_apart(void);
extern pthread_mutex_t standin_lock;
extern pthread_cond_t standin_changed; /* some work has ended */
extern unsigned standin_kept;	       /* threads that a full queue keeps; others' calls wait */

/* What follows is called with the lock. table.c */
void *make(enum kind kind, size_t bytes,
	   struct CUctx_st *context); /* of zeros, the first of its kind */
bool is_made(enum kind kind, const void *handle);
void *next_made(enum kind kind, const void *after); /* NULL: the first */
void unmake(void *handle);
void unmake_all_of(const struct CUctx_st *context, enum kind kind, void (*forget)(void *made));

/* context.c */
cuda_result context_error(void);
struct CUctx_st *context_here(void);

/* memory.c. Found or made by; NULL: there is none. */
struct memory *memory_at(cuda_address address);
bool memory_holds(const struct memory *memory, cuda_address address, size_t bytes);
struct memory *memory_new(enum memory_kind kind, struct CUctx_st *context, size_t bytes, int fd);
/* memory[bytes] of a range of the virtual memory API is `allocation` from here on. */
void memory_map(cuda_device device, char *base, char *real, size_t bytes,
		struct allocation *allocation);
char *memory_reserve(size_t bytes); /* addresses that nobody can read */
bool memory_fits(cuda_device device, size_t bytes);
void *memory_real(const void *address);
void *standin_told(const void *address);
bool memory_is_of_host(const struct memory *memory);
void memory_forget(void *memory);

/* segments.c. The descriptor is the allocation's from here on; `table`: of a multicast object. */
struct multicast;
size_t segments_used(cuda_device device);
struct allocation *segments_add(int fd, size_t bytes, cuda_device device, bool exports,
				struct multicast *table, cuda_allocation *handle);
struct multicast *segments_multicast(cuda_allocation handle); /* NULL: it is none */
struct multicast *segments_table(const struct memory *memory);
int segments_descriptor(const struct memory *memory);

/* multicast.c */
struct multicast *multicast_map(int fd);
void multicast_unmap(struct multicast *table);
size_t multicast_bytes(const struct multicast *table);

/* stream.c. stream_of() finds the stream that a handle names which is known, or usable: where no
 * capture forbids that; `here`: and a context is current. stream_append() takes `work` in any case. stream_drain() waits for what
 * was given to `stream`, or with NULL to all of the context, before. */
struct CUstream_st *stream_of(struct CUstream_st *handle);
cuda_result stream_known(struct CUstream_st *handle);
cuda_result stream_usable(struct CUstream_st *handle);
cuda_result stream_usable_here(struct CUstream_st *handle);
cuda_result stream_append(struct CUstream_st *stream, struct work *work);
void stream_drain(const struct CUctx_st *context, const struct CUstream_st *stream);
void stream_end_context(struct CUctx_st *context);
void stream_leave_capture(const struct capture *capture);
bool stream_all_joined(const struct capture *capture);

/* work.c. work_find() with the lock, before work_do() without it. */
struct work *work_new(enum work_kind kind);
struct work *work_of_record(enum work_kind kind, struct record *record); /* keeps it */
void work_free(struct work *work);
bool work_is_wait(unsigned operation); /* of memory */
void work_find(struct work *work);
void work_do(struct work *work, const struct CUctx_st *context);
void work_list_add(struct work_list *list, struct work *work);
struct work *work_list_take(struct work_list *list);
void work_list_free(struct work_list *list);

/* event.c */
struct record *record_new(void);
struct record *record_keep(struct record *record);
void record_drop(struct record *record);
void event_forget(void *event);

/* capture.c. capture_forbids(): what cannot be captured may not be called now; the capture that
 * forbids it is invalid then. */
cuda_result capture_forbids(void);
cuda_result capture_forbids_here(void); /* or there is no context */
bool capture_blocks_legacy(const struct CUctx_st *context, bool invalidate);
struct capture *capture_numbered(uint64_t number);
cuda_result capture_wait(struct CUstream_st *stream, struct CUevent_st *event);

#endif
