/* SPDX-License-Identifier: BSD-3-Clause */
/* The seam between transports and the runtime: one way to move bytes between two ranks.
 *
 * An *endpoint* is a communicator's part of a transport on one rank; a *link* is its pair of
 * ordered byte streams, out and in, with one peer on one channel. Both ends run the same plans, so
 * a stream needs no tags, no message headers and no matching: bytes come out in the order they
 * went in, and the executor knows what they are.
 *
 * A transport is a table of operations on endpoints and links, with one more table each for
 * control, doorbell, paths and memory. Every operation is set unless its comment allows NULL. None
 * may block but open(), await(), join() and share(), which have a deadline, reject(), and
 * progress() for 0.1 s when it loses a peer. One thread at a time is inside an endpoint (the
 * communicator's lock is held), except that arm()ed sleeping happens outside the lock. Functions
 * that return ssize_t give bytes moved, 0 for "not now", or a negative tutti_result_t with its
 * error message set by tt_fail(). */
#ifndef TT_SPI_TRANSPORT_H
#define TT_SPI_TRANSPORT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "clock.h"
#include "key.h"
#include "log.h"
#include "tutti/tutti.h"

#define TT_ADDRESS_MAX 960 /* bytes a transport may tell its peers */
#define TT_CHANNELS    4
/* The control channel is for what ranks say when the communicator has ended: a fault keeps none of
 * its links from moving bytes, or from being connected. */
enum tt_channel { TT_CHANNEL_COLLECTIVE, TT_CHANNEL_P2P, TT_CHANNEL_CONTROL, TT_CHANNEL_ONE_SIDED };

#define TT_NOTE_BYTES 64
#define TT_NOTES_KEPT                                                                              \
	64 /* notes that an endpoint keeps for receive() at least; older ones may be lost */

/* The rank to blame, and the error message that every rank will return. Plain bytes: travels
 * between ranks. */
struct tt_fault {
	int32_t result; /* tutti_result_t; 0: no fault */
	int32_t rank;	/* the rank it is about, -1 for none */
	char text[TT_ERROR_MAX - 20];
	uint32_t chain; /* see below; 0 for what is no missed deadline of an operation */
	uint64_t seq;	/* of the collective it is about, 0 for none */
};
static_assert(sizeof(struct tt_fault) == TT_ERROR_MAX, "no bytes between");

/* Of a missed deadline: how many ranks wait, each for the next, up to the one that it is about. That
 * one waits for nobody that is known; or, as its process is stopped, for nobody at all. */
#define TT_CHAIN_STOPPED UINT32_MAX

/* Of two faults that ranks found at the same time, is `a` the one that all report? A total order,
 * the same everywhere. */
bool tt_fault_before(const struct tt_fault *a, const struct tt_fault *b);
/* What another process gave as a fault of `size` ranks: true if it can be one. Its text ends,
 * and is printable, from here on. */
bool tt_fault_check(struct tt_fault *fault, int size);

/* One rank as its peers see it. */
struct tt_peer {
	int rank;
	int host;	  /* number of its host, see tt_group */
	int local_rank;	  /* among the ranks of its host */
	uint64_t process; /* equal for ranks that are threads of one process */
	int32_t pid;	  /* 0: its number means nothing here */
	bool use;	  /* this transport was chosen for the pair (this rank, that one) */
	uint16_t address_length;
	const uint8_t *address; /* what its endpoint of this transport gave; valid as long as the
				 * peer is */
};

struct tt_endpoint_config {
	uint64_t comm_id; /* the same on all ranks, and no other communicator's */
	int rank, size;
	double timeout_s;
	double silence_s; /* a host that has answered nothing for so long is lost; 1 or more */
	const struct tt_key *key; /* valid while the endpoint is; NULL, or one that is not set:
				   * be reached from this machine only */
	/* Is a rank of the communicator known to be gone, by other means than this endpoint's,
	 * which the other ranks check, too? TUTTI_OK: no; otherwise what join() returns, with its
	 * error message. Asked by the thread in join(), twenty times a second while it waits,
	 * and in control->reject(), which waits for nobody then. NULL: nobody knows. */
	tutti_result_t (*should_abort)(void *context);
	void *context;
};

struct tt_transport;

/* What every endpoint begins with. */
struct tt_endpoint {
	const struct tt_transport *ops;
	struct tt_fault fault; /* set by the transport when it learns of one; result last */
	/* Words that the ranks of a host share, by which short operations save calls; NULL: there
	 * are none. How many memory->wake() would wake, if read behind a full fence; and what
	 * differs from `faults_seen` once progress() has something to tell. */
	const _Atomic uint32_t *sleepers, *faults;
	uint32_t faults_seen;
};

/* What every link begins with. */
struct tt_link {
	const struct tt_transport *ops;
	struct tt_endpoint *endpoint;
	int peer;
};

