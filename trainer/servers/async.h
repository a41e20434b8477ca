/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank of the asynchronous parameter server has, and what workers and servers say to each
 * other. Between a worker and a server there is one exchange at a time:
 *
 *	worker to server	a report, and behind it the gradients of the server's shard
 *	server 0 to worker	the worker's next task
 *	server to worker	the weights of its shard
 *
 * Who has no task any more reports that to all servers but server 0, which knows, and has nothing to
 * do until the epoch is over. */
#ifndef TRAIN_ASYNC_H
#define TRAIN_ASYNC_H

#include "report.h"
#include "shard.h"
#include "tasks.h"

/* Of a worker that waits for a server, deadlines: who is late with gradients that the server waits for
 * is found by the server before. */
#define PATIENCE 2

/* Of a task that was done; TASK_NONE: there is none any more. Numbers of eight bytes: no gaps to send. */
struct task_report {
	uint64_t task;
	double loss, correct, samples;
};

struct async {
	size_t *counts; /* owned: [ranks], numbers of each rank's shard */
	unsigned epoch; /* that is under way, from 1; 0: none */
	uint64_t *todo; /* owned: [tasks of an epoch]: its tasks that are to be done, in order … */
	size_t left;	/* … so many. The first ones are the workers', one each */
	double samples; /* that this worker has computed */

	/* a server's */
	struct shard shard;
	uint64_t beginning; /* with which the shard began, from 1 on; 0: with none */
	bool *came;	    /* owned: [tasks of an epoch]: an update has been made of it */
	struct sums sums;   /* of these */
	struct staleness staleness;
	struct server *server; /* owned */

	tutti_request_t *requests; /* owned: a worker's, [3 × servers + 1]; the first … */
	size_t pending;		   /* … are in flight */
};

/* Of these workers; what was there before is given back. */
bool server_create(struct training *training, struct async *async);
/* The updates of an epoch. */
bool server_epoch(struct training *training, struct async *async);
/* Nothing is in flight on return. */
void server_drain(struct server *server);
void server_destroy(struct server *server);

/* A worker's part of an epoch, with weights at state_next(). */
bool worker_epoch(struct training *training, struct async *async);

#endif
