/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this directory share. All of it is under the communicator's lock but for the
 * descriptors that sleep() uses, which never change.
 *
 * An endpoint wraps one of TCP, which meets the others, carries faults and notes, and notices
 * who is gone. A data link is a TCP link first: over it both ends tell of their queue pairs
 * (handshake.c). Then bytes go by RDMA WRITE with immediate into the peer's ring (ring.c), and
 * the TCP link stays, silent, as it ends when the peer does. Where one end has no queue pair to
 * offer, the TCP link carries the bytes.
 *
 * A link has a path, which is a queue pair, for each pair of ports through which its ends reach
 * each other. Messages are numbered, so that they may take any path, and be sent again over new
 * queue pairs when old ones have failed.
 *
 * A ring: the sender copies into its own one and writes from there to the same place of the
 * peer's. What the reader has taken is written back now and then (struct rdma_credit), so
 * neither bytes nor receive requests ever run out at the other end. A reader of many bytes
 * offers the place that they are for (struct rdma_offer), and the writer's device puts them
 * there straight from where the caller has them (direct.c). */
#ifndef TT_RDMA_ENDPOINT_H
#define TT_RDMA_ENDPOINT_H

#include "adapter.h"
#include "card.h"
#include "device.h"
#include "environment.h"
#include "hello.h"
#include "log.h"
#include "registration.h"
#include "transport.h"

#define RDMA_RING_BYTES	 ((size_t)512 << 10)
#define RDMA_SLACK_BYTES 4096 /* behind the ring: what a peek wants beyond its end */
#define RDMA_CHUNK_BYTES (RDMA_RING_BYTES / 8)
#define RDMA_REST_BYTES                                                                            \
	4096 /* that go with a chunk, as a header does with what it announces, instead of in a
	      * message of their own */
#define RDMA_DIRECT_BYTES                                                                          \
	((size_t)256 << 10)   /* of a message straight from memory to memory: longer ones save
			       * acknowledgements */
#define RDMA_PROOF_BYTES 4096 /* of the largest packet */
#define RDMA_MESSAGES	 64   /* written and not yet taken note of by the peer, at most */
#define RDMA_NEWS	 16   /* room for the messages that carry credit and offers */
#define RDMA_OFFERS                                                                                \
	8 /* of which the writer has not taken note: fewer, as bytes came for all of them but the
	   * last */
#define RDMA_RECEIVES (RDMA_MESSAGES + RDMA_NEWS)
#define RDMA_SENDS    (RDMA_MESSAGES + RDMA_NEWS)
#define RDMA_SIGNAL   16 /* every so manieth send tells that it and those before it are done */
/* What a request is called: its link's id, its path, and of sends that bit and the number of the
 * send, of 31 bits. */
#define RDMA_SENT	(1ull << 63)
#define RDMA_SENDS_MASK 0x7fffffffu
#define RDMA_PATH_BIT	30
#define RDMA_LINGER_MS	1000 /* how long what was sent may take to arrive once its link is closed */

/* One port, and where the completions of all links through it come. */
struct rdma_rail {
	const struct rdma_port *port;
	struct rdma_adapter *adapter;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int links, links_max; /* whose completions come here; that there is room for */
	enum ibv_mtu mtu;
};

/* What a reader tells of its ring, in the writer's memory: numbers that only grow. */
struct rdma_credit {
	uint64_t bytes;	   /* taken out */
	uint64_t messages; /* taken note of */
};

/* Where a reader wants the bytes from position `at` of the stream on. */
struct rdma_offer {
	uint64_t at, bytes;
	uint64_t address;
	uint32_t key[RDMA_PORTS_MAX]; /* that opens it, by path */
};

/* Registered with each path's device, one for each link. */
struct rdma_memory {
	uint8_t in[RDMA_RING_BYTES + RDMA_SLACK_BYTES];
	uint8_t out[RDMA_RING_BYTES];
	uint8_t proof[2][RDMA_PROOF_BYTES]; /* written to show that a path carries packets of its
					     * size; as sent */
	struct rdma_credit theirs;	    /* written by the peer */
	struct rdma_credit ours;	    /* as it is sent */
	struct rdma_offer offered[RDMA_OFFERS]; /* written by the peer */
	struct rdma_offer offers[RDMA_OFFERS];	/* as they are sent */
};

