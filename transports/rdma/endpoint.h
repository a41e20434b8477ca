/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this directory share. All of it is under the communicator's lock but for the descriptors that sleep() uses,
 * which never change.
 *
 * An endpoint wraps one of TCP, which meets the others, carries faults and notes, and notices who is gone. A data link is a TCP
 * link first: over it both ends tell of their queue pairs (greeting.c). Then bytes go by RDMA WRITE with immediate into the
 * peer's ring (ring.c), and the TCP link stays, silent, as it ends when the peer does. Where one end has no queue pair to offer, the TCP
 * link carries the bytes.
 *
 * A ring: the sender copies into its own one and writes from there to the same place of the peer's. What the reader has taken is
 * written back now and then (struct rdma_credit), so neither bytes nor receive requests ever run out at the other end. */
#ifndef TT_RDMA_ENDPOINT_H
#define TT_RDMA_ENDPOINT_H

#include "adapter.h"
#include "card.h"
#include "device.h"
#include "environment.h"
#include "hello.h"
#include "log.h"
#include "transport.h"

#define RDMA_RING_BYTES	 ((size_t)256 << 10)
#define RDMA_SLACK_BYTES 4096 /* behind the ring: what a peek wants beyond its end */
#define RDMA_PIECE_BYTES (RDMA_RING_BYTES / 4)
#define RDMA_MESSAGES	 64 /* written and not yet taken note of by the peer, at most */
#define RDMA_CREDITS	 16 /* room for the messages that carry credit */
#define RDMA_RECEIVES	 (RDMA_MESSAGES + RDMA_CREDITS)
#define RDMA_SENDS	 (RDMA_MESSAGES + RDMA_CREDITS)
#define RDMA_SIGNAL	 16 /* every so manieth send tells that it and those before it are done */
/* What a request is called: its link's id, and of sends that bit and the number of the send, of 31 bits. */
#define RDMA_SENT	 (1ull << 63)
#define RDMA_SENDS_MASK	 0x7fffffffu
#define RDMA_LINGER_MS	 1000 /* how long what was sent may take to arrive once its link is closed */

/* One port, and where the completions of all links through it come. */
struct rdma_rail {
	const struct rdma_port *port;
	struct rdma_adapter *adapter;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	enum ibv_mtu mtu;
};

/* What a reader tells of its ring, in the writer's memory: numbers that only grow. */
struct rdma_credit {
	uint64_t bytes;	   /* taken out */
	uint64_t messages; /* whose receive requests have been posted anew */
};

/* Registered, one for each link. */
struct rdma_memory {
	uint8_t in[RDMA_RING_BYTES + RDMA_SLACK_BYTES];
	uint8_t out[RDMA_RING_BYTES];
	struct rdma_credit theirs; /* written by the peer */
	struct rdma_credit ours;   /* as it is sent */
};

enum rdma_state {
	RDMA_GREETING, /* hellos are on their way */
	RDMA_AGREEING, /* the queue pair is ready, or not: that is on its way */
	RDMA_PROVING,  /* an empty write has arrived at the peer, or not: likewise */
	RDMA_UP,
	RDMA_BY_TCP,
	RDMA_FAILED,
};

enum rdma_verdict { RDMA_UNDECIDED, RDMA_NO, RDMA_YES };

struct rdma_link {
	struct tt_link base;
	struct tt_link *tcp;
	enum tt_lane lane;
	enum rdma_state state;
	uint32_t id; /* its place in the endpoint's links */
	struct rdma_rail *rail;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct rdma_memory *memory;
	uint32_t inline_bytes; /* that a send may carry itself */

	uint8_t hello[RDMA_HELLO_BYTES], answer[RDMA_HELLO_BYTES]; /* ours, theirs */
	size_t told, heard;					   /* bytes of those, or of the verdicts that follow */
	uint8_t verdict; /* enum rdma_verdict, of the state */
	uint64_t prove_until; /* when it is no, if nothing else has decided it */
	struct rdma_hello mine, peer;

	uint64_t written, messages;    /* bytes and messages so far */
	uint32_t sends, sends_done;    /* requests posted, and those known to be done: numbers of 31 bits */
	uint64_t arrived, taken;       /* bytes that came, and that were read */
	uint64_t receives;	       /* requests used and posted anew */
	uint32_t to_post;	       /* used, not yet posted anew */
	struct rdma_credit told_credit; /* what the peer was told last */

	bool peer_ended;    /* its TCP link has */
	bool closed;	    /* by the runtime: to be freed when all it sent is there */
	bool asked;	    /* for word of the last send */
	char why[384];	    /* failed */
};

