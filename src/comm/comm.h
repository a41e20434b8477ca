/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator: who takes part, how each is reached, what is in flight. Everything behind
 * `lock` is changed only while it is held; what bootstrap sets never changes afterwards. */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "callback.h"
#include "control_area_state.h"
#include "op_header.h"
#include "fork.h"
#include "kernels.h"
#include "model.h"
#include "schedule.h"
#include "settings.h"
#include "transport.h"
#include "tutti/tutti.h"

#define TT_MAX_TRANSPORTS 4

struct tt_op;

struct tt_plan;
struct tt_plan_cache;
struct tt_planning;
struct tt_agreement;
struct tt_gossip;
struct tt_progress;
struct tt_flight;
struct tt_recorder;
struct tt_staging;
struct tt_consensus;
struct tt_next_call;
struct tt_aside;
struct tt_cursor;
struct tt_cuda;
struct tt_one_sided;
struct tt_windows;

/* A user's operation, numbered TUTTI_OP_COUNT + its place. */
struct tt_user_op {
	bool used;
	bool commutative;
	tutti_reduce_fn_t function; /* NULL: pre-multiplied sum */
	void *context;
	struct tt_callback_calls *calls; /* of all of the communicator */
	tutti_dtype_t dtype;		 /* of the scalar */
	unsigned held;			 /* calls in open groups that use it */
	uint8_t scalar[8];
};

/* The link to a peer on a channel, and the operations that will use each direction, in order: only
 * the first may. */
struct tt_connection {
	struct tt_link *link;		     /* NULL until first needed */
	struct tt_cursor *head[2], *tail[2]; /* [sending] */
	/* of the channel of messages: the receive whose message is on its way, and those that no
	 * receive has taken */
	struct tt_cursor *reading;
	struct tt_aside *aside;
};

/* What each operation needs of the flight recorder. */
struct tt_recording {
	struct tt_flight *flight;
	uint64_t next;	   /* number of the next operation */
	uint64_t capacity; /* before this one, or when plans need it, the rest of the mapping is
			   * wanted */
	bool counter;	   /* the processor's counter is the clock */
};

/* What who makes a communicator is asked while it joins. */
struct tt_join_hooks {
	/* See struct tt_endpoint_config. */
	tutti_result_t (*should_abort)(void *context);
	/* This rank cannot join for `result`, which is about another rank or a deadline, or,
	 * `unfit`, is true of the ranks together, and the thread's error message: what to return
	 * instead, and tell others. NULL: that. */
	tutti_result_t (*agree)(void *context, tutti_result_t result, bool unfit);
	void *context;
};

/* Who runs where. */
struct tt_topology {
	int *host; /* [size] */
	int hosts;
	int *domain; /* [size]: see struct tt_group; where hosts is 1 */
	int domains;
	int local_rank, local_size;
	double oversubscription; /* ranks per core on the fullest host: the same on all ranks */
	size_t level2;		 /* bytes of a second-level cache of rank 0's; 0: not known */
	bool by_network;	 /* no two ranks share memory */
	struct tt_model model;	 /* rank 0's */
};

/* How each rank is reached. */
struct tt_routes {
	struct tt_peer *peers[TT_MAX_TRANSPORTS]; /* [size] for each endpoint … */
	uint8_t *addresses[TT_MAX_TRANSPORTS];	  /* … and what they point to */
	int8_t *via;				  /* [size]: which endpoint reaches the peer */
	struct tt_connection **connections;	  /* [size]: TT_CHANNELS each, once one is needed */
	char transport_names[64];
	int failed_peer; /* whose link failed last, -1: nobody's */
};

/* What is needed until all have joined. */
struct tt_joining {
	void *records, *places;		   /* bootstrap.c's */
	const struct tt_join_hooks *hooks; /* NULL: none */
};

struct tutti_comm {
	/* What a short operation reads and writes comes first: four lines of cache, and the
	 * control area with the first line of the fault behind them. */
	pthread_mutex_t lock;
	struct tt_op *first, *last; /* in flight, in order of the calls */
	struct tt_op *spare;	    /* finished, to be used again */
	uint64_t next_seq;	    /* of the next collective */
	uint64_t history; /* of all collectives so far: equal on ranks that called the same */
	const struct tt_plan *last_plan; /* of the last call: most often the next one is alike */
	struct tt_plan_cache *plans;
	int waiters;  /* threads inside a wait: the progress thread then leaves the work to them */
	int sleepers; /* threads asleep in an endpoint */
	uint64_t next_check;  /* when to look at everything again */
	struct tt_cuda *cuda; /* its GPU; NULL: it is bound to none. Read with the fault */
	int nendpoints;
	bool oversubscribed; /* this host has more ranks than cores they may use */
	_Atomic bool serves; /* peers' one-sided calls come as frames. Set with the lock held; read
			      * without it, too, as are the next two. Relaxed: nothing else hangs
			      * on them */
	_Atomic bool failed; /* there is a fault */
	_Atomic bool said;   /* some thread has said something of its next call: next_calls */
	struct tt_endpoint *endpoints[TT_MAX_TRANSPORTS];
	int rank, size;
	struct tt_recording recording;
	struct tt_owner owner;
	const struct tt_kernels *kernels;
	struct tt_next_call *next_calls; /* what threads said of them */
	/* What rooms below ask of rooms above; set by who makes communicators. Does an operation
	 * in flight use the plan? … */
	bool (*uses_plan)(const struct tutti_comm *comm, const struct tt_plan *plan);
	/* … and a plan is about to be used: note what it determines, unless that is there
	 * already. */
	void (*note_plan)(struct tutti_comm *comm, struct tt_plan *plan);
	/* exec's; its base is NULL where not all ranks share memory */
	struct tt_area control_area;
	/* result 0: healthy. Nobody is told of it before it is agreed. */
	struct tt_fault fault;

