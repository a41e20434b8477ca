/* SPDX-License-Identifier: BSD-3-Clause */
#include "notices.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "harness.h"

#define CHAIN	   50
#define LONG_CHAIN 100000
#define FEW	   3

/* One request and what came of it. */
struct noticed {
	tutti_comm_t comm;
	tutti_request_t request;
	int32_t value;
	atomic_int calls; /* two threads may call at once */
	tutti_result_t result;
	pthread_t caller;
	sem_t called;
};

static void begin(struct noticed *n, tutti_comm_t comm)
{
	memset(n, 0, sizeof(*n));
	n->comm = comm;
	sem_init(&n->called, 0, 0);
}

static void finish(void *context)
{
	struct noticed *n = context;

	n->calls++;
	n->caller = pthread_self();
	n->result = tutti_test(&n->request);
	sem_post(&n->called);
}

static void count(void *context)
{
	struct noticed *n = context;

	n->calls++;
	n->caller = pthread_self();
	sem_post(&n->called);
}

static void await(struct noticed *n)
{
	while (sem_wait(&n->called)) {
	}
}

/* ---- a function that starts the next operation */

static void sum_again(void *context)
{
	struct noticed *n = context;

	n->result = tutti_test(&n->request);
	if (n->result == TUTTI_OK && ++n->calls < CHAIN)
		n->result = tutti_all_reduce(n->comm, &n->value, &n->value, 1, TUTTI_INT32,
					     TUTTI_MAX, &n->request);
	if (n->result != TUTTI_OK || n->calls == CHAIN ||
	    tutti_notify(n->request, sum_again, n) != TUTTI_OK)
		sem_post(&n->called);
}

static int chain(tutti_comm_t comm)
{
	struct noticed n;

	begin(&n, comm);
	n.value = tutti_comm_rank(comm);
	SUCCEEDS(tutti_all_reduce(comm, &n.value, &n.value, 1, TUTTI_INT32, TUTTI_MAX, &n.request));
	SUCCEEDS(tutti_notify(n.request, sum_again, &n));
	await(&n);
	CLAIM(n.calls == CHAIN && n.result == TUTTI_OK && n.value == tutti_comm_size(comm) - 1,
	      "%d of %d sums ended, the last with %d, value %d", n.calls, CHAIN, n.result, n.value);
	return 0;
}

/* ---- who calls */

static int another_thread_waits(tutti_comm_t comm)
{
	struct noticed n;

	begin(&n, comm);
	SUCCEEDS(tutti_barrier(comm, &n.request));
	SUCCEEDS(tutti_notify(n.request, count, &n));
	SUCCEEDS(tutti_notify(n.request, count, &n));
	SUCCEEDS(tutti_wait(&n.request));
	await(&n);
	await(&n);
	CLAIM(n.calls == 2, "%d calls of two", n.calls);
	return 0;
}

static int what_has_ended_calls_at_once(tutti_comm_t comm)
{
	struct noticed n;

	begin(&n, comm);
	SUCCEEDS(tutti_barrier(comm, &n.request));
	SUCCEEDS(tutti_notify(n.request, count, &n));
	await(&n);
	SUCCEEDS(tutti_notify(n.request, finish, &n));
	CLAIM(n.calls == 2 && n.result == TUTTI_OK && !n.request, "%d calls, result %d", n.calls,
	      n.result);
	CLAIM(pthread_equal(n.caller, pthread_self()), "another thread calls for what has ended");
	SUCCEEDS(tutti_notify(NULL, count, &n));
	CLAIM(n.calls == 3, "no call for no request");
	return 0;
}

/* As a chain does whose operations end at once: of three calls at most one lies in another. */
static void ask_again(void *context)
{
	struct noticed *n = context;

	/* another thread may be in the next call before this one ends */
	if (++n->calls == LONG_CHAIN ||
	    tutti_notify(n->calls % 3 ? n->request : NULL, ask_again, n) != TUTTI_OK)
		sem_post(&n->called);
}

static void begin_asking(void *context)
{
	struct noticed *n = context;

	if (tutti_notify(n->request, ask_again, n) != TUTTI_OK)
		sem_post(&n->called);
}

