/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about the costs of the algorithm that is the state. */
#ifndef TEST_SCHEDULES_COSTS_H
#define TEST_SCHEDULES_COSTS_H

void cost_is_that_of_the_busiest_of_all_ranks(void **state);
void network_carries_what_the_cost_says_of_all_ranks(void **state);

#endif
