/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "errors.h"

#define SLICE_NS 50000000L /* between looks for signals */

char *tp_job_copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static void finish(struct tp_job *job)
{
	pthread_mutex_destroy(&job->mutex);
	pthread_cond_destroy(&job->ended_cond);
	job->free_job(job);
}

static void note_error(struct tp_job *job)
{
	const char *text = tutti_last_error(NULL);

	strncpy(job->text, text[0] ? text : tutti_strerror(job->result), sizeof(job->text) - 1);
	job->rank = -1;
	if (job->comm && job->result != TUTTI_ERR_INVALID &&
	    tutti_comm_error(job->comm, &job->rank) == TUTTI_OK)
		job->rank = -1;
}

static void *job_thread(void *context)
{
	struct tp_job *job = context;
	bool abandoned;

	job->result = job->work(job);
	if (job->result < 0)
		note_error(job);
	pthread_mutex_lock(&job->mutex);
	job->ended = true;
	abandoned = job->abandoned;
	pthread_cond_signal(&job->ended_cond);
	pthread_mutex_unlock(&job->mutex);
	if (abandoned) {
		if (job->result >= 0)
			job->drop(job);
		finish(job);
	}
	return NULL;
}

/* Signals are the interpreter's threads'. */
static int start_thread(struct tp_job *job)
{
	pthread_t thread;
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, job_thread, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0)
		pthread_detach(thread);
	return error;
}

/* Has it ended, after a slice of time at most? */
static bool wait_slice(struct tp_job *job)
{
	struct timespec until;
	int error = 0;
	bool ended;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += SLICE_NS;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&job->mutex);
	while (!job->ended && error == 0)
		error = pthread_cond_timedwait(&job->ended_cond, &job->mutex, &until);
	ended = job->ended;
	pthread_mutex_unlock(&job->mutex);
	return ended;
}

/* false: an exception is set and the job left to its thread */
static bool wait_for(struct tp_job *job, tutti_comm_t abort)
{
	bool ended, interrupted = false;

	for (;;) {
		Py_BEGIN_ALLOW_THREADS ended = wait_slice(job);
		Py_END_ALLOW_THREADS if (ended) return !interrupted;
		if (!interrupted && PyErr_CheckSignals() == 0)
			continue;
		if (!abort)
			break;
		interrupted = true; /* and each time: the job's thread may not have begun before */
		tutti_comm_abort(abort, "interrupted by a signal");
	}
	pthread_mutex_lock(&job->mutex);
	ended = job->ended;
	job->abandoned = true;
	pthread_mutex_unlock(&job->mutex);
	if (ended) {
		if (job->result >= 0)
			job->drop(job);
		finish(job);
	}
	return false;
}

static void init_sync(struct tp_job *job)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&job->ended_cond, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_init(&job->mutex, NULL);
}

bool tp_job_run(struct tp_job *job, tutti_comm_t abort)
{
	int error;

	init_sync(job);
	error = start_thread(job);
	if (error != 0) {
		finish(job);
		errno = error;
		PyErr_SetFromErrno(PyExc_OSError);
		return false;
	}
	if (!wait_for(job, abort)) {
		if (abort) { /* the job has ended, and is ours */
			if (job->result >= 0)
				job->drop(job);
			finish(job);
		}
		return false;
	}
	if (job->result < 0) {
		const tutti_result_t result = job->result;
		const int rank = job->rank;
		char text[TP_JOB_TEXT];

		memcpy(text, job->text, sizeof(text));
		finish(job);
		tp_raise_text(result, text, rank);
		return false;
	}
	return true;
}
