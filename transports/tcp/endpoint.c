/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the endpoint's life and the transport's table. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "endpoint.h"
#include "environment.h"
#include "tcp.h"

const struct tt_protocol tt_tcp_protocol = {
	.hello = { 't', 'u', 't', 't', 'i', 't', 'c', 'p' },
	.answer = { 't', 'u', 't', 't', 'i', 'a', 'c', 'k' },
	.version = 4,
	.listener = "tutti tcp listener",
	.dialer = "tutti tcp dialer",
};

static void tcp_destroy(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	if (!e)
		return;
	tt_tcp_dials_drop(e);
	tt_tcp_stop_listening(e);
	tt_tcp_control_leave(e);
	while (e->kept) {
		struct tcp_kept *kept = e->kept;

		e->kept = kept->next;
		tt_tcp_close_orderly(kept->connection);
		free(kept);
	}
	while (e->released) {
		struct tcp_released *object = e->released;

		e->released = object->next;
		free(object);
	}
	tt_tcp_wait_close(e);
	tt_tls_close(e->admission.terms.tls);
	free(e->peers);
	free(e);
}

static tutti_result_t tcp_open(const struct tt_endpoint_config *config, struct tt_endpoint **out)
{
	struct tcp_endpoint *e = calloc(1, sizeof(*e));
	tutti_result_t result;

	if (!e)
		return tt_fail(TUTTI_ERR_NO_MEMORY, TCP, "no memory for an endpoint");
	e->base.ops = &tt_transport_tcp;
	e->comm_id = config->comm_id;
	e->rank = config->rank;
	e->size = config->size;
	e->silence_s = config->silence_s;
	e->admission = (struct tt_listener){
		.terms = { .protocol = &tt_tcp_protocol, .key = config->key },
		.rank = config->rank,
		.judge = tt_tcp_judge,
		.context = e,
	};
	e->should_abort = config->should_abort;
	e->context = config->context;
	e->listener.connection.fd = e->watch = e->sleep_on = e->doorbell = e->timer = -1;
	e->peers = calloc((size_t)config->size, sizeof(*e->peers));
	result = e->peers ? tt_tcp_buffer_size(getenv("TUTTI_TCP_BUFFER"), &e->buffer)
			  : tt_fail(TUTTI_ERR_NO_MEMORY, TCP,
				    "no memory for an endpoint of %d ranks", config->size);
	if (result == TUTTI_OK)
		result = tt_tcp_rails(getenv("TUTTI_TCP_RAILS"), &e->card.rails);
	if (result == TUTTI_OK && e->admission.terms.key && e->admission.terms.key->encrypt)
		result = tt_tls_open(e->admission.terms.key, "connections to other ranks",
				     &e->admission.terms.tls);
	if (result == TUTTI_OK && tt_key_is_set(e->admission.terms.key))
		result = tt_tcp_interfaces(&e->card, &e->lack);
	if (result == TUTTI_OK)
		result = tt_tcp_wait_open(e);
	if (result == TUTTI_OK)
		result = tt_tcp_listen(e);
	if (result < 0) {
		tcp_destroy(&e->base);
		return result;
	}
	*out = &e->base;
	return TUTTI_OK;
}

static size_t tcp_address(const struct tt_endpoint *base, void *out)
{
	return tt_tcp_card_write(&((const struct tcp_endpoint *)base)->card, out);
}

/* The lower rank dials. */
static bool tcp_reach(const struct tt_peer *a, const struct tt_peer *b)
{
	const struct tt_peer *low = a->rank < b->rank ? a : b, *high = low == a ? b : a;
	struct tcp_card from, to;

	return tt_tcp_card_read(low->address, low->address_length, &from) &&
	       tt_tcp_card_read(high->address, high->address_length, &to) &&
	       tt_tcp_connectable(&from, &to);
}

static void tcp_explain(const struct tt_peer *a, const struct tt_peer *b, char *text, size_t size)
{
	const struct tt_peer *low = a->rank < b->rank ? a : b, *high = low == a ? b : a;
	struct tcp_card from, to;

	if (tt_tcp_card_read(low->address, low->address_length, &from) &&
	    tt_tcp_card_read(high->address, high->address_length, &to))
		tt_tcp_explain(&from, &to, high->rank, text, size);
}

