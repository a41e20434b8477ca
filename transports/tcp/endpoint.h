/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this directory share: the endpoint and the objects it owns. All of it is under
 * the communicator's lock but for the descriptors that sleep() and interrupt() use, which never
 * change.
 *
 * Way of a connection: the lower rank of a pair dials (dial.c), the higher accepts a pending
 * connection (listen.c); once the handshake (handshake.h) names rank, purpose and channel,
 * tt_tcp_connected() gives the socket to its link (link.c), keeps it until that link is asked
 * for, or makes it a control link (control.c). */
#ifndef TT_TCP_ENDPOINT_H
#define TT_TCP_ENDPOINT_H

#include <pthread.h>

#include "address.h"
#include "fork.h"
#include "handshake.h"
#include "log.h"
#include "tls.h"
#include "transport.h"

#define TCP_PENDING_MAX	 64   /* connections whose handshake is not complete */
#define TCP_SLEEPERS_MAX 64   /* threads that sleep at once; more would not sleep but poll */
#define TCP_MESSAGE_MAX	 1024 /* bytes of a control message */
#define TCP_MS		 UINT64_C(1000000)
#define TCP_DOUBT_MS                                                                               \
	100 /* one connection may end before another has brought what was sent on it earlier */

enum tcp_purpose { TCP_FOR_DATA, TCP_FOR_CONTROL }; /* of a hello */
extern const struct tt_protocol tt_tcp_protocol;

/* What the inner epoll hands back; the first member of whatever it watches. Released objects stay
 * allocated, with fd -1, until all events of a batch have been looked at. */
enum tcp_kind { TCP_LISTENER, TCP_PENDING, TCP_ATTEMPT, TCP_CONTROL };
struct tcp_source {
	enum tcp_kind kind;
	struct tt_connection connection;
};

/* First member of what is freed after a batch. */
struct tcp_released {
	struct tcp_released *next;
};

struct tcp_pending {
	struct tcp_released released;
	struct tcp_source source;
	struct sockaddr_storage from;
	struct tt_pending handshake;
};

enum tcp_attempt_state { TCP_UNTRIED, TCP_CONNECTING, TCP_ASKING, TCP_FAILED };
struct tcp_attempt {
	struct tcp_source source;
	struct tcp_dial *dial;
	struct tcp_candidate candidate;
	enum tcp_attempt_state state;
	uint64_t deadline; /* while connecting */
	struct tt_dialing handshake;
};

struct tcp_dial {
	struct tcp_released released;
	struct tcp_dial *next;
	struct tcp_endpoint *endpoint;
	struct tt_hello hello;
	int count, begun, alive; /* attempts: all, started in this round, not failed of those */
	int round;
	bool shortage; /* it ends for want of descriptors or memory here */
	int refused;   /* attempts of this round: nobody listens there … */
	int silent;    /* … nothing came back */
	uint64_t next_at;
	char last[320]; /* why the last attempt failed */
	struct tcp_attempt attempts[];
};

struct tcp_control {
	struct tcp_source source;
	bool deaf; /* it took a message in part, or none: whatever came next would be no message */
	struct tcp_control *next;
	int peer;
	size_t got;
	uint8_t in[TCP_MESSAGE_MAX];
	char where[TCP_ADDRESS_TEXT];
};

/* One of a link's connections. */
struct tcp_rail {
	struct tt_connection connection; /* fd -1: not there */
	uint32_t watched;		 /* events the outer epoll looks for on its socket */
	bool counted, failed;		 /* by the dialer: the peer has it; it will not come */
	uint64_t acked, silent_since;	 /* bytes acknowledged, while others are not; or 0 */
};

enum tcp_link_state {
	TCP_LINK_WAITING,
	TCP_LINK_NEGOTIATING, /* the first connection is there: see rails.c */
	TCP_LINK_UP,
	TCP_LINK_ENDED,
	TCP_LINK_FAILED
}; /* the last two: for good */
struct tcp_link {
	struct tt_link base;
	enum tt_channel channel;
	enum tcp_link_state state;
	/* The last read wanted more than there was; the last write had more than there was room
	 * for. Only then is the socket watched while threads sleep, so that bytes nobody asks for
	 * yet wake nobody. */
	bool starved, blocked;
	uint64_t believed_at;  /* ended: when to report it … */
	int error;	       /* … and the errno value of it, or 0 */
	tutti_result_t result; /* failed: why, and the error message */
	char why[384];
	uint8_t *scratch; /* bytes begin … end - 1 have arrived and are not released */
	size_t begin, end;
	uint64_t sent, received;   /* bytes of the stream */
	struct tcp_spread *spread; /* NULL: the first rail has all of it */
	int count;		   /* of rails that there may be */
	struct tcp_rail rail[];
};

