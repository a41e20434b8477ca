/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs need of CUDA beside tutti: memory of a GPU, streams, events, graphs and kernels
 * of their own. Its driver is opened at run time, as the library does it, so that one build of a
 * program serves machines with and without a GPU. Functions that fail give false, or NULL, and
 * gpu_error() then says why. A thread calls gpu_enter() first. */
#ifndef TT_GPU_H
#define TT_GPU_H

#include <stdbool.h>
#include <stddef.h>

typedef struct CUctx_st *gpu_context_t;
typedef struct CUstream_st *gpu_stream_t;
typedef struct CUevent_st *gpu_event_t;
typedef struct CUgraphExec_st *gpu_graph_t;
typedef struct CUmod_st *gpu_module_t;
typedef struct CUfunc_st *gpu_kernel_t;

/* Why the thread's last call failed, with CUDA's text. */
const char *gpu_error(void);

/* Load the driver, as linking with it would, once in a process; and start it. */
bool gpu_load(void);
bool gpu_open(void);
int gpu_count(void);		  /* 0 also where there is none */
const char *gpu_name(int device); /* valid until the thread's next call */
/* Make `device` the thread's. */
bool gpu_enter(int device);
/* What the thread has, NULL for none; and has again. */
gpu_context_t gpu_current(void);
bool gpu_return(gpu_context_t context);

void *gpu_alloc(size_t bytes);
void *gpu_alloc_managed(size_t bytes);
void *gpu_alloc_pinned(size_t bytes); /* of the host */
bool gpu_free(void *memory);
/* Mapped in two segments, of which other processes may have descriptors, as PyTorch's expandable
 * segments are; the memory begins shortly before the end of the first. */
void *gpu_alloc_segments(size_t bytes);
bool gpu_free_segments(void *memory, size_t bytes);
bool gpu_free_pinned(void *memory);

gpu_stream_t gpu_stream(void); /* NULL: it could not be made */
bool gpu_stream_free(gpu_stream_t stream);
/* In the order of the stream; either may be of the host. */
bool gpu_copy(void *dst, const void *src, size_t bytes, gpu_stream_t stream);
bool gpu_fill(void *dst, unsigned char byte, size_t bytes, gpu_stream_t stream);
bool gpu_finish(gpu_stream_t stream);  /* wait for all that is on it */
bool gpu_is_done(gpu_stream_t stream); /* has all that is on it ended? */

gpu_event_t gpu_event(void);
bool gpu_event_free(gpu_event_t event);
bool gpu_record(gpu_event_t event, gpu_stream_t stream);
bool gpu_wait(gpu_event_t event); /* for what was recorded */
bool gpu_follow(gpu_stream_t stream,
		gpu_event_t event); /* what comes to the stream now waits for what was recorded */
/* Seconds from one event to another, both of which have come; negative after an error. */
double gpu_seconds(gpu_event_t from, gpu_event_t to);

/* What is put on the stream from now on is kept for a graph … */
bool gpu_capture(gpu_stream_t stream);
/* … which this gives; NULL after an error. */
gpu_graph_t gpu_captured(gpu_stream_t stream);
bool gpu_launch(gpu_graph_t graph, gpu_stream_t stream);
bool gpu_graph_free(gpu_graph_t graph);

/* Kernels that a program was built with, by build_image: a fat binary, and for which GPUs it is ("": it
 * was built without). */
struct gpu_image {
	const char *program, *code, *codes;
	const char *variable; /* of the environment, which may name a file of others */
};
/* For the thread's GPU; NULL after an error. `unread`: there is no such file. */
gpu_module_t gpu_module(const struct gpu_image *image, bool *unread);
bool gpu_module_free(gpu_module_t module);
/* The file that has one, a 0 behind it; NULL, with errno. free() it. */
char *gpu_read_image(const char *path);
/* Ready to run: its first launch loads nothing. */
gpu_kernel_t gpu_kernel(gpu_module_t module, const char *name);
/* With a thread for each of `count`, as far as they go at once. `arguments` are pointers to the kernel's arguments, which are copied. */
bool gpu_run(gpu_kernel_t kernel, size_t count, void **arguments, gpu_stream_t stream);

#endif
