/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that are captured. */
#include "scene.h"

/* Calls that a capture does not allow fail, and so does its end. */
SCENE(capture_forbids_what_it_cannot_keep)
{
	struct CUevent_st *const event = new_event(0), *const captured = new_event(0);
	cuda_address memory;
	unsigned status;
	void *graph;

	assert_success(cu->event_record(event, stream));
	synchronize();
	for (int i = 0; i < 6; i++) {
		assert_success(more.begin_capture(stream, MODE_GLOBAL));
		switch (i) {
		case 0: assert_int_equal(cu->mem_alloc(&memory, 8), CAPTURE_UNSUPPORTED); break;
		case 1:
			assert_int_equal(cu->mem_free(address_of(words)), CAPTURE_UNSUPPORTED);
			break;
		case 2:
			assert_int_equal(cu->stream_synchronize(stream), CAPTURE_UNSUPPORTED);
			break;
		case 3: assert_int_equal(cu->event_query(event), CAPTURE_UNSUPPORTED); break;
		case 4:
			assert_int_equal(cu->stream_wait_event(stream, event, 0),
					 CAPTURE_ISOLATION);
			break;
		case 5:
			assert_success(cu->event_record(captured, stream));
			assert_int_equal(cu->event_query(captured), CAPTURED_EVENT);
			break;
		}
		assert_success(cu->stream_is_capturing(stream, &status));
		assert_int_equal(status, 2);
		assert_int_equal(cu->mem_set(address_of(words), 0, 1, stream), CAPTURE_INVALIDATED);
		assert_int_equal(more.end_capture(stream, &graph), CAPTURE_INVALIDATED);
		assert_null(graph);
	}
	assert_int_equal(more.end_capture(stream, &graph), ILLEGAL_STATE);
	assert_int_equal(more.begin_capture(NULL, MODE_GLOBAL), CAPTURE_UNSUPPORTED);
	assert_success(cu->event_destroy(event));
	assert_success(cu->event_destroy(captured));
}

SCENE(capture_asks_for_all_branches_and_spares_the_relaxed)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const event = new_event(0);
	unsigned mode = MODE_RELAXED;
	cuda_address memory;
	void *graph;

	assert_success(more.begin_capture(stream, MODE_GLOBAL));
	assert_success(more.exchange_mode(&mode));
	assert_int_equal(mode, MODE_GLOBAL);
	assert_success(cu->mem_alloc(&memory, 8));
	assert_success(cu->mem_free(memory));
	assert_success(cu->stream_synchronize(second));
	assert_success(more.exchange_mode(&mode));
	assert_success(cu->event_record(event, stream));
	assert_success(cu->stream_wait_event(second, event, 0));
	assert_int_equal(more.end_capture(stream, &graph), CAPTURE_UNJOINED);
	assert_success(more.begin_capture((struct CUstream_st *)2,
					  MODE_THREAD_LOCAL)); /* a blocking one */
	assert_int_equal(cu->stream_is_capturing(NULL, &mode), CAPTURE_IMPLICIT);
	assert_success(more.end_capture((struct CUstream_st *)2, &graph));
	assert_success(more.destroy_graph(graph));
	assert_success(cu->event_destroy(event));
	assert_success(cu->stream_destroy(second));
}
