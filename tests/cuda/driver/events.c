/* SPDX-License-Identifier: BSD-3-Clause */
/* Events. */
#include <fcntl.h>

#include "claims.h"
#include "scene.h"

static void an_event_says_when_its_last_record_is_done(void **state)
{
	struct CUevent_st *const event = new_event(0), *const second = new_event(0);
	float milliseconds = -1;

	assert_success(cu->event_query(event)); /* never recorded */
	assert_success(cu->event_record(event, stream));
	assert_success(more.event_synchronize(event));
	assert_success(cu->event_query(event));
	wait_for(stream, words, 1);
	assert_success(cu->event_record(second, stream));
	assert_int_equal(cu->event_query(second), CUDA_NOT_READY);
	assert_int_equal(more.elapsed(&milliseconds, event, second), CUDA_NOT_READY);
	write_word(words, 1);
	assert_success(more.event_synchronize(second));
	assert_success(more.elapsed(&milliseconds, event, second));
	assert_true(milliseconds >= 0 && milliseconds < 60000);
	assert_success(cu->event_destroy(event));
	assert_success(cu->event_destroy(second));
	assert_int_equal(cu->event_destroy(second), INVALID_HANDLE);
}

static void a_stream_waits_for_the_record_that_there_was(void **state)
{
	struct CUstream_st *const second = new_stream();
	struct CUevent_st *const event = new_event(CUDA_EVENT_NO_TIMING);

	assert_success(cu->stream_wait_event(second, event, 0)); /* never recorded: passes */
	assert_success(cu->stream_synchronize(second));
	wait_for(stream, words, 1);
	assert_success(cu->event_record(event, stream));
	assert_success(cu->stream_wait_event(second, event, 0));
	store(second, words + 2, 3);
	wait_for(stream, words + 1, 1);
	assert_success(cu->event_record(event, stream)); /* no longer what `second` waits for */
	assert_int_equal(cu->stream_query(second), CUDA_NOT_READY);
	assert_int_equal(read_word(words + 2), 0);
	write_word(words, 1);
	assert_success(cu->stream_synchronize(second));
	assert_int_equal(read_word(words + 2), 3);
	assert_int_equal(cu->event_query(event), CUDA_NOT_READY);
	assert_success(cu->event_destroy(event)); /* its record goes on */
	write_word(words + 1, 1);
	assert_success(cu->stream_destroy(second));
}

int claims_on_events(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_event_says_when_its_last_record_is_done),
		TEST(a_stream_waits_for_the_record_that_there_was),
	};

	return cmocka_run_group_tests_name("events", tests, open_it, NULL);
}
