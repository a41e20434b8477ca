/* SPDX-License-Identifier: BSD-3-Clause */
/* What the members of a communicator that grows send each other, and what is believed of it. Same
 * build on all ranks, so plain bytes. */
#ifndef TT_GROW_H
#define TT_GROW_H

#include <stddef.h>
#include <stdint.h>

#include "log.h"

struct tt_grow_question {
	uint64_t id; /* rank 0's is that of the new communicator */
	int64_t newcomers;
};

/* From the coordinator to the others. */
struct tt_grow_decision {
	int32_t result;	 /* TUTTI_IN_PROGRESS: another will follow */
	uint32_t length; /* of the records of all, which follow if it is TUTTI_OK */
	char text[TT_ERROR_MAX];
};

/* all[size] came from the ranks; this one, `rank`, asks for `newcomers`. TUTTI_OK: all ask for as
 * many. */
tutti_result_t tt_grow_read_questions(const struct tt_grow_question *all, int size, int rank,
				      int newcomers);
/* TUTTI_OK: records follow, `most` bytes at most; TUTTI_IN_PROGRESS: another word does; else why
 * nothing came of it. */
tutti_result_t tt_grow_read_decision(const struct tt_grow_decision *word, size_t most);

#endif
