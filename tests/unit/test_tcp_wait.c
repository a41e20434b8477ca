/* SPDX-License-Identifier: BSD-3-Clause */
/* What wakes a sleeping thread, and what does not. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "test_tcp_fabric.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;
#define AT_ONCE 0
#define LONG	(-1) /* until woken: the test's time limit tells if never */

static int poll_fd(struct tt_endpoint *e, int timeout_ms)
{
	struct pollfd fd = { tcp->doorbell->fd(e), POLLIN, 0 };

	return poll(&fd, 1, timeout_ms);
}

static ssize_t get(struct tt_link *link, void *bytes, size_t length)
{
	const struct iovec iov = { bytes, length };

	return tcp->read(link, &iov, 1);
}

static ssize_t put(struct tt_link *link, const void *bytes, size_t length)
{
	const struct iovec iov = { (void *)bytes, length };

	return tcp->write(link, &iov, 1);
}

TEST(bytes_wake_only_who_waits_for_them)
{
	struct tt_link *a, *b;
	struct fabric f;
	char bytes[8];

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	assert_int_equal(put(a, "xyz", 3), 3);
	tcp->doorbell->arm(f.endpoint[1]);
	assert_int_equal(poll_fd(f.endpoint[1], AT_ONCE), 0);
	while (get(b, bytes, 3) == 0)
		;
	assert_int_equal(get(b, bytes, 3), 0);
	/* the read that found nothing took effect although the thread is armed already */
	assert_int_equal(put(a, "abc", 3), 3);
	assert_int_equal(poll_fd(f.endpoint[1], LONG), 1);
	tcp->doorbell->sleep(f.endpoint[1], LONG);
	assert_int_equal(get(b, bytes, 3), 3);
	tcp->doorbell->disarm(f.endpoint[1]);
	/* the read got all it wanted: what comes next is not waited for */
	assert_int_equal(put(a, "def", 3), 3);
	tcp->doorbell->arm(f.endpoint[1]);
	assert_int_equal(poll_fd(f.endpoint[1], AT_ONCE), 0);
	tcp->doorbell->disarm(f.endpoint[1]);
	tcp->close(a);
	tcp->close(b);
	fabric_stop(&f);
}

TEST(room_wakes_a_blocked_writer)
{
	static uint8_t bytes[1 << 20];
	struct tt_link *a, *b;
	struct fabric f;

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	while (put(a, bytes, sizeof(bytes)) > 0)
		;
	tcp->doorbell->arm(f.endpoint[0]);
	assert_int_equal(poll_fd(f.endpoint[0], AT_ONCE), 0);
	/* the writer is woken when a good part of what it wrote has been read */
	while (poll_fd(f.endpoint[0], AT_ONCE) == 0)
		assert_true(get(b, bytes, sizeof(bytes)) >= 0);
	assert_true(put(a, bytes, sizeof(bytes)) > 0);
	tcp->doorbell->disarm(f.endpoint[0]);
	tcp->close(a);
	tcp->close(b);
	fabric_stop(&f);
}

TEST(a_fault_and_a_connection_wake)
{
	const struct tt_fault fault = { TUTTI_ERR_ABORTED, 0, "aborted" };
	struct tt_link *a;
	struct fabric f;

	fabric_start(&f, 2, 0);
	tcp->doorbell->arm(f.endpoint[1]);
	assert_int_equal(tcp->connect(f.endpoint[0], 1, TT_CHANNEL_COLLECTIVE, &a), TUTTI_OK);
	assert_int_equal(poll_fd(f.endpoint[1], LONG), 1);
	while (!tcp->ready(a)) {
		tcp->progress(f.endpoint[1], true);
		tcp->progress(f.endpoint[0], false);
	}
	tcp->progress(f.endpoint[1], true);
	assert_int_equal(poll_fd(f.endpoint[1], AT_ONCE), 0);
	tcp->control->revoke(f.endpoint[0], &fault);
	tcp->doorbell->sleep(f.endpoint[1], LONG);
	tcp->progress(f.endpoint[1], true);
	assert_int_equal(f.endpoint[1]->fault.result, TUTTI_ERR_ABORTED);
	tcp->doorbell->disarm(f.endpoint[1]);
	tcp->close(a);
	fabric_stop(&f);
}

/* The end of a stream is believed after a while in which nothing else happens. */
TEST(the_end_of_a_stream_wakes_when_it_is_believed)
{
	struct tt_link *a, *b;
	struct fabric f;
	char byte;

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &a, &b);
	assert_int_equal(get(b, &byte, 1), 0);
	tcp->close(a);
	for (;;) {
		tcp->doorbell->arm(f.endpoint[1]);
		const ssize_t n = get(b, &byte, 1);

		if (n == 0)
			assert_int_equal(poll_fd(f.endpoint[1], LONG), 1);
		tcp->doorbell->disarm(f.endpoint[1]);
		if (n < 0)
			break;
	}
	tcp->close(b);
	fabric_stop(&f);
}

struct sleeper {
	struct tt_endpoint *endpoint;
	pthread_mutex_t *lock;
	int *armed, *woken;
	pthread_t thread;
	bool with_poll;
};

static void *sleep_once(void *arg)
{
	struct sleeper *s = arg;

	pthread_mutex_lock(s->lock);
	tcp->doorbell->arm(s->endpoint);
	++*s->armed;
	pthread_mutex_unlock(s->lock);
	if (s->with_poll)
		poll_fd(s->endpoint, LONG);
	else
		tcp->doorbell->sleep(s->endpoint, LONG);
	pthread_mutex_lock(s->lock);
	tcp->doorbell->disarm(s->endpoint);
	++*s->woken;
	pthread_mutex_unlock(s->lock);
	return NULL;
}

static void sleepers_wake(struct fabric *f, int count)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct sleeper sleepers[80];
	int armed = 0, woken = 0, now = 0;

	for (int i = 0; i < count; i++) {
		sleepers[i] = (struct sleeper){ f->endpoint[0], &lock, &armed, &woken, 0, i % 2 };
		assert_int_equal(
			pthread_create(&sleepers[i].thread, NULL, sleep_once, &sleepers[i]), 0);
	}
	while (now < count) {
		pthread_mutex_lock(&lock);
		now = armed;
		pthread_mutex_unlock(&lock);
		sched_yield();
	}
	tcp->doorbell->interrupt(f->endpoint[0]);
	for (int i = 0; i < count; i++)
		pthread_join(sleepers[i].thread, NULL);
	assert_int_equal(woken, count);
	/* the bell is quiet again */
	tcp->doorbell->arm(f->endpoint[0]);
	assert_int_equal(poll_fd(f->endpoint[0], AT_ONCE), 0);
	tcp->doorbell->disarm(f->endpoint[0]);
}

TEST(an_interrupt_wakes_every_thread_once)
{
	struct fabric f;

	fabric_start(&f, 2, 0);
	for (int round = 0; round < 20; round++)
		sleepers_wake(&f, 3);
	fabric_stop(&f);
}

TEST(more_threads_than_there_is_room_for_wake_too)
{
	struct fabric f;

	fabric_start(&f, 2, 0);
	sleepers_wake(&f, 70);
	fabric_stop(&f);
}