enum rdma_state {
	RDMA_HANDSHAKE, /* hellos are on their way */
	RDMA_AGREEING,	/* the queue pairs are ready, or not: that is on its way */
	RDMA_PROVING,	/* a packet has arrived at the peer, or not: likewise */
	RDMA_UP,
	RDMA_BY_TCP,
	RDMA_FAILED,
};

/* A queue pair. */
struct rdma_path {
	struct rdma_rail *rail;
	struct ibv_mr *mr; /* of the link's memory */
	struct ibv_qp *qp;
	uint32_t inline_bytes;	    /* that a send may carry itself */
	uint64_t sends, sends_done; /* requests posted, and those known to be done */
	uint64_t direct;	    /* of those, the last that reads what write() is called with */
	uint64_t asked;		    /* and the last that was sent to have word of it */
	uint32_t to_post;	    /* receive requests used, not yet posted anew */
};

/* A message that was sent, until the peer has taken note of it. */
struct rdma_message {
	uint32_t bytes;
	bool direct, done; /* done: the bytes are there, whether the peer knows or not */
	uint64_t from;	   /* position in the stream of ring bytes; direct: in what is written so */
};

/* Bytes of the caller that the device reads where they are: write() has said nothing of them
 * yet. */
struct rdma_direct {
	size_t bytes;	 /* 0: none */
	size_t straight; /* of those; the rest goes through the ring behind them */
	size_t posted;
	const uint8_t *from;
	uint64_t to;
	uint32_t key[RDMA_PORTS_MAX];
	struct rdma_registration *source[RDMA_PORTS_MAX]; /* by path */
	uint64_t end; /* of messages: the last that is read where it is, is before this one */
};

/* The caller's memory that the peer may write to. */
struct rdma_open_offer {
	bool open;
	struct rdma_offer offer;
	struct rdma_registration *target[RDMA_PORTS_MAX]; /* by path */
};

struct rdma_link {
	struct tt_link base;
	struct tt_link *tcp;
	enum tt_channel channel;
	enum rdma_state state;
	uint32_t id; /* its place in the endpoint's links; another one for each introduction */
	struct rdma_memory *memory;
	struct rdma_path path[RDMA_PORTS_MAX];
	int paths;
	unsigned usable;  /* paths that both ends use, as bits */
	unsigned lasting; /* those of them before it was mended */

	uint8_t answer[RDMA_HELLO_BYTES]; /* theirs, or the verdict that follows */
	size_t told, heard;		  /* bytes of those */
	uint8_t verdict;		  /* of the state: paths that are good, as bits */
	bool decided;			  /* the verdict will not change */
	bool reconnecting;		  /* it was up, and is introduced again */
	uint64_t prove_until; /* when paths are not good, if nothing else has decided it; while
			       * it is mended for all attempts, 0 before the first */
	bool broken;	      /* a queue pair that was in use has failed, which `why` says */
	struct rdma_hello mine, peer;

	/* of the stream; of ring bytes; of messages: so far */
	uint64_t written, ring_written, messages;
	uint64_t noted, ring_taken_there;	 /* as the peer has told: messages that it has
						  * taken note of, bytes that it has taken out */
	struct rdma_message sent[RDMA_MESSAGES]; /* by number */
	struct rdma_offer offered;		 /* the last that came */
	struct rdma_direct direct;

	uint64_t arrived, taken;	/* of the stream: bytes that came, and that were read */
	size_t placed;			/* of those between, the first, which are where they were
				  * offered; the rest is in the ring */
	uint64_t ring_taken;		/* bytes that were taken out of the ring */
	uint64_t receives;		/* messages taken note of, in their order */
	uint32_t early[RDMA_MESSAGES];	/* immediate data of messages that came before others, by
					 * number; or 0 */
	struct rdma_credit told_credit; /* what the peer was told last */
	bool owes_credit; /* it was to be told, and there was no room for another send */
	struct rdma_open_offer ours;
	uint32_t offers;	  /* made so far */
	uint64_t no_offer_before; /* position up to which the memory cannot be registered */

