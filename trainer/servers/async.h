/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank of the asynchronous parameter server has, and what workers and servers say to each
 * other. Between a worker and a server there is one exchange at a time:
 *
 *	worker to server	a report, and behind it the gradients of the server's shard
 *	server 0 to worker	the worker's next task
 *	server to worker	the weights of its shard
 *
 * Who has no task any more reports that to all servers but server 0, which knows, and has nothing
 * to do until the epoch is over. */
#ifndef TRAIN_ASYNC_H
#define TRAIN_ASYNC_H

#include "train.h"

/* An epoch has the batches that it has in every way to train. Each is cut into as
 * many slices as there were workers at the start, and a task is one of these. Tasks have numbers
 * from 0 in the order of the epoch that training->ordered says. */
#define TASK_NONE UINT64_MAX

struct task {
	size_t step;	      /* of the training */
	struct slice samples; /* in the order of the epoch … */
	size_t batch;	      /* … of so many */
};

size_t tasks_of_epoch(const struct training *training);
struct task task_of(const struct training *training, uint64_t task);
/* With the model's weights: its gradients, divided by the samples of the batch, at
 * model.gradients; and its sums. */
bool task_compute(struct training *training, uint64_t task, struct sums *sums);

/* Of a task that was done; TASK_NONE: there is none any more. Without gaps, as it is sent. */
struct task_report {
	uint64_t task;
	struct sums sums;
};

enum worker_state {
	COMPUTES, /* or its report is on its way */
	PUSHES,	  /* its gradients are */
	HELD,	  /* they have come, and wait for an update */
	IDLE,	  /* it has no task in this epoch any more */
};

/* A server's worker. */
struct peer {
	int rank;
	enum worker_state state;
	tutti_request_t receiving, sending[2]; /* in flight, or NULL */
	struct task_report report;
	uint64_t task;	  /* server 0's: its next */
	void *numbers;	  /* gradients of the shard that come, weights that go */
	uint64_t version; /* of the weights that it has */
	size_t done;	  /* tasks in this epoch */
};

struct server {
	struct peer *peers; /* owned: [workers at the start], of which there are … */
	size_t count;
	size_t turn; /* who is looked at first: the one behind the last that was served */
	tutti_request_t *requests; /* owned: as many … */
	struct peer **held;	   /* owned: … likewise, whose gradients an update is made of */
	void *numbers;		   /* owned: all peers' */
	size_t given;		   /* tasks of those to be done */
	size_t came;		   /* tasks of the epoch */
};

struct async {
	unsigned epoch; /* that is under way, from 1; 0: none since the shard began */
	uint64_t *todo; /* owned: [tasks of an epoch]: those that are to be done, in order … */
	size_t left;	/* … so many. The first ones are the workers', one each */

	/* a worker's */
	double samples;		   /* that it has computed */
	tutti_request_t *requests; /* owned: [3 × servers + 1]; the first … */
	size_t pending;		   /* … are in flight */

	/* a server's */
	void *weights; /* owned: of its shard, which change in place; kept.now is their velocity */
	uint64_t version; /* updates of these so far */
	bool *came;	  /* owned: [tasks of an epoch]: an update has been made of it */
	struct sums sums; /* of these */
	struct server server;
};

/* One update by the gradients of these, added up in this order, into the first. */
void shard_update(struct training *training, struct peer *const *held, size_t count);

/* With the workers that there are now, and nothing in flight. */
bool server_begin(struct training *training, struct async *async);
/* The updates of an epoch. */
bool server_epoch(struct training *training, struct async *async);
/* Nothing is in flight on return. */
void server_drain(struct server *server);

/* A worker's part of an epoch, with weights at state_next(). */
bool worker_epoch(struct training *training, struct async *async);

#endif