/* How ranks learn that a communicator ends, and what they tell each other when it may. */
struct tt_transport_control {
	/* Instead of join(), or after it failed: tell the peers with `use` set that this rank
	 * does not take part, because of `fault`. Peers in join() return soon: with the fault,
	 * or with TUTTI_ERR_PEER_LOST once the endpoint is destroyed, which is all that may
	 * follow. Peers that have joined learn of the fault like of any other. Takes a second at
	 * most. */
	void (*reject)(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
		       const struct tt_fault *fault);
	/* Tell every peer that can be told, at once and without waiting, that `fault` ends the
	 * communicator. Does nothing if endpoint->fault is that one or better. On return
	 * endpoint->fault is the best that is known here. Where fd() is -1 all ranks agree on
	 * one at once, and the best does not change any more. Otherwise a peer may report a
	 * better one later, which is passed on to those that may not know it. An endpoint that
	 * knows a fault looks for no other, such as deaths, which may be its consequence. */
	void (*revoke)(struct tt_endpoint *endpoint, const struct tt_fault *fault);
	/* Readable when something has come that progress(thorough) takes in although nobody
	 * waits: faults, control messages, the end of peers; not data. To be watched by its
	 * edges. Valid from join() to destroy(). -1: there is no need, since all ranks of the
	 * communicator read one record, on which the first fault is that of all. */
	int (*fd)(const struct tt_endpoint *endpoint);
	/* The end of peers is no such thing: progress(thorough) has to look for it now and then. */
	bool looks_for_deaths;
	/* Will nothing more come from `peer` than what can be read now? True if it died, left,
	 * or lost its connections; false where this rank cannot know. Also after a fault, which
	 * may be about another rank. progress(thorough) finds out. */
	bool (*lost)(struct tt_endpoint *endpoint, int peer);
	/* Send a control message of TT_NOTE_BYTES to the ranks that this endpoint's control
	 * links reach directly, at once and without waiting. It is lost where a link is full.
	 * The links of all ranks with `use` set make a connected graph. */
	void (*send)(struct tt_endpoint *endpoint, const void *note);
	/* The next control message that came, in the order of each sender; false: none.
	 * progress(thorough) looks for them. */
	bool (*receive)(struct tt_endpoint *endpoint, void *note);
};

/* Sleeping until something happens. arm() (under the lock) announces it. The caller then makes
 * one more pass and, if that moved nothing, sleeps outside the lock: in sleep() or, with several
 * endpoints, in poll() on their fd()s for POLLIN. disarm() (under the lock) ends it. Bytes or
 * space on any link wake a sleeper, and so do wake() of a peer, a fault, and interrupt(). fd() is
 * valid between arm() and disarm(); it may be -1 in an endpoint that reaches all ranks. Several
 * threads may sleep at once. */
struct tt_transport_doorbell {
	void (*arm)(struct tt_endpoint *endpoint);
	void (*disarm)(struct tt_endpoint *endpoint);
	int (*fd)(struct tt_endpoint *endpoint);
	void (*sleep)(struct tt_endpoint *endpoint, int timeout_ms);
	/* Wake the threads of this rank that sleep; callable without the lock. */
	void (*interrupt)(struct tt_endpoint *endpoint);
};

/* Memory that ranks of one host map of each other. */
struct tt_transport_memory {
	/* Memory that all ranks of this host map, zeroed, `bytes` as said in every rank's call.
	 * NULL on all of them where one cannot map it. Collective over the ranks of the host,
	 * after join(). */
	void *(*share)(struct tt_endpoint *endpoint, size_t bytes, uint64_t deadline);
	/* Tell a host's ranks that wait in sleep() or on fd() to poll again. Cheap when nobody
	 * sleeps. Full barrier: what the caller wrote to shared memory before is seen by whoever
	 * goes on sleeping. Callable without the lock. */
	void (*wake)(struct tt_endpoint *endpoint);
	/* Name `pointer` … + bytes, memory of tutti_mem_alloc(), by a token; false: it is none. */
	bool (*export)(struct tt_endpoint *endpoint, const void *pointer, size_t bytes,
		       uint64_t *token);
	/* Where a token's memory is in this process: to be read, and to be written where its
	 * owner grants that. NULL where it cannot be mapped. */
	void *(*import)(struct tt_endpoint *endpoint, int peer, uint64_t token, size_t bytes);
	/* Has a peer that shares memory said good-bye? What it wrote there before is seen then.
	 * Unlike control->lost(), takes no note of deaths, which others report. */
	bool (*left)(struct tt_endpoint *endpoint, int peer);
	/* May all peers on this host write to exported memory? A rank that is late would write
	 * to what its owner uses again: only where tt_heap_revoke() keeps it out of that. */
	bool (*grants_writes)(struct tt_endpoint *endpoint, const void *pointer, size_t bytes);
};

