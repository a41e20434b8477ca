/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the control links: a sparse graph among the ranks that use TCP, rank r with r ± 2^k, over
 * which faults are flooded and good-byes said, and whose end without a good-bye is the death of
 * a rank.
 *
 * A message is kind:4 length:4 and `length` bytes: revoke with result:4 rank:4 chain:4 seq:8 text;
 * reject, the same of a rank that will not join; good-bye with none; a note of the runtime with
 * TT_NOTE_BYTES. A fault is passed on once, before anything else, so that whoever leaves because of
 * it has told its neighbours first. Of several, each that is better than what was known is. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "endpoint.h"
#include "numbers.h"
#include "process.h"
#include "wire.h"

enum message { REVOKE = 1, GOOD_BYE = 2, NOTE = 3, REJECT = 4 };
#define DECLINE_MS   1000 /* for neighbours to take the news */
#define HOPE_MS	     50	  /* between questions whether there is any */
#define HEAD_BYTES   8
#define REVOKE_BYTES 20 /* and the text */
#define TEXT_MAX     (sizeof(((struct tt_fault *)0)->text) - 1)
static_assert(HEAD_BYTES + REVOKE_BYTES + TEXT_MAX <= TCP_MESSAGE_MAX, "a revoke fits");

static bool power_of_two(int n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

static bool neighbour(const struct tcp_endpoint *e, int other)
{
	const int up = (other - e->rank + e->size) % e->size;

	return other != e->rank && e->known[other].use &&
	       (power_of_two(up) || power_of_two(e->size - up));
}

/* Control messages are few and short: where one does not fit, the peer has long stopped reading. */
static void tell(struct tcp_control *control, const uint8_t *bytes, size_t length)
{
	if (control->source.connection.fd < 0 || control->deaf)
		return;
	const ssize_t sent = tt_connection_send(control->source.connection, bytes, length);

	/* a record of TLS that did not fit is to be sent before anything else */
	control->deaf =
		sent >= 0 ? sent != (ssize_t)length : control->source.connection.tls != NULL;
	if (sent != (ssize_t)length)
		tt_log(DEBUG, TCP, "rank %d cannot be informed: %s", control->peer,
		       strerror(errno));
}

static uint8_t *head(uint8_t *at, enum message kind, size_t length)
{
	at = wire_put(at, kind, 4);
	return wire_put(at, length, 4);
}

static void report_fault(const struct tcp_endpoint *e, struct tcp_control *control)
{
	const struct tt_fault *fault = &e->base.fault;
	const size_t text = strnlen(fault->text, TEXT_MAX);
	uint8_t bytes[TCP_MESSAGE_MAX],
		*at = head(bytes, e->rejected ? REJECT : REVOKE, REVOKE_BYTES + text);

	at = wire_put(at, (uint32_t)fault->result, 4);
	at = wire_put(at, (uint32_t)fault->rank, 4);
	at = wire_put(at, fault->chain, 4);
	at = wire_put(at, fault->seq, 8);
	memcpy(at, fault->text, text);
	tell(control, bytes, (size_t)(at - bytes) + text);
}

static void note_fault(struct tcp_endpoint *e, const struct tt_fault *fault)
{
	struct tt_fault *own = &e->base.fault;

	own->rank = fault->rank;
	own->chain = fault->chain;
	own->seq = fault->seq;
	memcpy(own->text, fault->text, sizeof(own->text));
	own->text[TEXT_MAX] = 0;
	/* release: whoever reads the result without the lock finds the rest written */
	__atomic_store_n(&own->result, fault->result, __ATOMIC_RELEASE);
	tt_log(INFO, TCP, "rank %d learns: %s", e->rank, own->text);
}

/* `rejects`: it is of a rank that will not join. */
static void learn(struct tcp_endpoint *e, const struct tt_fault *fault, bool rejects,
		  const struct tcp_control *except)
{
	const bool better = !e->base.fault.result || tt_fault_before(fault, &e->base.fault);

	if (!better && (!rejects || e->rejected))
		return; /* whoever does not know the better one has been told it */
	e->rejected |= rejects;
	if (better)
		note_fault(e, fault);
	for (struct tcp_control *c = e->controls; c; c = c->next)
		if (c != except)
			report_fault(e, c);
}

void tt_tcp_fault(struct tcp_endpoint *e, const struct tt_fault *fault,
		  const struct tcp_control *except)
{
	learn(e, fault, false, except);
}

void tt_tcp_own_fault(struct tcp_endpoint *e, const struct tt_fault *fault)
{
	if (e->joined)
		tt_tcp_fault(e, fault, NULL);
	else if (!e->trouble.result)
		e->trouble = *fault;
}

static void hang_up(struct tcp_endpoint *e, struct tcp_control *control)
{
	tt_tcp_unwatch(e, &control->source);
	tt_fd_close(control->source.connection.fd);
	control->source.connection.fd = -1;
}

bool tt_tcp_has_died(const struct tcp_endpoint *e, int rank)
{
	const struct tt_peer *peer = &e->known[rank];

	return peer->pid > 0 && peer->process != e->known[e->rank].process &&
	       tt_process_has_ended(peer->pid);
}

/* Is the end of a control link news? Not if a fault is known: who goes then goes because of it.
 * A peer may have told of one that this rank, stopped or busy, has not read yet. */
static bool is_news(struct tcp_endpoint *e)
{
	const struct tt_fault *fault = &e->base.fault;

	/* a rank that could not join for another's sake does not say for whose, but by name */
	return !tt_tcp_receive_all(e) || (fault->rank < 0 && fault->result == TUTTI_ERR_PEER_LOST);
}

bool tt_tcp_receive_all(struct tcp_endpoint *e)
{
	if (!e->base.fault.result && !e->hearing) {
		e->hearing = true;
		for (struct tcp_control *c = e->controls; c; c = c->next)
			tt_tcp_control_step(e, c);
		e->hearing = false;
	}
	return e->base.fault.result;
}

/* The kernel's probes had no answer. */
static bool is_silence(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

static void fell_silent(struct tcp_endpoint *e, struct tcp_control *control)
{
	struct tt_fault fault = { TUTTI_ERR_PEER_LOST, control->peer, "" };

	hang_up(e, control);
	if (!is_news(e))
		return;
	tt_print(
		fault.text, sizeof(fault.text),
		"rank %d at %s is lost: its host has answered rank %d nothing for %g s; the host is "
		"down, or the network between the two (TUTTI_SILENCE sets how long to wait)",
		control->peer, control->where, e->rank, e->silence_s);
	tt_tcp_fault(e, &fault, control);
}

static void lost(struct tcp_endpoint *e, struct tcp_control *control, const char *how)
{
	struct tt_fault fault = { TUTTI_ERR_PEER_LOST, control->peer, "" };

	hang_up(e, control);
	if (e->peers[control->peer].left || !is_news(e))
		return;
	if (e->joined && tt_tcp_is_cut_off(e)) {
		tt_tcp_report_cut_off(e, &fault);
		tt_tcp_fault(e, &fault, control);
		return;
	}
	/* what was heard meanwhile is of somebody who found out at the same time: the better of
	 * the two stays */
	snprintf(fault.text, sizeof(fault.text),
		 "rank %d at %s died or lost its connection: rank %d found the control connection "
		 "%s; "
		 "rank %d's output and the kernel log of its host may say why",
		 control->peer, control->where, e->rank, how, control->peer);
	tt_tcp_fault(e, &fault, control);
}

static bool receive_revoke(struct tcp_endpoint *e, struct tcp_control *control, const uint8_t *at,
			   size_t length, bool rejects)
{
	struct tt_fault fault = { 0 };

	if (length < REVOKE_BYTES || length > REVOKE_BYTES + TEXT_MAX)
		return false;
	fault.result = (int32_t)wire_get(&at, 4);
	fault.rank = (int32_t)wire_get(&at, 4);
	fault.chain = (uint32_t)wire_get(&at, 4);
	fault.seq = wire_get(&at, 8);
	memcpy(fault.text, at, length - REVOKE_BYTES);
	if (!tt_fault_check(&fault, e->size))
		return false;
	learn(e, &fault, rejects, control);
	return true;
}

static bool receive_note(struct tcp_endpoint *e, const uint8_t *at, size_t length)
{
	if (length != TT_NOTE_BYTES)
		return false;
	memcpy(e->notes[e->notes_in++ % TT_NOTES_KEPT], at, length);
	return true;
}

void tt_tcp_send_note(struct tt_endpoint *endpoint, const void *note)
{
	struct tcp_endpoint *e = tcp_endpoint_of(endpoint);
	uint8_t bytes[HEAD_BYTES + TT_NOTE_BYTES];

	memcpy(head(bytes, NOTE, TT_NOTE_BYTES), note, TT_NOTE_BYTES);
	for (struct tcp_control *c = e->controls; c; c = c->next)
		tell(c, bytes, sizeof(bytes));
}

bool tt_tcp_receive_note(struct tt_endpoint *endpoint, void *note)
{
	struct tcp_endpoint *e = tcp_endpoint_of(endpoint);

	if (e->notes_out == e->notes_in)
		return false;
	if (e->notes_in - e->notes_out > TT_NOTES_KEPT)
		e->notes_out = e->notes_in - TT_NOTES_KEPT;
	memcpy(note, e->notes[e->notes_out++ % TT_NOTES_KEPT], TT_NOTE_BYTES);
	return true;
}

/* Takes one message off the front. False: what came is no message. */
static bool hear(struct tcp_endpoint *e, struct tcp_control *control, bool *complete)
{
	const uint8_t *at = control->in;
	uint64_t kind, length;
	bool known = false;

	*complete = false;
	if (control->got < HEAD_BYTES)
		return true;
	kind = wire_get(&at, 4);
	length = wire_get(&at, 4);
	if (length > TCP_MESSAGE_MAX - HEAD_BYTES)
		return false;
	if (control->got < HEAD_BYTES + length)
		return true;
	if (kind == REVOKE || kind == REJECT)
		known = receive_revoke(e, control, at, length, kind == REJECT);
	if (kind == NOTE)
		known = receive_note(e, at, length);
	if (kind == GOOD_BYE && length == 0)
		known = e->peers[control->peer].left = true;
	control->got -= HEAD_BYTES + length;
	memmove(control->in, at + length, control->got);
	*complete = true;
	return known;
}

void tt_tcp_control_step(struct tcp_endpoint *e, struct tcp_control *control)
{
	while (control->source.connection.fd >= 0) {
		const ssize_t n = tt_connection_receive(control->source.connection,
							control->in + control->got,
							sizeof(control->in) - control->got);
		bool complete = true, fine = true;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 && e->hearing)
			return; /* its turn will come */
		if (n < 0 && is_silence(errno) && !e->peers[control->peer].left) {
			fell_silent(e, control);
			return;
		}
		if (n <= 0) {
			lost(e, control, n < 0 ? strerror(errno) : "closed");
			return;
		}
		control->got += (size_t)n;
		while (complete && fine)
			fine = hear(e, control, &complete);
		if (!fine)
			lost(e, control, "carrying something that is no message of tutti");
	}
}

tutti_result_t tt_tcp_control_attach(struct tcp_endpoint *e, struct tt_connection connection,
				     int peer)
{
	struct tcp_control *control = calloc(1, sizeof(*control));
	const int fd = connection.fd;

	if (!control) {
		tt_tcp_close_orderly(connection);
		return tt_fail(TUTTI_ERR_NO_MEMORY, TCP,
			       "no memory for the control link with rank %d", peer);
	}
	control->source = (struct tcp_source){ TCP_CONTROL, connection };
	control->peer = peer;
	tt_tcp_watch_silence(fd, e->silence_s);
	tt_tcp_peer_text(fd, control->where);
	if (!tt_tcp_watch(e, &control->source, EPOLLIN)) {
		tt_tcp_close_orderly(connection);
		free(control);
		return tt_fail_errno(TCP, "watch the control link with rank %d", peer);
	}
	control->next = e->controls;
	e->controls = control;
	e->peers[peer].control = control;
	if (e->base.fault.result)
		report_fault(e, control);
	if (connection.tls) /* what was decrypted with the handshake's last bytes, no socket
			   * announces */
		tt_tcp_control_step(e, control);
	return TUTTI_OK;
}

static int missing(const struct tcp_endpoint *e)
{
	for (int other = 0; other < e->size; other++)
		if (neighbour(e, other) && !e->peers[other].control)
			return other;
	return -1;
}

/* Those below it dial. */
bool tt_tcp_awaits_pending(const struct tcp_endpoint *e)
{
	const int absent = e->known ? missing(e) : -1;

	return e->waiting > 0 || (absent >= 0 && absent < e->rank);
}

static tutti_result_t call_neighbours(struct tcp_endpoint *e)
{
	for (int other = e->rank + 1; other < e->size; other++) {
		const struct tt_hello hello = { TCP_FOR_CONTROL, 0, e->comm_id, e->rank, other };
		tutti_result_t result;

		if (!neighbour(e, other) || e->peers[other].control || tt_tcp_dialling(e, other))
			continue;
		result = tt_tcp_dial(e, &hello);
		if (result < 0)
			return result;
	}
	return TUTTI_OK;
}

/* A control link tells; and where nobody listens any more, it is gone. If it cannot be reached
 * from here, it may still call, which it was to do anyway. */
void tt_tcp_control_ask(struct tcp_endpoint *e, int peer)
{
	const struct tt_hello hello = { TCP_FOR_CONTROL, 0, e->comm_id, e->rank, peer };

	if (!e->peers[peer].control && !tt_tcp_dialling(e, peer) && tt_tcp_dial(e, &hello) < 0)
		tt_log(DEBUG, TCP, "rank %d does not know whether rank %d is there: %s", e->rank,
		       peer, tt_thread_error());
}

static tutti_result_t too_late(const struct tcp_endpoint *e, int absent)
{
	const char *trouble = tt_tcp_dial_trouble(e, absent);

	return tt_fail(
		TUTTI_ERR_TIMEOUT, TCP,
		"rank %d and rank %d have no control connection at the deadline%s%s; is rank %d "
		"still there, and does a firewall keep their hosts apart?",
		e->rank, absent, *trouble ? ": " : "", trouble, absent);
}

/* A lower rank that ended before it called this one: nothing on the network says so. -1: none
 * that this rank can see. */
static int dead_caller(const struct tcp_endpoint *e)
{
	for (int other = 0; other < e->rank; other++)
		if (neighbour(e, other) && !e->peers[other].control && tt_tcp_has_died(e, other))
			return other;
	return -1;
}

static tutti_result_t check_elsewhere(const struct tcp_endpoint *e)
{
	return e->should_abort ? e->should_abort(e->context) : TUTTI_OK;
}

/* TUTTI_OK: ranks that are missing may still come. What all are told goes first. A process that
 * has ended may have joined and left: what it said before is there by then, and has been read when
 * it is found again. */
static tutti_result_t give_up_hope(struct tcp_endpoint *e, int *suspect)
{
	const tutti_result_t told = check_elsewhere(e);
	const int dead = told ? -1 : dead_caller(e), before = *suspect;

	*suspect = dead;
	if (dead >= 0 && dead == before)
		return tt_fail(
			TUTTI_ERR_PEER_LOST, TCP,
			"rank %d (pid %d) died while rank %d waited for its call; see its own output for the cause",
			dead, (int)e->known[dead].pid, e->rank);
	return told;
}

/* Is somebody not to join? Who says so rejects; who dies or is silent cannot. Any other fault is of an
 * operation, or of a program that aborts: ranks that have joined may be as far, and this one is still
 * to have a communicator that tells it of that. */
static bool is_hopeless(const struct tcp_endpoint *e)
{
	const int32_t result = e->base.fault.result;

	return e->trouble.result || e->rejected || result == TUTTI_ERR_PEER_LOST ||
	       result == TUTTI_ERR_TIMEOUT;
}

tutti_result_t tt_tcp_control_join(struct tcp_endpoint *e, uint64_t deadline)
{
	tutti_result_t result = call_neighbours(e);
	uint64_t doubt_at = tt_now() + HOPE_MS * TCP_MS;
	int absent = -1, suspect = -1;

	while (result == TUTTI_OK && !is_hopeless(e) && (absent = missing(e)) >= 0) {
		const uint64_t now = tt_now(), due = tt_tcp_due(e);
		const uint64_t sooner = due < deadline ? due : deadline;

		if (now >= deadline)
			return too_late(e, absent);
		if (now >= doubt_at) {
			result = give_up_hope(e, &suspect);
			doubt_at = now + HOPE_MS * TCP_MS;
		}
		if (result == TUTTI_OK)
			tt_tcp_poll(e, tt_tcp_ms_until(now, sooner < doubt_at ? sooner : doubt_at));
	}
	if (result == TUTTI_OK && is_hopeless(e)) {
		/* who has left for that reason cannot be reached either */
		const struct tt_fault *why = e->base.fault.result ? &e->base.fault : &e->trouble;

		result = tt_fail((tutti_result_t)why->result, TCP, "%s", why->text);
	}
	e->joined = result == TUTTI_OK;
	return result;
}

/* A rank that has this one's answer may believe to have joined. */
static bool is_waited_for(const struct tcp_endpoint *e)
{
	return missing(e) >= 0 && (e->pending_count > 0 || !check_elsewhere(e));
}

/* Control links carry the fault as soon as they are up, also those that the peers dial; who
 * knows it anyway need not come. */
void tt_tcp_control_reject(struct tcp_endpoint *e, const struct tt_fault *fault)
{
	const uint64_t enough = tt_now() + DECLINE_MS * TCP_MS;
	uint64_t now;

	learn(e, fault, true, NULL);
	tt_tcp_sleep_close(e); /* descriptors for this, where there are no others */
	call_neighbours(e);
	while (is_waited_for(e) && (now = tt_now()) < enough) {
		const uint64_t due = tt_tcp_due(e), again = now + HOPE_MS * TCP_MS;
		const uint64_t sooner = again < enough ? again : enough;

		tt_tcp_poll(e, tt_tcp_ms_until(now, due < sooner ? due : sooner));
	}
	tt_tcp_stop_listening(e); /* who dials from now on is not kept waiting */
}

void tt_tcp_control_leave(struct tcp_endpoint *e)
{
	uint8_t bytes[HEAD_BYTES];

	head(bytes, GOOD_BYE, 0);
	while (e->controls) {
		struct tcp_control *control = e->controls;

		e->controls = control->next;
		tell(control, bytes, sizeof(bytes));
		tt_tcp_unwatch(e, &control->source);
		tt_tcp_close_orderly(control->source.connection);
		free(control);
	}
}
