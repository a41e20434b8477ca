/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker as a server sees it, and the messages between them.
 *
 *	LISTENING ──ask──▶ TAKING ──gradients──▶ HELD ──update──▶ ANSWERING ──▶ LISTENING
 *	    │ └──────────── weights are asked for ──────────────▶ ANSWERING
 *	    └─ a task is asked for: PARKED, until there is one ─▶ ANSWERING
 *
 * There is a communicator for each worker, of all servers and that worker alone: what happens to one
 * revokes no other. */
#ifndef TRAIN_PEER_H
#define TRAIN_PEER_H

#include "protocol.h"
#include "report.h"
#include "team.h"

enum peer_state { LISTENING, TAKING, HELD, PARKED, ANSWERING, LEAVING, GONE };

struct peer {
	struct team team; /* its communicator: servers first, then this worker */
	int number;	  /* by order of appearance */
	int servers;
	enum peer_state state;
	tutti_request_t request[2]; /* in flight; NULL: none */
	struct ask ask;
	struct answer answer;
	struct rank_account account;
	const char *wrong; /* what it has sent that cannot be; NULL: nothing */
	void *numbers;	   /* owned: gradients of the shard that come, weights that go */
	size_t count;	   /* of these */
	const struct numbers *type;
	uint64_t asks;		 /* that have come */
	bool computing;		 /* and what it pushes next … */
	uint64_t version;	 /* … is of these weights */
	bool lost;		 /* not gone in order */
	bool hangs;		 /* lost since it did not call in time: alive, perhaps */
	int patience;		 /* deadlines that it has for its part of a message */
	double samples;		 /* that updates have been made of */
	double parked_s;	 /* since when it has waited for a task */
	double given_s, takes_s; /* when it was given its last task; how long one takes, of late */
};

/* `comm` is the peer's from now on, whatever is returned. */
tutti_result_t peer_create(tutti_comm_t comm, int origin, int servers, const struct numbers *type,
			   size_t count, struct peer **out, struct why *why);
/* Requests that are in flight are dropped. */
void peer_destroy(struct peer *peer);

tutti_result_t peer_listen(struct peer *peer, struct why *why);
/* The gradients that the last ask announced; the account likewise. */
tutti_result_t peer_take(struct peer *peer, struct why *why);
tutti_result_t peer_take_account(struct peer *peer, struct why *why);
/* peer->answer, and `weights` behind it unless that is NULL: they may change afterwards. */
tutti_result_t peer_answer(struct peer *peer, const void *weights, struct why *why);

/* Its communicator is revoked: wait for what is in flight. Gives the rank that the fault is about, -1
 * for none. */
int peer_give_up(struct peer *peer);

#endif