/* Ways to peers that may be missing, or come and go. */
struct tt_transport_paths {
	/* Two ranks have an address each and do not reach each other: why, for messages. */
	void (*explain)(const struct tt_peer *a, const struct tt_peer *b, char *text, size_t size);
	/* What keeps peers from reaching this endpoint in more ways, such as an interface
	 * without carrier, for messages; "" for nothing. True: it may be over within seconds,
	 * and until then no other machine reaches this endpoint. NULL: there is nothing. */
	bool (*lacks)(const struct tt_endpoint *endpoint, char *text, size_t size);
	/* Before join(): wait for the end of that, until `deadline` at most. address() and
	 * lacks() then have new answers. NULL with lacks. */
	void (*await)(struct tt_endpoint *endpoint, uint64_t deadline);
};

#define TT_HOSTS_MAX 8 /* fewer than a store's address may have */
struct tt_transport {
	const char *name;
	int preference;	    /* where several reach a peer, the highest is used */
	bool shares_memory; /* ranks that it joins map memory of each other */
	bool joins_hosts;   /* it may reach ranks on other hosts */
	bool for_tests;	    /* is used only where the user names it */

	const struct tt_transport_control *control;
	const struct tt_transport_doorbell *doorbell;
	const struct tt_transport_paths *paths;
	const struct tt_transport_memory *memory; /* NULL: it has none to share */

	/* Make ready to be found by others: listen, but meet nobody yet. */
	tutti_result_t (*open)(const struct tt_endpoint_config *config, struct tt_endpoint **out);
	/* Write what peers need to know into `out` (TT_ADDRESS_MAX bytes); returns the length. */
	size_t (*address)(const struct tt_endpoint *endpoint, void *out);
	/* Addresses at which other machines reach this one, TT_HOSTS_MAX at most that fit into `size`
	 * bytes, numeric, with commas between them; of
	 * the loopback interface only where there are no others. Waits until `deadline` at most
	 * for an interface that comes up. NULL: it knows none. */
	tutti_result_t (*hosts)(char *out, size_t size, uint64_t deadline);
	/* Can these two use it? Pure, and the same answer whichever way round. */
	bool (*reach)(const struct tt_peer *a, const struct tt_peer *b);
	/* All addresses are known: map what is shared, connect control links. Collective over
	 * the ranks with `use` set; blocks until `deadline` (CLOCK_MONOTONIC nanoseconds) at
	 * most. `peers` stays valid while the endpoint is. */
	tutti_result_t (*join)(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
			       uint64_t deadline);
	/* Background work of an endpoint: accept, finish connections, read control messages.
	 * Called in every pass of a wait. Cheap unless `thorough`, which is asked for every
	 * millisecond or so and before sleeping, and checks everything: dead processes, closed
	 * connections. Sets endpoint->fault. */
	void (*progress)(struct tt_endpoint *endpoint, bool thorough);
	/* Say good-bye (peers then know that this rank left in order), free everything. Links
	 * are closed before. Never waits for a peer. NULL is fine. */
	void (*destroy)(struct tt_endpoint *endpoint);
	/* This process is a child of fork() and not the one that opened the endpoint:
	 * descriptors noted in fork.h are closed, mappings that are not inherited gone. Only
	 * close() of its links and destroy() follow. They then free memory, tell nobody
	 * anything, and neither close nor unmap what may be something else by now. */
	void (*forget)(struct tt_endpoint *endpoint);
	/* Where do ranks of this host run? `cpu` is where the calling thread of this rank does.
	 * of[rank] becomes the processor of each rank of this host of which one is known; the
	 * rest stays. For waits, now and then. */
	void (*locate)(struct tt_endpoint *endpoint, int cpu, int *of);

	/* Begin to connect; the link may be used at once and moves bytes as soon as it is up.
	 * Both ends call it, in any order. */
	tutti_result_t (*connect)(struct tt_endpoint *endpoint, int peer, enum tt_channel channel,
				  struct tt_link **out);
	/* Bytes of iov[0 … n-1] that the peer will read; those that have moved are the caller's
	 * again on return. The others a device may be reading already: they stay as they are,
	 * and are what the next write() begins with, until the link is closed or revoke() has
	 * returned. */
	ssize_t (*write)(struct tt_link *link, const struct iovec *iov, int n);
	/* Bytes that have arrived, into iov. The rest of it a device of the peer may write to
	 * already: the next bytes of the stream are to be read to there, unless the link is
	 * closed or revoke() has returned. */
	ssize_t (*read)(struct tt_link *link, const struct iovec *iov, int n);
	/* Bytes that have arrived, in place: *data, valid until the next call on this link.
	 * Asked again without release(), gives the same bytes or more. At least `want`
	 * contiguous bytes (want <= 4096) come in time if the peer writes so many. Looks for at
	 * most `limit` bytes. */
	ssize_t (*peek)(struct tt_link *link, size_t want, size_t limit, const void **data);
	void (*release)(struct tt_link *link, size_t bytes);
	/* Is the connection up? For agreements, logs and tests. */
	bool (*ready)(const struct tt_link *link);
	/* Frees the link; bytes written before still reach the peer. NULL is fine. */
	void (*close)(struct tt_link *link);
};

/* The transport between hosts that needs no device, registry.c's choice. A transport over devices
 * opens an endpoint of it for its own control links. */
extern const struct tt_transport *const tt_transport_of_hosts;

#endif
