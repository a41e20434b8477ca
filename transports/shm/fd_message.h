/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages by which a host's ranks meet, over connections that keep their bounds. Functions
 * that may wait do so until `deadline`; `rank` is at the other end, for the error message if it
 * is gone: TUTTI_ERR_PEER_LOST. */
#ifndef TT_SHM_FD_MESSAGE_H
#define TT_SHM_FD_MESSAGE_H

#include "endpoint.h"
#include "unix_socket.h"

/* What a message is about: the sender, by its place on the host, or one of these. */
enum { SHM_ARENA = -1, SHM_MAPPED = -2, SHM_ALL_JOINED = -3, SHM_GIVEN_UP = -4 };

/* The descriptors beside SHM_ARENA; all but the first only where there are ranks elsewhere, too. */
enum { SHM_MEMORY, SHM_BELL, SHM_ALARM, SHM_DESCRIPTORS };

/* Ranks that wait look this often whether there is hope. */
#define SHM_HOPE_MS 50
/* TUTTI_OK: as far as is known by other ways than these messages, all may still join. */
tutti_result_t shm_check_elsewhere(const struct shm_endpoint *ep);
/* Milliseconds to wait, at most. */
int shm_wait_ms(const struct shm_endpoint *ep, uint64_t now, uint64_t deadline);
/* Does the errno value say that nobody is at the other end? */
bool shm_is_gone(int error);
/* -1: somebody who has not said which rank it is. */
tutti_result_t shm_fail_gone(int rank);

tutti_result_t shm_send_arena(const struct shm_endpoint *ep, int socket, int rank,
			      uint64_t deadline);
/* A word, or this rank's place. It fits the socket's buffer; who does not read is not waited
 * for. */
tutti_result_t shm_send_word(const struct shm_endpoint *ep, int socket, int word, int rank);
/* Tell why this rank gives up: for what it met with itself, or for what it was told. Leaves the
 * thread's error message. */
void shm_send_why(const struct shm_endpoint *ep, int socket, tutti_result_t why, int rank);

/* The next message: what it is about, and the descriptors that came with it, which are the caller's.
 * One that gives up is a failure, with its result and error message. */
struct shm_fd_message {
	int place;
	struct tt_unix_descriptors fds;
};
tutti_result_t shm_receive(struct shm_endpoint *ep, int socket, int rank,
			   struct shm_fd_message *out, uint64_t deadline);
/* A message that must be `word`. */
tutti_result_t shm_receive_word(struct shm_endpoint *ep, int socket, int rank, int word,
				uint64_t deadline);
/* Of a rank that went away while this one wrote: it may have said why. */
tutti_result_t shm_last_word(struct shm_endpoint *ep, int socket, int rank, uint64_t deadline);

#endif
