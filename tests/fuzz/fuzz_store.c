/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of a store, with three clients that say anything: the input is a list of pieces,
 * client:1 length:1 bytes, each of which arrives by itself; a length of 0 hangs up. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "store_clients.h"
#include "store_pending.h"

enum { CLIENTS = 3, EVENTS = 8 };

static void serve(struct tt_store_clients *clients)
{
	struct epoll_event events[EVENTS];
	int n;

	while ((n = epoll_wait(clients->epoll, events, EVENTS, 0)) > 0) {
		for (int i = 0; i < n; i++)
			tt_store_client_event(clients, events[i].data.ptr, events[i].events);
		tt_store_clients_bury(clients);
	}
}

static void connect_all(struct tt_store_clients *clients, int ours[CLIENTS])
{
	const struct sockaddr_storage from = { .ss_family = clients->admission.terms.tls
								    ? AF_INET
								    : AF_UNIX };

	for (int i = 0; i < CLIENTS; i++) {
		int ends[2];

		FUZZ_PROMISE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
					ends) == 0);
		ours[i] = ends[0];
		tt_store_clients_add(clients, ends[1], &from);
	}
}

/* What the host answers, or as much as is there. */
static void drain(int fd)
{
	uint8_t bytes[4096];

	while (read(fd, bytes, sizeof(bytes)) > 0)
		continue;
}

enum { KEYED = 1, ENCRYPTED = 2 };

/* The first byte says whether the job has a key, of which no input can bring a proof, and
 * encrypts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const bool keyed = size > 0 && (data[0] & KEYED);
	const struct tt_key key = { .set = keyed, .encrypt = keyed && (data[0] & ENCRYPTED) };
	struct tt_store_clients clients = { .epoll = epoll_create1(EPOLL_CLOEXEC),
					    .next_deadline = TT_STORE_NEVER };
	struct tt_tls *with = NULL;
	int ours[CLIENTS];

	FUZZ_PROMISE(clients.epoll >= 0);
	if (key.encrypt) {
		static struct tt_tls *tls; /* of all inputs: it takes long to make */

		FUZZ_PROMISE(tls ||
			     tt_tls_open(&key, "connections to the store", &tls) == TUTTI_OK);
		with = tls;
	}
	clients.admission = tt_store_pending_listener(&key, with);
	connect_all(&clients, ours);
	data += size > 0;
	size -= size > 0;
	while (size >= 2) {
		const int client = data[0] % CLIENTS;
		const size_t length = data[1] < size - 2 ? data[1] : size - 2;

		if (data[1] == 0)
			shutdown(ours[client], SHUT_WR);
		else if (send(ours[client], data + 2, length, MSG_NOSIGNAL) < 0)
			break;
		serve(&clients);
		drain(ours[client]);
		data += 2 + length;
		size -= 2 + length;
	}
	tt_store_clients_expire(&clients, TT_STORE_NEVER - 1);
	tt_store_clients_bury(&clients);
	tt_store_clients_finish(&clients);
	for (int i = 0; i < CLIENTS; i++)
		close(ours[i]);
	close(clients.epoll);
	return 0;
}