static int a_long_chain_takes_no_stack(tutti_comm_t comm)
{
	tutti_request_t pending;
	struct noticed n;

	begin(&n, comm);
	SUCCEEDS(tutti_barrier(comm, &n.request));
	SUCCEEDS(tutti_notify(n.request, count, &n));
	await(&n);
	n.calls = 0;
	SUCCEEDS(tutti_notify(n.request, ask_again, &n));
	await(&n);
	CLAIM(n.calls == LONG_CHAIN, "%d of %d calls, begun by who asked", n.calls, LONG_CHAIN);
	n.calls = 0;
	SUCCEEDS(tutti_barrier(comm, &pending));
	SUCCEEDS(tutti_notify(pending, begin_asking, &n));
	await(&n);
	CLAIM(n.calls == LONG_CHAIN, "%d of %d calls, begun by the progress thread", n.calls,
	      LONG_CHAIN);
	SUCCEEDS(tutti_wait(&pending));
	SUCCEEDS(tutti_wait(&n.request));
	return 0;
}

/* ---- a descriptor */

static int one_descriptor_for_several(tutti_comm_t comm)
{
	tutti_request_t requests[FEW];
	int32_t values[FEW];
	uint64_t told = 0;
	struct pollfd fd = { .fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN };
	int failed = 0;

	for (int i = 0; i < FEW; i++) {
		values[i] = i;
		SUCCEEDS(tutti_all_reduce(comm, &values[i], &values[i], 1, TUTTI_INT32, TUTTI_SUM,
					  &requests[i]));
		SUCCEEDS(tutti_notify_fd(requests[i], fd.fd));
	}
	while (told < FEW && !failed) {
		uint64_t more = 0;

		CLAIM(poll(&fd, 1, 30000) == 1, "%d of %d requests are told", (int)told, FEW);
		CLAIM(read(fd.fd, &more, sizeof(more)) == sizeof(more), "nothing to read");
		told += more;
	}
	for (int i = 0; i < FEW; i++) {
		SUCCEEDS(tutti_test(&requests[i]));
		CLAIM(values[i] == i * tutti_comm_size(comm), "sum %d is %d", i, values[i]);
	}
	close(fd.fd);
	return failed;
}

static int other_descriptors_are_refused(tutti_comm_t comm)
{
	tutti_request_t request;
	int ends[2];

	CLAIM(pipe(ends) == 0, "no pipe");
	SUCCEEDS(tutti_barrier(comm, &request));
	REFUSES(tutti_notify_fd(request, ends[1]), "is pipe:");
	close(ends[0]);
	close(ends[1]);
	REFUSES(tutti_notify_fd(request, -1), "is not open");
	REFUSES(tutti_notify(request, NULL, NULL), "NULL");
	SUCCEEDS(tutti_wait(&request));
	return 0;
}

/* ---- ends without a result: a receive of what nobody sends */

static int receive_nothing(struct noticed *n)
{
	const tutti_comm_t comm = n->comm;
	const int peer = (tutti_comm_rank(comm) + 1) % tutti_comm_size(comm);

	SUCCEEDS(tutti_recv(comm, &n->value, 1, TUTTI_INT32, peer, &n->request));
	SUCCEEDS(tutti_notify(n->request, finish, n));
	return 0;
}

static int a_fault_is_told(tutti_comm_t comm)
{
	struct noticed n;
	int failed;

	begin(&n, NULL);
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &n.comm));
	failed = receive_nothing(&n);
	SUCCEEDS(tutti_barrier(comm, NULL));
	if (tutti_comm_rank(comm) == 0)
		SUCCEEDS(tutti_comm_abort(n.comm, "enough of it"));
	await(&n);
	CLAIM(n.calls == 1 && n.result == TUTTI_ERR_ABORTED, "%d calls, result %d", n.calls,
	      n.result);
	tutti_comm_destroy(n.comm);
	return failed;
}

static int destroying_tells(tutti_comm_t comm)
{
	struct noticed n;
	int failed;

	begin(&n, NULL);
	SUCCEEDS(tutti_comm_split(comm, 0, 0, &n.comm));
	failed = receive_nothing(&n);
	SUCCEEDS(tutti_barrier(comm, NULL));
	tutti_comm_destroy(n.comm);
	CLAIM(n.calls == 1 && !n.request, "%d calls", n.calls);
	/* another rank may have left before */
	CLAIM(n.result == TUTTI_ERR_ABORTED || n.result == TUTTI_ERR_PEER_LOST, "result %d",
	      n.result);
	return failed;
}

int notices_come(tutti_comm_t comm)
{
	const bool alone = tutti_comm_size(comm) == 1;

	return chain(comm) || another_thread_waits(comm) || what_has_ended_calls_at_once(comm) ||
	       a_long_chain_takes_no_stack(comm) || one_descriptor_for_several(comm) ||
	       other_descriptors_are_refused(comm) ||
	       (!alone && (a_fault_is_told(comm) || destroying_tells(comm)));
}
