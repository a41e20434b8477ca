/* SPDX-License-Identifier: BSD-3-Clause */
/* without_pidfd COMMAND [ARGUMENT...]: run it as a kernel before 5.3 would. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../refuse_calls.h"

int main(int argc, char **argv)
{
	if (argc > 1 && refuse_pidfds())
		execvp(argv[1], argv + 1);
	fprintf(stderr, "without_pidfd: %s\n",
		argc > 1 ? strerror(errno) : "found no command, expected one");
	return 1;
}
