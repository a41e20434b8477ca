/* SPDX-License-Identifier: BSD-3-Clause */
/* Of test programs that have no main() of their own. */
#include "tests.h"

int main(void)
{
	return run_claims(NULL, NULL);
}
