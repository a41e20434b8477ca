/* SPDX-License-Identifier: BSD-3-Clause */
/* What workers and servers say to each other. Between a worker and a server there is one message at a
 * time: the worker asks, the server answers. */
#ifndef TRAIN_PROTOCOL_H
#define TRAIN_PROTOCOL_H

#include <stdint.h>

#include "tasks.h"

#define SERVERS_MAX 16

/* Of two who wait for each other, one gives up first. A server that holds an answer back for the sake
 * of a worker, as --staleness says, gives up that worker after one deadline, before others give up the
 * server. Where nobody is waited for, it is the server whose silence matters: it is given up first, but
 * not before it has waited for a newcomer that stops or dies while it joins, which takes one deadline
 * and a half. These are deadlines. */
#define PATIENCE	2 /* of a worker with a server that waits for nobody */
#define PATIENCE_LONGER 3 /* of whoever is not to give up first */

/* What a worker wants of a server. */
enum asked {
	ASK_TASK = 1, /* of server 0, which answers when there is one, or when the worker is to ask
		       * again. The others are told that this worker needs nothing for now, and do
		       * not answer */
	ASK_WEIGHTS,  /* those of the shard: the worker has a task now */
	ASK_UPDATE,   /* the gradients of the shard follow */
	ASK_LEAVE,    /* the account of this rank follows; no answer does */
	ASK_KINDS
};

/* The weights of the shard follow those of the answers to ASK_WEIGHTS, and to ASK_UPDATE if they
 * were wanted. */
enum answered {
	ANSWER_TASK = 1, /* of server 0 */
	ANSWER_NO_TASK,	 /* there is none for now; of the other servers always */
	ANSWER_END,	 /* nor will there be any; of server 0 */
	ANSWER_REFUSED,	 /* the worker has other options or data */
	ANSWER_KINDS
};

/* Numbers of eight bytes: no gaps to send. */
struct ask {
	uint64_t kind;
	uint64_t task; /* of an update; else its last, or TASK_NONE */
	uint64_t age;  /* of an update: tasks done since weights came, by steps of its own */
	uint64_t wants_weights; /* of an update: 0 or 1 */
	uint64_t done; /* the task of this worker's that all servers have had since; or TASK_NONE */
	uint64_t options, data, pid; /* checksums; the process */
	uint64_t versions
		[SERVERS_MAX]; /* of an update: of the weights that came last, of each shard */
	double loss, correct, samples; /* of the task */
};

struct answer {
	uint64_t kind, task;
	uint64_t version; /* of the shard: updates of it so far */
};

#endif