static bool tcp_lacks(const struct tt_endpoint *base, char *text, size_t size)
{
	const struct tcp_endpoint *e = (const struct tcp_endpoint *)base;

	snprintf(text, size, "%s", e->lack.text);
	return e->lack.coming;
}

static void tcp_await(struct tt_endpoint *base, uint64_t deadline)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	if (e->lack.coming)
		tt_tcp_await_interface(&e->card, &e->lack, deadline);
}

static tutti_result_t tcp_join(struct tt_endpoint *base, const struct tt_peer *peers, int size,
			       uint64_t deadline)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);
	bool any = false;

	e->known = peers;
	for (int i = 0; i < size; i++)
		any |= i != e->rank && peers[i].use;
	if (!any)
		tt_tcp_stop_listening(e);
	return tt_tcp_control_join(e, deadline);
}

static void tcp_reject(struct tt_endpoint *base, const struct tt_peer *peers, int size,
		       const struct tt_fault *fault)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	e->known = peers;
	tt_tcp_control_reject(e, fault);
}

void tt_tcp_release(struct tcp_endpoint *e, struct tcp_released *object)
{
	object->next = e->released;
	e->released = object;
}

struct tcp_kept **tt_tcp_find_kept(struct tcp_endpoint *e, int peer, int slot)
{
	struct tcp_kept **at = &e->kept;

	while (*at && ((*at)->peer != peer || (*at)->slot != slot))
		at = &(*at)->next;
	return at;
}

static void keep(struct tcp_endpoint *e, int peer, int slot, struct tt_connection connection)
{
	struct tcp_kept *kept = malloc(sizeof(*kept));

	if (!kept) { /* the peer takes it for made, and would wait */
		struct tt_fault fault = { .result = TUTTI_ERR_NO_MEMORY, .rank = e->rank };

		snprintf(fault.text, sizeof(fault.text),
			 "rank %d: no memory for a connection with rank %d", e->rank, peer);
		tt_tcp_close_orderly(connection);
		tt_tcp_own_fault(e, &fault);
		return;
	}
	*kept = (struct tcp_kept){ e->kept, connection, peer, slot };
	e->kept = kept;
}

void tt_tcp_connected(struct tcp_endpoint *e, const struct tt_hello *hello, int peer,
		      struct tt_connection connection)
{
	struct tcp_link *link = e->peers[peer].link[hello->channel % TT_CHANNELS];

	if (hello->purpose == TCP_FOR_DATA)
		tt_tcp_rail_answer(e, hello, connection);
	if (hello->purpose == TCP_FOR_CONTROL) {
		struct tt_fault fault = { .rank = e->rank };

		fault.result = tt_tcp_control_attach(e, connection, peer);
		if (fault.result == TUTTI_OK)
			return;
		snprintf(fault.text, sizeof(fault.text), "rank %d: %.350s", e->rank,
			 tt_thread_error());
		tt_tcp_own_fault(e, &fault);
	} else if (link && link->state <= TCP_LINK_NEGOTIATING &&
		   hello->channel / TT_CHANNELS < link->count) {
		tt_tcp_link_attach(link, hello->channel / TT_CHANNELS, connection);
	} else if (link) { /* a rail that comes too late */
		tt_tcp_close_orderly(connection);
	} else {
		keep(e, peer, hello->channel, connection);
	}
}

static void tcp_progress(struct tt_endpoint *base, bool thorough)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);
	const bool unfinished = e->waiting || e->dial_count || e->pending_count || e->negotiating;

	if (thorough && e->rails_check_at && tt_now() >= e->rails_check_at)
		tt_tcp_rails_check(e, tt_now());
	if (unfinished || (thorough && (e->listener.connection.fd >= 0 || e->controls)))
		tt_tcp_poll(e, 0);
	if (e->negotiating)
		tt_tcp_negotiate_all(e);
}

/* A rank closes no connection before it leaves. (One that never was, for want of descriptors
 * perhaps, says nothing.) */
static bool is_leaving(const struct tcp_peer *peer)
{
	const struct tcp_link *asked = peer->link[TT_CHANNEL_CONTROL];
	/* a firewall may refuse this rank's calls, but it has called itself */
	const bool called = asked && asked->state == TCP_LINK_UP;
	bool leaving = peer->left || (peer->gone && !called) ||
		       (peer->control && peer->control->source.connection.fd < 0);

	for (int channel = 0; channel < TT_CHANNELS; channel++)
		leaving |= peer->link[channel] && peer->link[channel]->state == TCP_LINK_ENDED;
	return leaving;
}

