/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks that ranks take as they are ready for them: a counter in rank 0's memory says which is next,
 * and each result is put there. Rank 0 calls nothing for others to do so. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tutti/window.h>

enum { TASKS = 200, DONE = 0 };

/* What all see of rank 0. */
struct board {
	uint64_t next; /* task that nobody has taken yet */
	double result[TASKS];
};

/* The sum of 1/k² up to the number of the task: some tasks take longer. */
static double compute(uint64_t task)
{
	double sum = 0;

	for (uint64_t k = 1; k <= task * 1000; k++)
		sum += 1.0 / ((double)k * (double)k);
	return sum;
}

/* Returns how many tasks this rank had, or the error of the call that failed. */
static int work(tutti_window_t window)
{
	int had = 0;

	for (;;) {
		uint64_t task;
		tutti_result_t result =
			tutti_fetch_add(window, 0, offsetof(struct board, next), 1, &task, NULL);

		if (result != TUTTI_OK || task >= TASKS)
			return result != TUTTI_OK ? (int)result : had;
		const double value = compute(task);
		result = tutti_put_signal(window, &value, sizeof(value), 0,
					  offsetof(struct board, result) + task * sizeof(value),
					  DONE, 1, NULL);
		if (result != TUTTI_OK)
			return (int)result;
		had++;
	}
}

static int count_wrong(const struct board *board)
{
	int wrong = 0;

	for (uint64_t task = 0; task < TASKS; task++)
		wrong += board->result[task] != compute(task);
	return wrong;
}

int main(void)
{
	tutti_comm_t comm;
	tutti_window_t window = NULL;
	void *board = NULL;
	int had = 0, wrong = 0;
	tutti_result_t result = tutti_init(NULL, &comm);
	const int rank = result == TUTTI_OK ? tutti_comm_rank(comm) : -1;

	/* ranks of one host write to memory of tutti_mem_alloc() themselves; any other will do as
	 * well */
	if (result == TUTTI_OK)
		result = tutti_mem_alloc(sizeof(struct board), &board);
	if (result == TUTTI_OK)
		memset(board, 0, sizeof(struct board));
	if (result == TUTTI_OK)
		result = tutti_window_create(comm, board, rank == 0 ? sizeof(struct board) : 0, 1,
					     &window);
	if (result == TUTTI_OK)
		had = work(window);
	if (had < 0)
		result = (tutti_result_t)had;
	if (result == TUTTI_OK && rank == 0)
		result = tutti_wait_signal(window, DONE, TASKS, NULL, NULL);
	if (result == TUTTI_OK && rank == 0)
		wrong = count_wrong(board);
	if (result == TUTTI_OK)
		result = tutti_window_destroy(window);
	if (result == TUTTI_OK)
		printf("rank %d of %d had %d of %d tasks, %d wrong\n", rank, tutti_comm_size(comm),
		       had, TASKS, wrong);
	else
		fprintf(stderr, "tasks: %s\n", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	tutti_mem_free(board);
	return result == TUTTI_OK && wrong == 0 && fflush(stdout) == 0 ? 0 : 1;
}
