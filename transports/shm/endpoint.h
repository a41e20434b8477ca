/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's part of the shared-memory transport on one rank. */
#ifndef TT_SHM_ENDPOINT_H
#define TT_SHM_ENDPOINT_H

#include "arena.h"
#include "machine.h"
#include "transport.h"

/* What a rank sends its peers, who do not trust it: any bytes of this size are an address. */
struct shm_address {
	struct tt_machine machine; /* who may pass descriptors: abstract sockets and process
				    * numbers need the namespaces */
	uint64_t socket; /* names the abstract unix socket where the arena is handed out; random */
};
static_assert(sizeof(struct shm_address) <= TT_ADDRESS_MAX, "an address fits");

/* What a rank knows of another one on its host (and of itself). */
struct shm_local_peer {
	int rank;
	bool died;		   /* or left, or executes another program */
	struct shm_heap_map *heap; /* what is mapped of it; NULL: nothing yet */
	uint64_t heard;		   /* of its notes */
};

struct shm_endpoint {
	struct tt_endpoint base;
	struct tt_endpoint_config config;
	struct shm_address address;
	int listen_fd;
	const struct tt_peer *peers;
	struct shm_arena arena; /* base NULL until joined, and where no peer shares memory */
	struct shm_local_peer *local_peers; /* [arena.members], by local order */
	int me;				    /* this rank's place in it */
	int *local_peer_of;		    /* [size] rank -> place, -1 elsewhere */
	uint8_t *shared;
	size_t shared_bytes;
	int armed;	   /* threads of this rank that sleep or are about to … */
	int called;	   /* … of these, those that armed before … */
	uint32_t armed_at; /* … the header's `wake` had come to this: the bell rings for them */
	_Atomic bool sleeps_on_fd; /* it has been asked for one; threads ask without the lock */
	bool whole; /* the host's ranks are the whole communicator: the first fault is that of
		     * all, and nobody sleeps on descriptors */
	int bell; /* all ranks' of the host: rung for those that sleep on descriptors; -1 if whole */
	int waiting; /* this rank's epoll of it; -1 if whole */
	int alarm;   /* all ranks' of the host: rung for faults; -1 if whole */
};

static inline struct shm_endpoint *shm_endpoint_of(struct tt_endpoint *endpoint)
{
	return (struct shm_endpoint *)endpoint;
}

/* Ranks may be threads of one process. */
static inline bool shm_is_here(const struct shm_endpoint *ep, int place)
{
	return ep->peers[ep->local_peers[place].rank].process == ep->peers[ep->config.rank].process;
}

/* join.c: meet the ranks of this host. */
tutti_result_t shm_join(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
			uint64_t deadline);
tutti_result_t shm_listen(struct shm_endpoint *ep);

/* link.c */
tutti_result_t shm_connect(struct tt_endpoint *endpoint, int peer, enum tt_channel channel,
			   struct tt_link **out);
ssize_t shm_write(struct tt_link *link, const struct iovec *iov, int n);
ssize_t shm_read(struct tt_link *link, const struct iovec *iov, int n);
ssize_t shm_peek(struct tt_link *link, size_t want, size_t limit, const void **data);
void shm_release(struct tt_link *link, size_t bytes);
bool shm_ready(const struct tt_link *link);
void shm_close(struct tt_link *link);

/* deaths.c: once the rank has joined. */
/* Dead processes: sets the endpoint's fault. */
void shm_check_deaths(struct shm_endpoint *ep);
/* Of a rank whose process has ended: tells all, unless it had left, which is no fault. True: there
 * is a fault now. */
bool shm_report_death(struct shm_endpoint *ep, int place);
/* Has the rank's process ended, as far as can be known now? Has the rank left, in order? */
bool shm_died(struct shm_endpoint *ep, int place);
bool shm_left(const struct shm_endpoint *ep, int place);

/* heaps.c */
/* Once the arena is mapped: where the own one is; can that of another, who has told, be opened? */
void shm_heap_tell(struct shm_endpoint *ep);
void shm_heap_try(struct shm_endpoint *ep, int place);
bool shm_export_memory(struct tt_endpoint *endpoint, const void *pointer, size_t bytes,
		       uint64_t *token);
void shm_heap_unmap(struct shm_local_peer *local_peer);
void *shm_import_memory(struct tt_endpoint *endpoint, int peer, uint64_t token, size_t bytes);
bool shm_grants_writes(struct tt_endpoint *endpoint, const void *pointer, size_t bytes);

/* faults.c */
void shm_take_faults(struct shm_endpoint *ep);
void shm_revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault);
int shm_control_fd(const struct tt_endpoint *endpoint);

/* notes.c */
void shm_send_note(struct tt_endpoint *endpoint, const void *note);
bool shm_receive_note(struct tt_endpoint *endpoint, void *note);

/* sleep.c */
tutti_result_t shm_bell_open(struct shm_endpoint *ep);
void shm_ring(int event_fd); /* -1 is fine */
void shm_wake(struct tt_endpoint *endpoint);
void shm_arm(struct tt_endpoint *endpoint);
void shm_disarm(struct tt_endpoint *endpoint);
int shm_fd(struct tt_endpoint *endpoint);
void shm_sleep(struct tt_endpoint *endpoint, int timeout_ms);
void shm_interrupt(struct tt_endpoint *endpoint);

#endif
