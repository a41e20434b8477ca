/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <stdio.h>
#include <string.h>

#define CELL 13

static void print_cell(const struct verdict *v)
{
	char text[32] = "";

	if (!v || v->outcome == OUTCOME_NONE)
		snprintf(text, sizeof(text), ".");
	else if (v->outcome == OUTCOME_FAILED)
		snprintf(text, sizeof(text), "FAILED");
	else if (!v->timed)
		snprintf(text, sizeof(text), "ok");
	else
		snprintf(text, sizeof(text), "ok %.2f/%.2f", v->median, v->most);
	printf(" %-*s", CELL, text);
}

static bool same_row(const struct fault_case *a, const struct fault_case *b)
{
	return a->fault == b->fault && a->phase == b->phase && a->transport == b->transport;
}

static void print_row(const struct fault_case *row, const struct fault_case *cases,
		      const struct verdict *verdicts, size_t count)
{
	const struct verdict *cells[VICTIM_COUNT] = { NULL };
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (!same_row(&cases[i], row) || verdicts[i].outcome == OUTCOME_NONE)
			continue;
		cells[cases[i].victim] = &verdicts[i];
		any = true;
	}
	if (!any)
		return;
	printf("%-12s%-16s%-6s", axis_name(0, row->fault), axis_name(1, row->phase),
	       axis_name(2, row->transport));
	for (int victim = 0; victim < VICTIM_COUNT; victim++)
		print_cell(cells[victim]);
	printf("\n");
}

void table_print(const struct fault_case *cases, const struct verdict *verdicts, size_t count)
{
	struct fault_case row = { 0 };

	printf("%-34s victim:\n%-12s%-16s%-6s", "", "fault", "phase", "over");
	for (int victim = 0; victim < VICTIM_COUNT; victim++)
		printf(" %-*s", CELL, axis_name(3, victim));
	printf("\n");
	for (row.fault = 0; row.fault < FAULT_COUNT; row.fault++)
		for (row.phase = 0; row.phase < PHASE_COUNT; row.phase++)
			for (row.transport = 0; row.transport < TRANSPORT_COUNT; row.transport++)
				print_row(&row, cases, verdicts, count);
	printf("ok MEDIAN/MAX: seconds, over the survivors, from the fault to the error, in shrink-… and grow-… to a communicator "
	       "without the lost; ok alone: no call failed, and none had to; .: not asked for\n"
	       "two: either of the two may be blamed, by all the same one; closed: either end of a connection that ended "
	       "between two that live; stop, mixed: a rank that itself waits for it, if all have called\n");
}
