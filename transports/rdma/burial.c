/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the list of the dead, and the thread that buries those that nobody else can. */
#include "burial.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "registration.h"
#include "thread.h"

static struct {
	struct rdma_registration *dead;
	pthread_cond_t work, done; /* there are dead; some were buried */
	pthread_t undertaker;
	bool ending;
	int count, burying; /* count: regions that verbs have made; burying: threads that are at
			     * it */
} burial = { .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };

void tt_rdma_burial_expect(void)
{
	burial.count++;
}

void tt_rdma_burial_add(struct rdma_registration *r)
{
	r->next = burial.dead;
	burial.dead = r;
}

void tt_rdma_burial_call(void)
{
	if (burial.dead)
		pthread_cond_signal(&burial.work);
}

bool tt_rdma_burial_wait(void)
{
	const bool any = burial.burying > 0;

	while (burial.burying > 0)
		tt_rdma_notice_wait(&burial.done);
	return any;
}

bool tt_rdma_burial_is_due(void)
{
	return burial.dead != NULL;
}

/* Gives how many. */
static int bury_all(struct rdma_registration *dead)
{
	struct rdma_registration *next;
	int buried = 0;

	for (; dead; dead = next) {
		const int error = dead->adapter->verbs->dereg_mr(dead->mr);

		if (error)
			tt_log(ERROR, RDMA, "%zu bytes at %#zx stay registered with %s: %s",
			       dead->bytes, (size_t)dead->begin, dead->adapter->name,
			       strerror(error));
		next = dead->next;
		free(dead);
		buried++;
	}
	return buried;
}

void tt_rdma_burial_unlock(void)
{
	struct rdma_registration *const dead = burial.dead;

	burial.dead = NULL;
	burial.burying += dead != NULL;
	tt_rdma_notice_unlock();
	if (!dead)
		return;
	const int buried = bury_all(dead);

	tt_rdma_notice_lock();
	burial.count -= buried;
	burial.burying--;
	pthread_cond_broadcast(&burial.done);
	tt_rdma_notice_unlock();
}

void tt_rdma_burial_finish(void)
{
	tt_rdma_burial_unlock();
	tt_rdma_notice_lock();
	tt_rdma_burial_wait();
	tt_rdma_notice_unlock();
}

static void *undertaker_main(void *argument)
{
	bool ending = false;

	while (!ending) {
		tt_rdma_notice_lock();
		while (!burial.dead && !burial.ending)
			tt_rdma_notice_wait(&burial.work);
		ending = burial.ending;
		tt_rdma_burial_unlock();
	}
	return NULL;
}

bool tt_rdma_undertaker_begin(void)
{
	burial.ending = false; /* there is no thread that reads it */
	const int error = tt_thread_begin(&burial.undertaker, undertaker_main, NULL);

	if (error)
		tt_rdma_notice_lacks("no thread can be had for now", error,
				     "raise the limit (ulimit -u)");
	return error == 0;
}

void tt_rdma_undertaker_end(void)
{
	tt_rdma_notice_lock();
	burial.ending = true;
	pthread_cond_signal(&burial.work);
	tt_rdma_notice_unlock();
	pthread_join(burial.undertaker, NULL);
}

int tt_rdma_burial_count(void)
{
	tt_rdma_notice_lock();
	const int count = burial.count;

	tt_rdma_notice_unlock();
	return count;
}

void tt_rdma_burial_forget(void)
{
	pthread_cond_init(&burial.work, NULL);
	pthread_cond_init(&burial.done, NULL);
	burial.dead = NULL;
	burial.count = burial.burying = 0;
}
