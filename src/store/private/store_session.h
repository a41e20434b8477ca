/* SPDX-License-Identifier: BSD-3-Clause */
/* One client of a store, as those see it that serve it for the host: store_clients.c, which
 * reads what it sends, store_pending.c until it has proven that it belongs to the job, and
 * store_requests.c from then on. */
#ifndef TT_STORE_SESSION_H
#define TT_STORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "handshake.h"
#include "store.h"
#include "store_clients.h"
#include "store_wire.h"
#include "unix_peer.h"

enum tt_client_state {
	TT_CLIENT_PENDING, /* it has not proven yet that it belongs to the job */
	TT_CLIENT_READING_HEADER,
	TT_CLIENT_READING_BODY,
	TT_CLIENT_PARKED,
	TT_CLIENT_ANSWERING,
	TT_CLIENT_GONE
};

struct tt_store_attended {
	bool told;     /* that it was ended, or it ended it itself */
	size_t length; /* of the prefix, behind which is a '/' */
	size_t word_length;
	uint8_t word[TT_WIRE_WORD_MAX]; /* for the others, should the client be lost */
	uint32_t member;		/* see TT_WIRE_ATTEND */
	char who[TT_WIRE_WHO_MAX];
	char prefix[TT_STORE_KEY_MAX + 2];
};

struct tt_store_client {
	struct tt_store_client *prev, *next;		   /* in clients->first or clients->gone */
	struct tt_store_client *prev_waiter, *next_waiter; /* PARKED: in entry->waiters */
	struct tt_store_entry *entry;			   /* PARKED: what it waits for */
	uint64_t deadline; /* PENDING, PARKED; TT_STORE_NEVER elsewhere */
	enum tt_client_state state;
	struct tt_connection connection;
	bool wants_out; /* epoll watches for room */
	struct tt_pending handshake;
	struct tt_wire_header header;
	uint8_t fixed[TT_WIRE_HEADER]; /* header coming in */
	uint8_t *in, *out;	       /* body coming in: key, 0, value; answer going out */
	size_t in_length, in_done, out_length, out_done;
	struct tt_store_attended *attended; /* NULL: nothing */
	const struct tt_store_ending *news; /* to be told with the next answer, or before, if it
					     * has none to wait for */
	char name[TT_UNIX_PEER_TEXT];	    /* for the log */
};

/* It is among those who are there, a pending client. */
void tt_store_client_enter(struct tt_store_clients *clients, struct tt_store_client *client);
/* End the connection, and say `why`, unless it is NULL. It stays in memory until
 * tt_store_clients_bury(). */
void tt_store_client_drop(struct tt_store_clients *clients, struct tt_store_client *client,
			  const char *why);

/* Events are of room to write, not of what comes. */
void tt_store_client_watch_out(struct tt_store_clients *clients, struct tt_store_client *client,
			       bool out);
void tt_store_client_set_deadline(struct tt_store_clients *clients, struct tt_store_client *client,
				  uint64_t deadline);

/* It waits for a key, as long as its request says. */
void tt_store_client_park(struct tt_store_clients *clients, struct tt_store_client *client,
			  struct tt_store_entry *entry);
void tt_store_client_unpark(struct tt_store_clients *clients, struct tt_store_client *client);

/* Done with one message: wait for the next. */
void tt_store_client_read_next(struct tt_store_clients *clients, struct tt_store_client *client);
/* The answer to its request. What does not go at once goes with tt_store_client_write_answer(),
 * when there is room. */
void tt_store_client_answer(struct tt_store_clients *clients, struct tt_store_client *client,
			    enum tt_wire_status status);
void tt_store_client_answer_entry(struct tt_store_clients *clients, struct tt_store_client *client,
				  const struct tt_store_entry *entry);
void tt_store_client_answer_ending(struct tt_store_clients *clients, struct tt_store_client *client,
				   const struct tt_store_ending *ending);
void tt_store_client_write_answer(struct tt_store_clients *clients, struct tt_store_client *client);
/* Its news, unless it waits for an answer, with which they come. */
void tt_store_client_send_news(struct tt_store_clients *clients, struct tt_store_client *client);

#endif
