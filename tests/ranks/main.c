/* SPDX-License-Identifier: BSD-3-Clause */
/* Of claims about ranks that reach each other in one way: test_NAME WAY [CLAIMS], a pattern of their names. */
#include "tests.h"
#include "harness.h"

int main(int argc, char **argv)
{
	if (choose_transport(argc == 3 ? 2 : argc, argv))
		return 2;
	if (argc == 3)
		cmocka_set_test_filter(argv[2]);
	return run_claims(NULL, NULL);
}