/* The control channel's own end is sure. */
static bool tcp_lost(struct tt_endpoint *base, int peer)
{
	struct tcp_peer *with = &tcp_endpoint_of(base)->peers[peer];
	const struct tcp_link *link = with->link[TT_CHANNEL_CONTROL];

	if (!is_leaving(with))
		return false;
	if (!with->lost_at)
		with->lost_at = tt_now() + TCP_DOUBT_MS * TCP_MS;
	return (link && link->state >= TCP_LINK_ENDED) || tt_now() >= with->lost_at;
}

static void tcp_revoke(struct tt_endpoint *base, const struct tt_fault *fault)
{
	tt_tcp_fault(tcp_endpoint_of(base), fault, NULL);
}

static int tcp_control_fd(const struct tt_endpoint *base)
{
	return ((const struct tcp_endpoint *)base)->watch;
}

/* What is not open is neither told anything nor closed. */
static void tcp_forget(struct tt_endpoint *base)
{
	struct tcp_endpoint *e = tcp_endpoint_of(base);

	e->listener.connection.fd = e->watch = e->sleep_on = e->doorbell = e->timer = -1;
	for (struct tcp_kept *kept = e->kept; kept; kept = kept->next)
		kept->connection.fd = -1;
	for (int i = 0; i < e->pending_count; i++)
		e->pending[i]->source.connection.fd = -1;
	for (struct tcp_dial *dial = e->dials; dial; dial = dial->next)
		for (int i = 0; i < dial->count; i++)
			dial->attempts[i].source.connection.fd = -1;
	for (struct tcp_control *control = e->controls; control; control = control->next)
		control->source.connection.fd = -1;
	for (int i = 0; i < e->size; i++) {
		for (int channel = 0; channel < TT_CHANNELS; channel++) {
			struct tcp_link *link = e->peers[i].link[channel];

			for (int rail = 0; link && rail < link->count; rail++) {
				link->rail[rail].connection.fd = -1;
				link->rail[rail].watched = 0;
			}
		}
	}
}

/* What comes over loopback is taken in where its sender runs, and each socket remembers where
 * that was. */
static void tcp_locate(struct tt_endpoint *base, int cpu, int *of)
{
	const struct tcp_endpoint *e = tcp_endpoint_of(base);

	for (int rank = 0; rank < e->size; rank++) {
		const struct tcp_link *link = e->peers[rank].link[TT_CHANNEL_COLLECTIVE];
		int theirs;
		socklen_t length = sizeof(theirs);

		if (!link || link->state != TCP_LINK_UP ||
		    e->known[rank].host != e->known[e->rank].host)
			continue;
		if (getsockopt(link->rail[0].connection.fd, SOL_SOCKET, SO_INCOMING_CPU, &theirs,
			       &length) == 0 &&
		    theirs >= 0)
			of[rank] = theirs;
	}
}

static const struct tt_transport_control control = {
	.reject = tcp_reject,
	.revoke = tcp_revoke,
	.fd = tcp_control_fd,
	.lost = tcp_lost,
	.send = tt_tcp_send_note,
	.receive = tt_tcp_receive_note,
};

static const struct tt_transport_doorbell doorbell = {
	.arm = tt_tcp_arm,
	.disarm = tt_tcp_disarm,
	.fd = tt_tcp_fd,
	.sleep = tt_tcp_sleep,
	.interrupt = tt_tcp_interrupt,
};

static const struct tt_transport_paths paths = {
	.explain = tcp_explain,
	.lacks = tcp_lacks,
	.await = tcp_await,
};

const struct tt_transport tt_transport_tcp = {
	.name = "tcp",
	.preference = 10,
	.joins_hosts = true,
	.control = &control,
	.doorbell = &doorbell,
	.paths = &paths,
	.open = tcp_open,
	.address = tcp_address,
	.hosts = tt_tcp_hosts,
	.reach = tcp_reach,
	.join = tcp_join,
	.connect = tt_tcp_link_connect,
	.write = tt_tcp_link_write,
	.read = tt_tcp_link_read,
	.peek = tt_tcp_link_peek,
	.release = tt_tcp_link_release,
	.ready = tt_tcp_link_ready,
	.close = tt_tcp_link_close,
	.progress = tcp_progress,
	.locate = tcp_locate,
	.destroy = tcp_destroy,
	.forget = tcp_forget,
};
