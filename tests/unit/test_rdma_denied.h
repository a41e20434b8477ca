/* SPDX-License-Identifier: BSD-3-Clause */
/* Denies the calling process userfaultfd(2) and /dev/userfaultfd for good, as Docker does. */
#ifndef TEST_RDMA_DENIED_H
#define TEST_RDMA_DENIED_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NEW_DESCRIPTOR 0xaa00 /* USERFAULTFD_IOC_NEW, which older headers lack */

static inline bool deny_userfaultfd(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data,
				  args[1])), /* the lower half, where bytes are in that order */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NEW_DESCRIPTOR, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#endif
