/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on TCP over the loopback interface. */
#include "tcp.h"
#include "transport_suite.h"

/* Rank 3 is no neighbour of rank 0, and comes when that has joined and its program has aborted. The others
 * wait for rank 3 then, which learns of it by whom it joins. */
SUITE_CLAIM(abort_of_one_that_has_joined_fails_no_other_join, 6, SUITE_UNMET)
{
	const struct tt_fault fault = { .result = TUTTI_ERR_ABORTED, .text = "rank 0 aborted" };

	suite_open(rank);
	if (rank->rank == 3)
		suite_await(rank, SUITE_EVENT, 1);
	suite_join(rank);
	if (rank->rank == 0) {
		rank->ops->control->revoke(rank->endpoint, &fault);
		suite_post(rank, SUITE_EVENT);
	}
	while (!rank->endpoint->fault.result) {
		suite_at(rank, "waiting to be told that rank 0 has aborted");
		rank->ops->progress(rank->endpoint, true);
	}
	suite_require(rank, rank->endpoint->fault.result == TUTTI_ERR_ABORTED,
		      "told %d, expected an abort: %s", (int)rank->endpoint->fault.result,
		      rank->endpoint->fault.text);
	suite_barrier(rank);
}

int main(void)
{
	const struct suite_options options = { .threads = true,
					       .processes = true,
					       .locates = true };

	return transport_suite_run(&tt_transport_tcp, &options);
}