struct rdma_endpoint {
	struct tt_endpoint base;
	struct tt_endpoint *tcp;
	int rank, size;
	double silence_s; /* what is not answered for so long is lost */
	struct rdma_settings settings;
	struct rdma_port ports[RDMA_PORTS_MAX];
	int nports;
	struct rdma_rail rails[RDMA_PORTS_MAX];
	struct tt_peer *peers; /* as TCP is told of them */
	const struct tt_peer *known;
	struct rdma_link **links; /* by id; NULL: gone */
	uint32_t nlinks, links_room;
	int greeting; /* links that are not up yet */
	int closing;  /* links that the runtime has closed, and that still send */
	int waiter;   /* epoll: what TCP sleeps on, and the rails' channels */
};

static inline struct rdma_endpoint *rdma_endpoint_of(struct tt_endpoint *base)
{
	return (struct rdma_endpoint *)base;
}

static inline struct rdma_endpoint *rdma_endpoint_of_link(const struct rdma_link *link)
{
	return rdma_endpoint_of(link->base.endpoint);
}

/* queue.c: devices, completions, queue pairs. */
tutti_result_t tt_rdma_rails_open(struct rdma_endpoint *e);
void tt_rdma_rails_close(struct rdma_endpoint *e);
tutti_result_t tt_rdma_queue_open(struct rdma_link *link);
void tt_rdma_queue_close(struct rdma_link *link);
/* Ready to send to and to receive from the queue pair that the peer's hello tells of. */
tutti_result_t tt_rdma_queue_connect(struct rdma_link *link);
/* Take note of what has completed on all rails. */
void tt_rdma_poll(struct rdma_endpoint *e);

/* greeting.c */
bool tt_rdma_greets(const struct rdma_link *link);
void tt_rdma_greet(struct rdma_link *link);
void tt_rdma_greeting_step(struct rdma_link *link);
/* The empty write did not arrive. */
void tt_rdma_greeting_disproved(struct rdma_link *link, const char *why);

/* ring.c: the bytes of a link that is up. */
size_t tt_rdma_ring_write(struct rdma_link *link, const struct iovec *iov, int n);
size_t tt_rdma_ring_read(struct rdma_link *link, const struct iovec *iov, int n);
size_t tt_rdma_ring_peek(struct rdma_link *link, size_t want, const void **data);
void tt_rdma_ring_release(struct rdma_link *link, size_t bytes);
/* A message has come; its immediate data. */
void tt_rdma_ring_arrived(struct rdma_link *link, uint32_t immediate);
tutti_result_t tt_rdma_ring_begin(struct rdma_link *link);
/* Has all that was sent arrived at the peer? If nothing else will tell, asks for word of it by an empty write. */
bool tt_rdma_ring_is_drained(struct rdma_link *link);
/* The empty write alone; false: not now. */
bool tt_rdma_ring_ask(struct rdma_link *link);

/* link.c */
void tt_rdma_link_fail(struct rdma_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
tutti_result_t tt_rdma_link_connect(struct tt_endpoint *base, int peer, enum tt_lane lane, struct tt_link **out);
ssize_t tt_rdma_link_write(struct tt_link *base, const struct iovec *iov, int n);
ssize_t tt_rdma_link_read(struct tt_link *base, const struct iovec *iov, int n);
ssize_t tt_rdma_link_peek(struct tt_link *base, size_t want, size_t limit, const void **data);
void tt_rdma_link_release(struct tt_link *base, size_t bytes);
bool tt_rdma_link_ready(const struct tt_link *base);
void tt_rdma_link_close(struct tt_link *base);
/* Has the peer gone? Also makes sure that threads that sleep learn of it. */
void tt_rdma_link_probe(struct rdma_link *link);
/* All links: greet on, free those that are closed and done; thorough: see whose peer has gone. */
void tt_rdma_links_step(struct rdma_endpoint *e, bool thorough);
/* The runtime has closed all: wait for what was sent, not for long. */
void tt_rdma_links_end(struct rdma_endpoint *e);

/* endpoint.c: what a rank's address says. `tcp` (or NULL): the peer as its TCP endpoint is to be told of it. */
bool tt_rdma_address_read(const struct tt_peer *peer, struct tt_peer *tcp, struct rdma_port *ports, int *n);
/* Through which ports of theirs two ranks reach each other; gives how many pairs. */
int tt_rdma_pairs(const struct tt_peer *a, const struct tt_peer *b, int pairs[RDMA_PORTS_MAX][2]);

/* wait.c */
tutti_result_t tt_rdma_wait_open(struct rdma_endpoint *e);
void tt_rdma_arm(struct tt_endpoint *base);
void tt_rdma_disarm(struct tt_endpoint *base);
int tt_rdma_fd(const struct tt_endpoint *base);
void tt_rdma_sleep(struct tt_endpoint *base, int timeout_ms);
void tt_rdma_interrupt(struct tt_endpoint *base);

#endif
