/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that meets the others in the store of its launcher. */
#include "meet.h"

int main(void)
{
	const int status = meet();

	if (status == 0)
		printf("met %s\n", getenv("TUTTI_SIZE"));
	return status;
}
