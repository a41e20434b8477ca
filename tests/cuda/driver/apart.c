/* SPDX-License-Identifier: BSD-3-Clause */
/* With STANDIN_APART what the host does to memory of the GPU faults, what streams do is done. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "scene.h"

int be_apart(void)
{
	uint64_t here = 0;
	int pipes[2];

	open_driver();
	assert_success(cu->primary_retain(&context, 0));
	assert_success(cu->context_push(context));
	stream = new_stream();
	words = new_words();
	store(stream, words + 3, 33);
	wait_for(stream, words + 3, 33);
	assert_success(cu->mem_copy(address_of(&here), address_of(words + 3), 8, stream));
	synchronize();
	if (pipe2(pipes, O_CLOEXEC) || write(pipes[1], words, 8) != -1 || errno != EFAULT)
		return 2;
	return here == 33 ? 0 : 3;
}
