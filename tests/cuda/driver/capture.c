/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that are captured. */
#include "scene.h"

/* Calls that a capture does not allow fail, and so does its end. */
SCENE(capture_forbids_what_it_cannot_keep)
{
	enum { ALLOC, FREE, SYNCHRONIZE, QUERY, WAIT, QUERY_CAPTURED, CALLS };
	static const cuda_result expected[CALLS] = { CAPTURE_UNSUPPORTED, CAPTURE_UNSUPPORTED,
						     CAPTURE_UNSUPPORTED, CAPTURE_UNSUPPORTED,
						     CAPTURE_ISOLATION,	  CAPTURED_EVENT };
	struct CUevent_st *const event = new_event(0), *const captured = new_event(0);
	struct CUgraph_st *graph;
	cuda_address memory;
	unsigned status;

	assert_success(tt_cu.event_record(event, stream));
	synchronize();
	for (int i = 0; i < CALLS; i++) {
		assert_success(tt_cu.stream_begin_capture(stream, MODE_GLOBAL));
		assert_success(tt_cu.event_record(captured, stream));
		assert_int_equal(i == ALLOC	    ? tt_cu.mem_alloc(&memory, 8)
				 : i == FREE	    ? tt_cu.mem_free(cuda_at(words))
				 : i == SYNCHRONIZE ? tt_cu.stream_synchronize(stream)
				 : i == QUERY	    ? tt_cu.event_query(event)
				 : i == WAIT	    ? tt_cu.stream_wait_event(stream, event, 0)
						    : tt_cu.event_query(captured),
				 expected[i]);
		assert_success(tt_cu.stream_is_capturing(stream, &status));
		assert_int_equal(status, CUDA_CAPTURE_INVALIDATED);
		assert_int_equal(tt_cu.mem_set(cuda_at(words), 0, 1, stream), CAPTURE_INVALIDATED);
		assert_int_equal(tt_cu.stream_end_capture(stream, &graph), CAPTURE_INVALIDATED);
		assert_null(graph);
	}
	assert_int_equal(tt_cu.stream_end_capture(stream, &graph), ILLEGAL_STATE);
	assert_int_equal(tt_cu.stream_begin_capture(NULL, MODE_GLOBAL), CAPTURE_UNSUPPORTED);
	assert_success(tt_cu.event_destroy(event));
	assert_success(tt_cu.event_destroy(captured));
}

SCENE(capture_asks_for_all_branches_and_spares_the_relaxed)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const event = new_event(0);
	unsigned mode = CUDA_CAPTURE_RELAXED;
	cuda_address memory;
	struct CUgraph_st *graph;

	assert_success(tt_cu.stream_begin_capture(stream, MODE_GLOBAL));
	assert_success(tt_cu.thread_capture_mode(&mode));
	assert_int_equal(mode, MODE_GLOBAL);
	assert_success(tt_cu.mem_alloc(&memory, 8));
	assert_success(tt_cu.mem_free(memory));
	assert_success(tt_cu.stream_synchronize(second));
	assert_success(tt_cu.thread_capture_mode(&mode));
	assert_success(tt_cu.event_record(event, stream));
	assert_success(tt_cu.stream_wait_event(second, event, 0));
	assert_int_equal(tt_cu.stream_end_capture(stream, &graph), CAPTURE_UNJOINED);
	assert_success(tt_cu.stream_begin_capture((struct CUstream_st *)2,
						  CUDA_CAPTURE_THREAD_LOCAL)); /* a blocking one */
	assert_int_equal(tt_cu.stream_is_capturing(NULL, &mode), CAPTURE_IMPLICIT);
	assert_success(tt_cu.stream_end_capture((struct CUstream_st *)2, &graph));
	assert_success(tt_cu.graph_destroy(graph));
	assert_success(tt_cu.event_destroy(event));
	assert_success(tt_cu.stream_destroy(second));
}
