/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns which of several faults counts. */
#include <string.h>

#include "failure.h"
#include "transport.h"

/* What a rank says of itself explains more than what others find about it; that something did
 * not come explains least, as all else may be its cause. */
static int class_of(int32_t result)
{
	switch (result) {
	case TUTTI_ERR_ABORTED: return 0;
	case TUTTI_ERR_MISMATCH: return 2;
	case TUTTI_ERR_PEER_LOST: return 3;
	case TUTTI_ERR_TIMEOUT: return 4;
	default: return 1; /* memory, the system, what is not supported */
	}
}

bool tt_fault_before(const struct tt_fault *a, const struct tt_fault *b)
{
	const int a_class = class_of(a->result), b_class = class_of(b->result);
	/* none comes last: 0 - 1 is the largest */
	const uint64_t a_seq = a->seq - 1, b_seq = b->seq - 1;
	const uint32_t a_rank = (uint32_t)a->rank, b_rank = (uint32_t)b->rank;

	if (a_class != b_class)
		return a_class < b_class;
	/* the others of a chain miss their deadlines because of its end */
	if (a->chain != b->chain)
		return a->chain > b->chain;
	if (a_seq != b_seq)
		return a_seq < b_seq;
	if (a_rank != b_rank)
		return a_rank < b_rank;
	if (a->result != b->result)
		return a->result > b->result;
	return strncmp(a->text, b->text, sizeof(a->text)) < 0;
}

bool tt_fault_check(struct tt_fault *fault, int size)
{
	tt_failure_text(fault->text, sizeof(fault->text), fault->text, sizeof(fault->text));
	return tt_failure_is_known(fault->result) && fault->rank >= -1 && fault->rank < size;
}
