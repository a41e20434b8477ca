/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages by which a host's ranks meet over shared memory, descriptors beside them. The
 * input is a list of them, descriptors:1 length:2 bytes. */
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fd_message.h"
#include "fuzz.h"
#include "log.h"

enum { MEMBERS = 4, DESCRIPTORS_MOST = 14 };

static void send_one(int fd, int enclosed, size_t descriptors, const uint8_t *bytes, size_t length)
{
	struct tt_unix_descriptors all = { .n = descriptors };

	for (size_t i = 0; i < descriptors; i++)
		all.fd[i] = enclosed;
	tt_unix_send(fd, bytes, length, &all, 0);
}

static void hear_all(int fd, struct shm_endpoint *ep)
{
	struct shm_fd_message fd_message;
	tutti_result_t result;

	while ((result = shm_receive(ep, fd, 1, &fd_message, UINT64_MAX)) != TUTTI_ERR_TIMEOUT) {
		if (result) {
			FUZZ_PROMISE(tt_thread_error()[0]);
			break;
		}
		FUZZ_PROMISE(fd_message.place > SHM_GIVEN_UP && fd_message.place < MEMBERS);
		FUZZ_PROMISE(fd_message.fds.n ==
			     (fd_message.place == SHM_ARENA ? SHM_DESCRIPTORS : 0));
		tt_unix_descriptors_close(&fd_message.fds);
	}
}

FUZZ(shm_fd_message)
{
	struct shm_endpoint ep = { .config = { .comm_id = 1 }, .arena = { .members = MEMBERS } };
	const int before = fuzz_descriptors(), enclosed = eventfd(0, EFD_CLOEXEC);
	struct fuzz_in in = { data, size };
	uint8_t head[3];
	int ends[2];

	FUZZ_PROMISE(enclosed >= 0 &&
		     socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	while (fuzz_take(&in, head, sizeof(head)) == sizeof(head)) {
		const struct fuzz_in bytes = fuzz_cut(&in, head[1] + 256u * head[2]);

		send_one(ends[0], enclosed, head[0] % (DESCRIPTORS_MOST + 1), bytes.at, bytes.left);
	}
	close(ends[0]); /* what was sent is read, then the end: nothing is waited for */
	hear_all(ends[1], &ep);
	close(ends[1]);
	close(enclosed);
	FUZZ_PROMISE(fuzz_descriptors() == before);
}
