/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the pretence of a kernel that refuses calls, for this process and what it starts, for good. */
#ifndef TT_TESTS_REFUSE_CALLS_H
#define TT_TESTS_REFUSE_CALLS_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

struct refused_call {
	unsigned number;
	unsigned
		second; /* argument, of which the lower half counts, where bytes are in that order; 0: any */
};

/* They fail with `error`. False with errno. */
static inline bool refuse_calls(int error, const struct refused_call *calls, int n)
{
	enum { STEPS = 5, CALLS_MAX = 4 };
	struct sock_filter steps[STEPS * CALLS_MAX + 1];
	struct sock_fprog program = { 0, steps };

	for (int i = 0; i < n && i < CALLS_MAX; i++) {
		const unsigned char other = calls[i].second ? 3 : 1; /* steps to the next call's */

		steps[program.len++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
		steps[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								    calls[i].number, 0, other);
		if (calls[i].second) {
			steps[program.len++] = (struct sock_filter)BPF_STMT(
				BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]));
			steps[program.len++] = (struct sock_filter)BPF_JUMP(
				BPF_JMP | BPF_JEQ | BPF_K, calls[i].second, 0, 1);
		}
		steps[program.len++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
	}
	steps[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As a kernel before 5.3: descriptors of processes are not implemented. */
static inline bool refuse_pidfds(void)
{
	const struct refused_call calls[] = { { SYS_pidfd_open, 0 }, { SYS_pidfd_send_signal, 0 } };

	return refuse_calls(ENOSYS, calls, 2);
}

#endif