/* A connection that was accepted before its link was asked for. */
struct tcp_kept {
	struct tcp_kept *next;
	struct tt_connection connection;
	int peer, slot; /* see tcp_slot() */
};

struct tcp_sleeper {
	pthread_t thread;
	bool called; /* armed when interrupt() came, and has not disarmed since */
};

/* What this rank knows of another. */
struct tcp_peer {
	struct tcp_link *link[TT_CHANNELS];
	struct tcp_control *control;
	uint8_t proven;	   /* place, from 1, of the candidate that worked before */
	uint8_t dead_ways; /* by their numbers: rails of which nothing came back */
	bool reported;	   /* that there are fewer rails than there may be */
	bool left;	   /* said good-bye */
	bool gone;	   /* nobody listens any more where it did */
	uint64_t lost_at;  /* when to believe that it is gone, although its last words may be on
			   * their way; or 0 */
};

struct tcp_endpoint {
	struct tt_endpoint base;
	uint64_t comm_id;
	int rank, size;
	struct tt_listener admission;		       /* of all connections, dialled ones too */
	tutti_result_t (*should_abort)(void *context); /* see tt_endpoint_config */
	void *context;
	struct tcp_card card;
	struct tcp_lack lack;
	const struct tt_peer *known; /* from join() on */
	struct tcp_peer *peers;
	struct tcp_kept *kept;
	double silence_s;
	int buffer; /* TUTTI_TCP_BUFFER in bytes, 0: the kernel's autotuning */

	struct tcp_source listener;
	uint64_t listen_again_at; /* accepting paused for want of room, until then; or 0 */
	uint64_t short_since;	  /* none was to be had since then; or 0 */
	int shortage;		  /* an errno value */
	struct tcp_pending *pending[TCP_PENDING_MAX];
	struct tt_log_quota turned_away; /* lines about connections that were turned away */
	struct tcp_dial *dials;
	struct tcp_control *controls;
	uint8_t notes[TT_NOTES_KEPT][TT_NOTE_BYTES]; /* in turn; positions only grow */
	uint64_t notes_in, notes_out;
	bool hearing; /* what control links say, before one that ended is blamed */
	int pending_count, dial_count, waiting; /* waiting: links that the peer is to dial */
	int negotiating;			/* links that do, about several rails … */
	int rails_dialled;			/* … and what they dial */
	uint64_t doubt_until;	 /* when the last end of a stream is to be believed */
	uint64_t rails_check_at; /* whether their ways still answer; 0: no link has several */
	bool joined;
	bool rejected;		 /* by a rank: not all will join */
	struct tt_fault trouble; /* this rank's own, while it joins: decline() tells the others */

	int watch;    /* inner epoll: sources; what progress() looks at */
	int sleep_on; /* outer epoll: watch, doorbell, timer, sockets of links that starve or are
			 blocked */
	int doorbell; /* eventfd of interrupt() */
	int timer;    /* timerfd: when something is due that no descriptor announces */
	bool timer_set;
	bool called;  /* atomic: interrupt() rang, not yet noted in sleepers */
	bool ringing; /* the doorbell is to be silenced */
	int armed;    /* threads in sleepers */
	int unlisted; /* threads armed for which that has no room: the bell rings until
		       * they have gone */
	struct tcp_sleeper sleepers[TCP_SLEEPERS_MAX];

	struct tcp_released *released; /* freed after the batch */
};

/* What a hello says in place of a channel: which rail of it. */
static inline int tcp_slot(int channel, int rail)
{
	return channel + TT_CHANNELS * rail;
}

static inline struct tcp_endpoint *tcp_endpoint_of(struct tt_endpoint *base)
{
	return (struct tcp_endpoint *)base;
}

/* socket.c */
void tt_tcp_tune(const struct tcp_endpoint *e, int fd, bool local);
/* Let the kernel break the connection when the other host has answered nothing for so long. */
void tt_tcp_watch_silence(int fd, double seconds);
bool tt_tcp_is_local(int fd);
void tt_tcp_close_orderly(struct tt_connection connection);
void tt_tcp_peer_text(int fd, char text[TCP_ADDRESS_TEXT]);

