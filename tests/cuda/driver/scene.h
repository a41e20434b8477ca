/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver, and what each claim begins with: GPU 0 with its context current, a stream, and words of
 * the GPU's memory. */
#ifndef DRIVER_SCENE_H
#define DRIVER_SCENE_H

#include <stdbool.h>
#include <string.h>

#include "tests.h"
#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "../standin/results.h"

#define WORDS 8192

enum { MODE_GLOBAL = 0 };

/* Of every claim; the words are 0. */
extern struct CUctx_st *context;
extern struct CUstream_st *stream;
extern uint64_t *words;

#define assert_success(call) assert_int_equal(call, 0)
/* It is refused as a wrong argument. */
#define assert_invalid(call) assert_int_equal(call, CUDA_INVALID_VALUE)
#define SCENE(name)	     TEST_WITH(name, begin_scene, end_scene)

int open_driver(void **state);
int begin_scene(void **state);
int end_scene(void **state);

uint64_t read_word(const uint64_t *word);
void write_word(uint64_t *word, uint64_t value);
uint64_t *new_words(void);
struct CUstream_st *new_stream(void);
struct CUevent_st *new_event(unsigned flags);

/* Work of a stream. */
cuda_result mem_op(struct CUstream_st *on, unsigned operation, const uint64_t *word, uint64_t value,
		   unsigned flags);
void wait_for(struct CUstream_st *on, const uint64_t *word, uint64_t value);
void store(struct CUstream_st *on, const uint64_t *word, uint64_t value);
void synchronize(void);

struct seen {
	unsigned type, managed;
	int device;
};
/* What the driver says of a pointer. */
struct seen look_at(const void *pointer);

#endif