	bool peer_ended; /* its TCP link has */
	bool closed;	 /* by the runtime: to be freed when all it sent is there */
	char why[384];	 /* failed, or broken */
};

struct rdma_endpoint {
	struct tt_endpoint base;
	struct tt_endpoint *tcp;
	int rank, size;
	double silence_s; /* what is not answered for so long is lost */
	struct rdma_settings settings;
	struct rdma_port ports[RDMA_PORTS_MAX];
	int nports;
	char why[RDMA_WHY_MAX]; /* there are none */
	struct rdma_rail rails[RDMA_PORTS_MAX];
	struct tt_peer *peers; /* as TCP is told of them */
	const struct tt_peer *known;
	struct rdma_link **links; /* by id; NULL: gone */
	uint32_t nlinks, links_capacity;
	int handshake; /* links that are not up yet */
	int closing;   /* links that the runtime has closed, and that still send */
	int waiter; /* epoll: what TCP sleeps on, and the rails' channels; -1: there are no rails */
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
/* Memory of the link, registered with the device of every path. */
tutti_result_t tt_rdma_memory_open(struct rdma_link *link);
/* New queue pairs on all paths that have none; fills in the hello. */
tutti_result_t tt_rdma_queues_open(struct rdma_link *link);
/* No byte comes or goes any more; what has arrived is taken note of. */
void tt_rdma_queues_close(struct rdma_link *link);
/* And the memory. */
void tt_rdma_memory_close(struct rdma_link *link);
/* Ready to send to and to receive from the queue pair that the peer's hello tells of. */
tutti_result_t tt_rdma_queue_connect(struct rdma_link *link, int path);
/* Take note of what has completed on all rails. */
void tt_rdma_poll(struct rdma_endpoint *e);

/* A write to the peer's memory. */
struct rdma_post {
	const void *from;
	uint32_t bytes, lkey;
	uint64_t to;
	uint32_t rkey;
	bool tells; /* with `immediate` */
	uint32_t immediate;
	bool signalled; /* word of it is wanted */
};
bool tt_rdma_can_send(const struct rdma_path *path);
/* False: the link is broken. */
bool tt_rdma_post(struct rdma_link *link, int path, const struct rdma_post *post);
/* Receive requests that were used. */
void tt_rdma_post_receives(struct rdma_link *link, int path);

/* handshake.c */
bool tt_rdma_handshakes(const struct rdma_link *link);
void tt_rdma_handshake(struct rdma_link *link);
void tt_rdma_handshake_step(struct rdma_link *link);
/* It was up, and is not any more: introduce it again. */
void tt_rdma_reconnect(struct rdma_link *link);
/* The path's packet did not arrive. */
void tt_rdma_handshake_disproved(struct rdma_link *link, int path, const char *why);

/* ring.c: the bytes of a link that is up. */
size_t tt_rdma_ring_write(struct rdma_link *link, const struct iovec *iov, int n);
size_t tt_rdma_ring_read(struct rdma_link *link, const struct iovec *iov, int n);
size_t tt_rdma_ring_peek(struct rdma_link *link, size_t want, const void **data);
void tt_rdma_ring_release(struct rdma_link *link, size_t bytes);
/* A message has come over `path`; its immediate data. */
void tt_rdma_ring_arrived(struct rdma_link *link, int path, uint32_t immediate);
/* May another message be sent? Then over which path; or -1. */
int tt_rdma_ring_path(const struct rdma_link *link);
/* Note the next message, of `path`, and give its immediate data. */
uint32_t tt_rdma_ring_note(struct rdma_link *link, int path, const struct rdma_message *message);
/* Sends are done, which makes room for others. */
void tt_rdma_ring_sent(struct rdma_link *link);
/* Tell the peer what is at `slot`, see struct rdma_offer. */
bool tt_rdma_ring_offer(struct rdma_link *link, uint32_t slot);
/* Can the peer have received and read as much as its hello says? */
bool tt_rdma_ring_is_possible(const struct rdma_link *link);
/* Hellos have been exchanged: what they say counts. */
void tt_rdma_ring_renew(struct rdma_link *link);
/* The link is up: what the peer has not taken note of is sent once more. */
void tt_rdma_ring_resume(struct rdma_link *link);
/* Has all that was sent arrived at the peer? If nothing else will tell, asks for word of it by
 * an empty write. */
bool tt_rdma_ring_is_drained(struct rdma_link *link);

/* direct.c: many bytes, straight from the writer's memory into the reader's. */
/* Bytes of iov that have moved so. False: they are to go by the ring. */
bool tt_rdma_direct_write(struct rdma_link *link, const struct iovec *iov, size_t *moved);
/* Send a message of it; where the bytes are there already, only that they are. */
void tt_rdma_direct_post(struct rdma_link *link, int path, const struct rdma_message *message,
			 uint32_t immediate);
/* The next bytes are read to iov: may the peer write them there? */
void tt_rdma_direct_offer(struct rdma_link *link, const struct iovec *iov);
/* Has all of the offer come and been read? Then it is over. */
bool tt_rdma_direct_taken(struct rdma_link *link);
/* May a device write to a caller's memory, or read it? */
bool tt_rdma_direct_is_on(const struct rdma_link *link);
/* It is the caller's again. Before this, no queue pair may be left. */
void tt_rdma_direct_end(struct rdma_link *link);

/* link.c */
/* For good. */
void tt_rdma_link_fail(struct rdma_link *link, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A queue pair has failed; the link may go on over another one. */
void tt_rdma_link_break(struct rdma_link *link, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
tutti_result_t tt_rdma_link_connect(struct tt_endpoint *base, int peer, enum tt_channel channel,
				    struct tt_link **out);
/* Another id, by which completions of its former queue pairs are not known. */
tutti_result_t tt_rdma_link_number(struct rdma_link *link);
ssize_t tt_rdma_link_write(struct tt_link *base, const struct iovec *iov, int n);
ssize_t tt_rdma_link_read(struct tt_link *base, const struct iovec *iov, int n);
ssize_t tt_rdma_link_peek(struct tt_link *base, size_t want, size_t limit, const void **data);
void tt_rdma_link_release(struct tt_link *base, size_t bytes);
bool tt_rdma_link_ready(const struct tt_link *base);
void tt_rdma_link_close(struct tt_link *base);
/* Has the peer gone, or does it want to introduce the link again? Also makes sure that threads
 * that sleep learn of it. */
void tt_rdma_link_probe(struct rdma_link *link);
/* All links: greet on, free those that are closed and done; thorough: see whose peer has gone. */
void tt_rdma_links_step(struct rdma_endpoint *e, bool thorough);
/* The communicator has ended: callers' memory is theirs. */
void tt_rdma_links_stop(struct rdma_endpoint *e);
/* The runtime has closed all: wait for what was sent, not for long. */
void tt_rdma_links_end(struct rdma_endpoint *e);

/* endpoint.c: what a rank's address says. `tcp` (or NULL): the peer as its TCP endpoint is to be
 * told of it. */
bool tt_rdma_address_read(const struct tt_peer *peer, struct tt_peer *tcp, struct rdma_port *ports,
			  int *n);
/* Through which ports of theirs two ranks reach each other; gives how many pairs. */
int tt_rdma_pairs(const struct tt_peer *a, const struct tt_peer *b, int pairs[RDMA_PORTS_MAX][2]);

/* wait.c */
tutti_result_t tt_rdma_wait_open(struct rdma_endpoint *e);
void tt_rdma_wait_close(struct rdma_endpoint *e);
void tt_rdma_arm(struct tt_endpoint *base);
void tt_rdma_disarm(struct tt_endpoint *base);
int tt_rdma_fd(struct tt_endpoint *base);
void tt_rdma_sleep(struct tt_endpoint *base, int timeout_ms);
void tt_rdma_interrupt(struct tt_endpoint *base);

#endif
