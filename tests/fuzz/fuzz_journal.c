/* SPDX-License-Identifier: BSD-3-Clause */
/* A journal of a parameter server, read to be replayed. */
#include "async/journal.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct journal journal = { 0 };
	struct why why = { "" };

	if (journal_parse("fuzz-journal", (const char *)data, size, &journal, &why) == TUTTI_OK) {
		FUZZ_PROMISE(journal.head.servers >= 1 && journal.head.servers <= SERVERS_MAX);
		FUZZ_PROMISE(journal.head.server < journal.head.servers &&
			     journal.head.workers >= 1);
		FUZZ_PROMISE(journal.epochs == 0
				     ? journal.count == 0
				     : journal.ends[journal.epochs - 1] == journal.count);
	} else {
		FUZZ_PROMISE(why.text[0] && !journal.entries && !journal.ends);
	}
	journal_finish(&journal);
	return 0;
}
