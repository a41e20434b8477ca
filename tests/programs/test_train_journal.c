/* SPDX-License-Identifier: BSD-3-Clause */
/* Journals of tutti-train --sync async as they are read: by a rank that makes the same bits of them. */
#include <string.h>

#include "tests.h"
#include "async/journal.h"

static void refuses(const char *bytes, const char *because)
{
	struct journal journal = { 0 };
	struct why why = { "" };

	assert_int_equal(journal_parse("j", bytes, strlen(bytes), &journal, &why),
			 TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, because));
	assert_null(journal.entries);
}

#define HEAD                                                                                        \
	"{\"journal\":1,\"server\":0,\"servers\":1,\"workers\":2,\"options\":\"00000000000000aa\"," \
	"\"data\":\"00000000000000bb\",\"step\":0}\n"
#define ENTRY(update)                                                                              \
	"{\"update\":" #update                                                                     \
	",\"worker\":1,\"task\":5,\"age\":0,\"seconds\":0.1,\"versions\":[0]}\n"

TEST(journals_are_read_as_far_as_they_are_complete)
{
	static const char bytes[] =
		HEAD ENTRY(1) ENTRY(1) ENTRY(0) ENTRY(2) "{\"epoch\":1}\n" ENTRY(3) "{\"upd";
	struct journal journal = { 0 };
	struct why why = { "" };

	assert_int_equal(journal_parse("j", bytes, sizeof(bytes) - 1, &journal, &why), TUTTI_OK);
	assert_int_equal(journal.epochs, 1);
	assert_int_equal(journal.count, 4);
	assert_int_equal(journal.entries[3].update, 2);
	assert_int_equal(journal.head.workers, 2);
	assert_int_equal(journal.head.options, 0xaa);
	journal_finish(&journal);
	refuses("", "found no line");
	refuses("{\"journal\":2}\n",
		"line 1: found no \"journal\" that is a whole number from 1 to 1");
	refuses("[1]\n", "line 1: found no JSON object");
	refuses(HEAD ENTRY(1) ENTRY(3), "line 3: its update is neither");
	refuses(HEAD ENTRY(-1), "line 2: found no \"update\" that is a whole number from 0");
	refuses(HEAD "{\"update\":1}\n", "line 2: found no \"worker\"");
	refuses(HEAD "{\"update\":1,\"worker\":0,\"task\":0,\"age\":0,\"versions\":[0,0]}\n",
		"found no \"versions\" that is a list of one number for each server");
}
