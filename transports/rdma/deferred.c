/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of the dead, and the thread that buries those that nobody else can. */
#include "deferred.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "registration.h"

static struct {
	struct rdma_registration *dead;
	pthread_cond_t work, done; /* there are dead; some were buried */
	pthread_t undertaker;
	bool ending;
	int releasing; /* threads that are at it */
} release = { .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };

void tt_rdma_deferred_add(struct rdma_registration *r)
{
	r->next = release.dead;
	release.dead = r;
}

void tt_rdma_deferred_call(void)
{
	if (release.dead)
		pthread_cond_signal(&release.work);
}

static void release_all(struct rdma_registration *dead)
{
	struct rdma_registration *next;

	for (; dead; dead = next) {
		const int error = dead->adapter->verbs->dereg_mr(dead->mr);

		if (error)
			tt_log(ERROR, RDMA, "%zu bytes at %#zx stay registered with %s: %s",
			       dead->bytes, (size_t)dead->begin, dead->adapter->name,
			       strerror(error));
		next = dead->next;
		free(dead);
	}
}

void tt_rdma_deferred_unlock(void)
{
	struct rdma_registration *const dead = release.dead;

	release.dead = NULL;
	release.releasing += dead != NULL;
	tt_rdma_monitor_unlock();
	if (!dead)
		return;
	release_all(dead);
	tt_rdma_monitor_lock();
	release.releasing--;
	pthread_cond_broadcast(&release.done);
	tt_rdma_monitor_unlock();
}

bool tt_rdma_deferred_finish(void)
{
	const bool any = release.dead || release.releasing > 0;

	tt_rdma_deferred_unlock();
	tt_rdma_monitor_lock();
	while (release.releasing > 0)
		tt_rdma_monitor_wait(&release.done);
	tt_rdma_monitor_unlock();
	return any;
}

static void *undertaker_main(void *argument)
{
	bool ending = false;

	while (!ending) {
		tt_rdma_monitor_lock();
		while (!release.dead && !release.ending)
			tt_rdma_monitor_wait(&release.work);
		ending = release.ending;
		tt_rdma_deferred_unlock();
	}
	return NULL;
}

bool tt_rdma_undertaker_begin(void)
{
	release.ending = false; /* there is no thread that reads it */
	return tt_rdma_monitor_thread(&release.undertaker, undertaker_main);
}

void tt_rdma_undertaker_end(void)
{
	tt_rdma_monitor_lock();
	release.ending = true;
	pthread_cond_signal(&release.work);
	tt_rdma_monitor_unlock();
	pthread_join(release.undertaker, NULL);
}

void tt_rdma_deferred_forget(void)
{
	pthread_cond_init(&release.work, NULL);
	pthread_cond_init(&release.done, NULL);
	release.dead = NULL;
	release.releasing = 0;
}