	struct tt_settings settings;
	uint64_t id;	 /* the same on all ranks */
	uint64_t serial; /* no other communicator of this process has had it */

	struct tt_topology topology;
	struct tt_routes routes;
	struct tt_joining joining;

	/* operations */
	struct tt_user_op *user_ops;
	int nuser_ops;
	struct tt_callback_calls op_calls;
	uint64_t *p2p_seq[2];		/* [sending][size] */
	struct tutti_request *requests; /* that callers hold */
	double device_byte_s; /* seconds on its GPU, of a byte from another rank; 0: not known */
	const struct tt_plan *exchanged_plan; /* whose ranks on GPUs exchange what they have, each
					       * with each, and need nothing of the schedule */
	const struct tt_plan *device_plan; /* of the operation that a device is being given: kept */

	const struct tt_one_sided *one_sided; /* what exec asks of the room of windows; NULL until
					       * one is made */

	/* what rooms keep, each private to its own */
	struct tt_planning *planning;	/* plan's; NULL until something needs it */
	struct tt_progress *progress;	/* exec's: the thread, and how waits are spent */
	struct tt_agreement *agreement; /* control's: on the fault */
	struct tt_gossip *gossip;	/* control's: what ranks said of their calls */
	struct tt_consensus
		*consensus;	      /* control's; NULL until the ranks first agree on something */
	struct tt_recorder *recorder; /* trace's, beside what is above */
	struct tt_windows *windows;   /* window's; NULL until one is made */
	struct tt_staging *staging;   /* cuda/staged.c's; NULL until a call has a buffer on a GPU */
};

/* A time that holds where each rank has a core, as many times longer as ranks share one. */
static inline uint64_t tt_comm_stretch(const struct tutti_comm *comm, uint64_t ns)
{
	return comm->topology.oversubscription > 1
		       ? (uint64_t)((double)ns * comm->topology.oversubscription)
		       : ns;
}

/* May this thread use `comm`? Not if it is NULL or was made before a fork(), nor in a function of the
 * program's that must not call tutti: then nothing of it may be touched, its lock least of all. */
static inline bool tt_comm_usable(const struct tutti_comm *comm)
{
	return __builtin_expect(comm != NULL, 1) && tt_owned_here(&comm->owner) &&
	       !tt_callback_here();
}

/* Every thread takes the lock by this. A user's operation runs under it: where one is left by a jump, or
 * does not return by the deadline while others wait, the process ends. */
static inline void tt_comm_lock(struct tutti_comm *comm)
{
	if (!tt_callback_lock(&comm->lock, &comm->op_calls, comm->settings.timeout_ns))
		tt_callback_is_missed(comm->settings.timeout_ns);
}

/* What `call` returns for one that is not usable. */
tutti_result_t tt_comm_refuse(const struct tutti_comm *comm, const char *call);

/* An empty one, to be filled by who makes it. */
tutti_result_t tt_comm_new(const struct tt_settings *settings, int rank, int size, uint64_t id,
			   struct tutti_comm **out);

/* To sleep, for those who wait for something else than an operation: announce it, poll once
 * more, sleep, and disarm. Lock held, but for the sleep. */
void tt_comm_arm(struct tutti_comm *comm);
void tt_comm_sleep(struct tutti_comm *comm, int timeout_ms);
void tt_comm_disarm(struct tutti_comm *comm);
/* Wake this rank's threads that sleep, as what they wait for may have ended. Lock held. */
void tt_comm_interrupt(struct tutti_comm *comm);

/* Close links and endpoints, free what the communicator's own room has, and the communicator. */
void tt_comm_free(struct tutti_comm *comm);

tutti_result_t tt_comm_connect(struct tutti_comm *comm, int peer, enum tt_channel channel);
/* The link to `peer`, connected when first needed. Lock held. */
static inline tutti_result_t tt_comm_connection(struct tutti_comm *comm, int peer,
						enum tt_channel channel, struct tt_connection **out)
{
	struct tt_connection *const *with = &comm->routes.connections[peer];
	tutti_result_t result = TUTTI_OK;

	if (__builtin_expect(!*with || !(*with)[channel].link, 0))
		result = tt_comm_connect(comm, peer, channel);
	*out = result ? NULL : &(*with)[channel];
	return result;
}

#endif
