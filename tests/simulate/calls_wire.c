/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes on their way: not for what becomes of them, but as a sign that ranks do not look in
 * vain. */
#include "calls.h"
#include "machine.h"
#include "pipe.h"

size_t __real_tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most,
			       uint64_t time);
size_t __real_tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most);
void __real_tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes);

size_t __wrap_tt_loop_pipe_put(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most,
			       uint64_t time)
{
	machine_stir();
	return __real_tt_loop_pipe_put(pipe, iov, n, most, time);
}

size_t __wrap_tt_loop_pipe_get(struct loop_pipe *pipe, const struct iovec *iov, int n, size_t most)
{
	machine_stir();
	return __real_tt_loop_pipe_get(pipe, iov, n, most);
}

void __wrap_tt_loop_pipe_drop(struct loop_pipe *pipe, size_t bytes)
{
	machine_stir();
	__real_tt_loop_pipe_drop(pipe, bytes);
}
