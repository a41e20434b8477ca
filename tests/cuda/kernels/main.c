/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs on GPUs, through the driver: every kernel gives the bits of the host's plain C one,
 * copies copy all and nothing else, and ranks meet, exchange and signal as src/device/cuda/kernels.h
 * says. Where TUTTI_CUDA_LIBRARY names the stand-in, that runs the same source on the host. */
#include "world.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_has_a_kernel),
		cmocka_unit_test(unreadable_kernels_are_named),
		cmocka_unit_test(kernels_that_are_for_other_gpus_or_drivers_are_explained),
		cmocka_unit_test(numbers_combine_like_on_the_host),
		cmocka_unit_test(numbers_scale_like_on_the_host),
		cmocka_unit_test(small_numbers_combine_like_on_the_host),
		cmocka_unit_test(as_many_sources_and_targets_as_there_can_be),
		cmocka_unit_test(long_ones_combine_like_on_the_host),
		cmocka_unit_test(copies_copy_every_byte_and_no_more),
		cmocka_unit_test(what_is_spread_is_everywhere_and_nowhere_else),
		cmocka_unit_test(ranks_meet_between_phases),
		cmocka_unit_test(a_wait_ends_when_the_host_says_so),
		cmocka_unit_test(those_who_called_something_else_do_not_meet),
		cmocka_unit_test(ranks_compare_between_kernels),
		cmocka_unit_test(kernels_that_look_do_nothing_after_the_end),
		cmocka_unit_test(one_block_looks_for_all),
		cmocka_unit_test(exchanged_numbers_combine_like_on_the_host),
		cmocka_unit_test(exchanged_bytes_are_copied),
		cmocka_unit_test(an_exchange_of_other_calls_ends),
		cmocka_unit_test(messages_go_in_chunks),
		cmocka_unit_test(long_messages_wait_for_room),
		cmocka_unit_test(a_message_of_another_kind_is_not_taken),
		cmocka_unit_test(what_was_sent_is_awaited),
	};
	const tutti_result_t result = begin();

	if (result) {
		puts(tutti_last_error(NULL));
		return result == TUTTI_ERR_UNSUPPORTED ? 77 : 1;
	}
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end();
	return failed;
}
