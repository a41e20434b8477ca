/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a server share, and nobody else sees. */
#ifndef TRAIN_SERVER_STATE_H
#define TRAIN_SERVER_STATE_H

#include "server.h"

#include "compute.h"
#include "journal.h"
#include "newcomers.h"
#include "peer.h"
#include "shard.h"
#include "train.h"

/* What server 0 tells the others: an epoch is over; a newcomer is there; a worker that they think is
 * computing found no task. */
enum word { WORD_END_OF_EPOCH = 1, WORD_NEWCOMER, WORD_IDLE };

struct say {
	uint64_t word, worker;
	uint64_t asks; /* of the worker so far: what it has asked for since counts more */
};

struct server {
	struct training *training;
	struct shard shard;
	struct journal_writer journal;
	struct peer **peers; /* owned: [count]; those that are gone, too */
	size_t count;
	size_t turn; /* who is looked at first: the one behind the last that was served */
	tutti_request_t *requests; /* owned: [2 × count + 1]: room for all that is waited for */
	struct tasks tasks;	   /* server 0's */
	bool *came;		   /* owned: [tasks of an epoch]: the gradients have */
	unsigned epoch;		   /* from 0 */
	bool open, ended;	   /* it has begun, and is not over; all of them are over */
	struct say said;	   /* by server 0 */
	tutti_request_t next_word;
	struct sums sums; /* of the epoch */
	double samples;	  /* of all */
	struct staleness staleness;
	struct newcomers newcomers;
	double looked_s;
};

static inline int server_number(const struct server *s)
{
	return s->training->team->rank;
}

static inline bool server_is_first(const struct server *s)
{
	return server_number(s) == 0;
}

static inline bool server_is_bounded(const struct server *s)
{
	return options_bounded(s->training->options);
}

static inline uint64_t server_first_task(const struct server *s)
{
	return (uint64_t)s->epoch * compute_tasks_of_epoch(s->training);
}

/* server.c: to the other servers, about worker `p` if that is not NULL. They listen as long as an epoch
 * is open. */
tutti_result_t server_say(struct server *s, enum word word, const struct peer *p, struct why *why);

/* server_losses.c */
size_t server_workers_there(const struct server *s);
tutti_result_t server_lose(struct server *s, struct peer *p, tutti_result_t fault,
			   const struct why *cause, struct why *why);
/* What a call about this worker came to: if it failed, the worker is lost, and others go on. */
tutti_result_t server_settled(struct server *s, struct peer *p, tutti_result_t result,
			      const struct why *cause, struct why *why);
/* Collective over the servers. One that does not come after all is gone on without. */
tutti_result_t server_admit(struct server *s, int origin, struct why *why);
tutti_result_t server_look_for_newcomers(struct server *s, struct why *why);

/* server_updates.c: the gradients of this worker have come, or those held may be used by now. */
tutti_result_t server_take_gradients(struct server *s, struct peer *p, struct why *why);
tutti_result_t server_update_by_held(struct server *s, struct why *why);

/* server_asks.c: what was in flight with this worker has ended well. */
tutti_result_t server_go_on_with(struct server *s, struct peer *p, struct why *why);
/* To those that wait for a task. */
tutti_result_t server_give_tasks(struct server *s, struct why *why);
/* The gradients of this worker have been dealt with. */
tutti_result_t server_answer_update(struct server *s, struct peer *p, struct why *why);
/* It does not keep to the protocol: an error of its own, or another version. It ends when it is told:
 * whose communicator a server aborts is told by all servers that this server is lost. */
tutti_result_t server_refuse(struct server *s, struct peer *p, struct why *why);

#endif
