/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns when reports are written: when a communicator is revoked, for ranks that died, and on
 * SIGUSR1.
 *
 * The signal's handler writes them itself, as only so they come whatever the process does:
 * compute, wait inside a call that holds a lock, hang elsewhere. So all that it calls is safe in
 * a handler, and the communicators are a list that is read without a lock. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "recorder.h"

/* ---- on SIGUSR1 */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* for those who change the list */
static struct tt_recorder *_Atomic list;
static atomic_int readers;

static void on_signal(int number)
{
	const int saved = errno;
	const pid_t self = getpid();

	/* seq_cst: pairs with the store of a link and the load in tt_recorder_unlist() */
	atomic_fetch_add(&readers, 1);
	for (struct tt_recorder *at = atomic_load(&list); at; at = atomic_load(&at->listed))
		if (at->pid == self) /* and not of a parent, before the child knows that it is
				      * one */
			tt_flight_write(at->flight, "signal");
	atomic_fetch_sub(&readers, 1);
	errno = saved;
}

/* Only where nobody else has a use for the signal, which ended the process until now. */
static void take_signal(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK },
			 before;

	sigfillset(&action.sa_mask);
	if (sigaction(SIGUSR1, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) &&
	    before.sa_handler == SIG_DFL)
		sigaction(SIGUSR1, &action, NULL);
}

bool tt_recorder_list(struct tt_recorder *recorder)
{
	pthread_mutex_lock(&list_lock);
	const bool first = !atomic_load(&list);
	atomic_store(&recorder->listed, atomic_load(&list));
	atomic_store(&list, recorder);
	take_signal();
	pthread_mutex_unlock(&list_lock);
	return first;
}

bool tt_recorder_unlist(struct tt_recorder *recorder)
{
	struct tt_recorder *_Atomic *link = &list;

	pthread_mutex_lock(&list_lock);
	while (atomic_load(link) && atomic_load(link) != recorder)
		link = &atomic_load(link)->listed;
	if (atomic_load(link))
		atomic_store(link, atomic_load(&recorder->listed));
	const bool last = !atomic_load(&list);
	pthread_mutex_unlock(&list_lock);
	/* a handler that came to it before is done with it in a moment; seq_cst: pairs with the
	 * addition in on_signal() */
	while (atomic_load(&readers) > 0)
		sched_yield();
	return last;
}

/* A child of fork() lists its own; what its parent listed may be freed here, and a thread that
 * held the lock or was in the handler is not there. */
static void forget_parents(void)
{
	pthread_mutex_init(&list_lock, NULL);
	atomic_store(&list, NULL);
	atomic_store(&readers, 0);
}

__attribute__((constructor)) static void watchdog_forks(void)
{
	pthread_atfork(NULL, NULL, forget_parents);
}

/* ---- when a communicator ends */

void tt_recorder_report_dead(struct tutti_comm *comm)
{
	struct tt_flight_place place;

	for (int rank = 0; rank < comm->size; rank++) {
		if (rank == comm->rank ||
		    comm->topology.host[rank] != comm->topology.host[comm->rank])
			continue;
		tt_flight_find_place(comm->settings.trace, comm->settings.job, comm->id, rank,
				     &place);
		if (tt_flight_recover(place.ring, NULL))
			tt_log(INFO, COMM, "rank %d: what rank %d did last is in %s", comm->rank,
			       rank, place.report);
	}
}

void tt_recorder_report(struct tutti_comm *comm)
{
	struct tt_recorder *recorder = comm->recorder;

	if (!recorder || !recorder->flight || !tt_owned_here(&comm->owner))
		return;
	memcpy(recorder->flight->fault.text, comm->fault.text, sizeof(comm->fault.text));
	recorder->flight->fault.rank = comm->fault.rank;
	recorder->flight->fault.result = comm->fault.result;
	if (!*recorder->place.report)
		return;
	if (!tt_flight_write(recorder->flight, "revoked"))
		tt_log(WARN, COMM, "rank %d: cannot write what happened to %s: %s", comm->rank,
		       recorder->place.report,
		       errno == EPERM
			       ? "its directory is not this user's alone; TUTTI_TRACE names another"
			       : strerror(errno));
	else if (comm->topology.local_rank == 0) /* one of a host is enough */
		tt_log(WARN, COMM,
		       "rank %d: the communicator was revoked; what happened is in %s and the files beside it: run tutti-trace",
		       comm->rank, recorder->place.report);
	else
		tt_log(INFO, COMM, "rank %d: what happened is in %s", comm->rank,
		       recorder->place.report);
	tt_recorder_report_dead(comm);
}

TUTTI_API tutti_result_t tutti_trace_recover(const char *directory, int *count)
{
	const char *setting = directory ? directory : getenv("TUTTI_TRACE");
	struct stat info;

	if (count)
		*count = 0;
	/* ranks make theirs; here there would be nothing in it */
	if (directory && *directory && strcmp(directory, "off") != 0 &&
	    (stat(directory, &info) < 0 || !S_ISDIR(info.st_mode)))
		return tt_fail(
			TUTTI_ERR_SYSTEM, COMM,
			"tutti_trace_recover: \"%s\" is no directory here: expected one that TUTTI_TRACE named, or NULL",
			directory);
	const int recovered = tt_flight_recover_all(setting ? setting : "");

	if (count && recovered > 0)
		*count = recovered;
	if (recovered < 0)
		return tt_fail_errno(COMM, "tutti_trace_recover: read the directory of %s",
				     setting && *setting ? setting : "the default");
	return TUTTI_OK;
}
