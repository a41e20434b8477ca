/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks of a host hand each other descriptors: by sockets, over which they wait until a deadline.
 * A rank that closes its end has failed: TUTTI_ERR_PEER_LOST. */
#ifndef TT_CUDA_DESCRIPTORS_H
#define TT_CUDA_DESCRIPTORS_H

#include "bound.h"
#include "unix_socket.h"

struct tt_cuda_sockets {
	const struct tutti_comm *comm;
	uint64_t process; /* this rank's, as in its offer: who connects has to know it */
	uint64_t deadline;
	int listener;		 /* -1: none */
	int to[TT_CUDA_RANKS];	 /* those that have asked for this rank's; -1: none */
	int from[TT_CUDA_RANKS]; /* those whose it has asked for; -1: none */
};

/* Descriptors, and a number for each: so many are sent. */
struct tt_cuda_descriptors {
	struct tt_unix_descriptors fds;
	uint64_t bytes[TT_UNIX_DESCRIPTORS];
};

/* None yet; the deadline begins. */
void tt_cuda_sockets_begin(struct tt_cuda_sockets *sockets, const struct tutti_comm *comm);
/* Listen where ranks ask for this one's descriptors; the number is for them. */
tutti_result_t tt_cuda_sockets_listen(struct tt_cuda_sockets *sockets, uint64_t *number);
/* Ask `rank`, which listens at `number`, for its descriptors. */
tutti_result_t tt_cuda_sockets_connect(struct tt_cuda_sockets *sockets, int rank, uint64_t number,
				       uint64_t process);
/* That of `rank`, which has asked. */
tutti_result_t tt_cuda_sockets_accept(struct tt_cuda_sockets *sockets, int rank);
/* All of them. Who waits for this rank, also without having been accepted, learns of it. */
void tt_cuda_sockets_close(struct tt_cuda_sockets *sockets);

/* To all that have asked; returns when they have taken them. */
tutti_result_t tt_cuda_descriptors_send(struct tt_cuda_sockets *sockets,
					const struct tt_cuda_descriptors *message);
/* The descriptors are the caller's, also after an error. */
tutti_result_t tt_cuda_descriptors_receive(struct tt_cuda_sockets *sockets, int rank,
					   struct tt_cuda_descriptors *message);
/* Tell it that they were taken. */
tutti_result_t tt_cuda_descriptors_taken(const struct tt_cuda_sockets *sockets, int rank);

#endif