/* listen.c */
tutti_result_t tt_tcp_listen(struct tcp_endpoint *e);
/* Is a hello that says this welcome to the endpoint? */
enum tt_verdict tt_tcp_judge(const void *endpoint, const struct tt_hello *hello);
void tt_tcp_stop_listening(struct tcp_endpoint *e);
void tt_tcp_accept(struct tcp_endpoint *e);
void tt_tcp_pending_step(struct tcp_endpoint *e, struct tcp_pending *pending);
void tt_tcp_pending_expire(struct tcp_endpoint *e, uint64_t now);

/* dial.c */
tutti_result_t tt_tcp_dial(struct tcp_endpoint *e, const struct tt_hello *hello);
/* The same at one address, once. */
tutti_result_t tt_tcp_dial_way(struct tcp_endpoint *e, const struct tt_hello *hello,
			       const struct tcp_candidate *way);
/* Why the last attempt to reach `peer` failed; "" if none did. */
const char *tt_tcp_dial_trouble(const struct tcp_endpoint *e, int peer);
/* Is `peer` being dialled? */
bool tt_tcp_dialling(const struct tcp_endpoint *e, int peer);
void tt_tcp_dial_step(struct tcp_dial *dial, uint64_t now);
void tt_tcp_attempt_step(struct tcp_attempt *attempt, uint64_t now);
/* Has nothing come back yet of the dial for that slot? */
bool tt_tcp_dial_is_silent(const struct tcp_endpoint *e, int peer, int slot);
uint64_t tt_tcp_dial_due(const struct tcp_dial *dial);
/* Its connection is not wanted any more. */
void tt_tcp_dial_drop(struct tcp_endpoint *e, int peer, int slot);
void tt_tcp_dials_drop(struct tcp_endpoint *e);

/* link.c */
tutti_result_t tt_tcp_link_connect(struct tt_endpoint *base, int peer, enum tt_channel channel,
				   struct tt_link **out);
ssize_t tt_tcp_link_write(struct tt_link *base, const struct iovec *iov, int n);
ssize_t tt_tcp_link_read(struct tt_link *base, const struct iovec *iov, int n);
ssize_t tt_tcp_link_peek(struct tt_link *base, size_t want, size_t limit, const void **data);
void tt_tcp_link_release(struct tt_link *base, size_t bytes);
bool tt_tcp_link_ready(const struct tt_link *base);
void tt_tcp_link_close(struct tt_link *base);
void tt_tcp_link_attach(struct tcp_link *link, int rail, struct tt_connection connection);
/* It moves bytes from now on. */
void tt_tcp_link_up(struct tcp_link *link);
/* It has ended before that. */
void tt_tcp_link_ended(struct tcp_link *link, int error);
/* As sendmsg() and recvmsg(). */
ssize_t tt_tcp_rail_send(const struct tcp_rail *rail, const struct iovec *iov, int n, size_t bytes);
ssize_t tt_tcp_rail_receive(const struct tcp_rail *rail, const struct iovec *iov, int n);
void tt_tcp_link_fail(struct tcp_link *link, const struct tt_fault *fault);

/* rails.c */
/* The most that a link with the peer may have. */
int tt_tcp_rails_of(const struct tcp_endpoint *e, int peer, enum tt_channel channel);
/* The first of several is there; false: no memory. tt_tcp_negotiate_all() does the rest, in the
 * passes that follow, and tt_tcp_negotiation_end() ends what is under way, whenever. */
bool tt_tcp_negotiation_begin(struct tcp_link *link);
void tt_tcp_negotiation_end(struct tcp_link *link);
void tt_tcp_negotiate_all(struct tcp_endpoint *e);
/* When to look although nothing happened. */
uint64_t tt_tcp_negotiation_due(const struct tcp_link *link);
/* Is the next byte on the first rail about the rails? On another one? */
bool tt_tcp_awaits_weights(const struct tcp_link *link);
bool tt_tcp_awaits_answer(const struct tcp_link *link, int rail);
/* A further rail will not come; NULL is fine. */
void tt_tcp_rail_failed(struct tcp_link *link, int rail);
/* A connection has come by that hello: if it is a further rail, tell its dialer. */
void tt_tcp_rail_answer(const struct tcp_endpoint *e, const struct tt_hello *hello,
			struct tt_connection connection);
/* The rail that has the stream's bytes from `position` on, and of how many. */
struct tcp_rail *tt_tcp_rail_at(struct tcp_link *link, uint64_t position, size_t *bytes);
/* The end of the communicator, if a rail has brought no answer for too long. */
void tt_tcp_rails_check(struct tcp_endpoint *e, uint64_t now);

/* control.c */
tutti_result_t tt_tcp_control_join(struct tcp_endpoint *e, uint64_t deadline);
/* Does the rank wait for another to dial it? */
bool tt_tcp_awaits_pending(const struct tcp_endpoint *e);
void tt_tcp_control_reject(struct tcp_endpoint *e, const struct tt_fault *fault);
/* Reads all control links; true: a fault is known then. */
bool tt_tcp_receive_all(struct tcp_endpoint *e);
/* Has the process of `rank` ended? False where this one cannot see it. */
bool tt_tcp_has_died(const struct tcp_endpoint *e, int rank);
/* A control link has ended and was hung up: have all, so that it is this rank that is cut off?
 * Blocks for 0.1 s at most. */
bool tt_tcp_is_cut_off(struct tcp_endpoint *e);
void tt_tcp_report_cut_off(const struct tcp_endpoint *e, struct tt_fault *fault);
/* Is the lower rank still there, of which this one would not learn that it has died? */
void tt_tcp_control_ask(struct tcp_endpoint *e, int peer);
tutti_result_t tt_tcp_control_attach(struct tcp_endpoint *e, struct tt_connection connection,
				     int peer);
void tt_tcp_control_step(struct tcp_endpoint *e, struct tcp_control *control);
/* Unless a better one is known, note it and tell all control links but for the one it came from. */
void tt_tcp_fault(struct tcp_endpoint *e, const struct tt_fault *fault,
		  const struct tcp_control *except);
/* A fault of this rank itself. */
void tt_tcp_own_fault(struct tcp_endpoint *e, const struct tt_fault *fault);
void tt_tcp_control_leave(struct tcp_endpoint *e);
void tt_tcp_send_note(struct tt_endpoint *endpoint, const void *note);
bool tt_tcp_receive_note(struct tt_endpoint *endpoint, void *note);

/* wait.c */
tutti_result_t tt_tcp_wait_open(struct tcp_endpoint *e);
void tt_tcp_wait_close(struct tcp_endpoint *e);
/* What only sleeping needs: nobody will. */
void tt_tcp_sleep_close(struct tcp_endpoint *e);
bool tt_tcp_watch(struct tcp_endpoint *e, struct tcp_source *source, uint32_t events);
void tt_tcp_watch_for(struct tcp_endpoint *e, struct tcp_source *source, uint32_t events);
void tt_tcp_unwatch(struct tcp_endpoint *e, struct tcp_source *source);
void tt_tcp_unwatch_rail(const struct tcp_link *link, struct tcp_rail *rail);
void tt_tcp_link_watch(struct tcp_link *link);
void tt_tcp_poll(struct tcp_endpoint *e, int timeout_ms);
/* Milliseconds from `now`, for a timeout: rounded up, a minute at most. */
int tt_tcp_ms_until(uint64_t now, uint64_t due);
/* When something is due that no descriptor announces; UINT64_MAX: never. */
uint64_t tt_tcp_due(const struct tcp_endpoint *e);
void tt_tcp_timer_set(struct tcp_endpoint *e);
void tt_tcp_arm(struct tt_endpoint *base);
void tt_tcp_disarm(struct tt_endpoint *base);
int tt_tcp_fd(struct tt_endpoint *base);
void tt_tcp_sleep(struct tt_endpoint *base, int timeout_ms);
void tt_tcp_interrupt(struct tt_endpoint *base);

/* endpoint.c */
void tt_tcp_release(struct tcp_endpoint *e, struct tcp_released *object);
/* Where that connection is among those that are kept; what it points to is NULL: it is not. */
struct tcp_kept **tt_tcp_find_kept(struct tcp_endpoint *e, int peer, int slot);
/* Takes over the connection that `hello` asked for. */
void tt_tcp_connected(struct tcp_endpoint *e, const struct tt_hello *hello, int peer,
		      struct tt_connection connection);

#endif
