/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors: timers and events that can be polled, and sets of them. */
#include "calls.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "machine.h"

#define DESCRIPTORS_MAX 512
#define FIRST_DESCRIPTOR                                                                           \
	(CALLS_DESCRIPTORS_END - DESCRIPTORS_MAX - 1) /* of this machine, apart from the real
						       * ones */

int __real_close(int fd);
ssize_t __real_write(int fd, const void *bytes, size_t length);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

enum kind { NOTHING, TIMER, EVENT, SET };

struct descriptor {
	enum kind kind;
	uint64_t at; /* when it is readable from; 0: it is not */
	/* as a member of a set */
	int set; /* its descriptor, 0: of none */
	struct epoll_event wanted;
	bool told; /* by edges: the set has told of it since it became readable */
};

static struct descriptor descriptors[DESCRIPTORS_MAX];
static int descriptors_end; /* above all that are open */

static struct descriptor *descriptor_of(int fd, enum kind kind)
{
	const int i = fd - FIRST_DESCRIPTOR;

	return i >= 0 && i < DESCRIPTORS_MAX && descriptors[i].kind == kind ? &descriptors[i]
									    : NULL;
}

static int open_descriptor(enum kind kind)
{
	for (int i = 0; i < DESCRIPTORS_MAX; i++) {
		if (descriptors[i].kind)
			continue;
		descriptors[i] = (struct descriptor){ .kind = kind };
		if (i >= descriptors_end)
			descriptors_end = i + 1;
		return FIRST_DESCRIPTOR + i;
	}
	errno = EMFILE;
	return -1;
}

/* From now on, or then, it is readable; it was not before. */
static void set_readable(struct descriptor *descriptor, uint64_t at)
{
	machine_stir();
	descriptor->at = at;
	descriptor->told = false;
}

int __wrap_timerfd_create(int clock, int flags)
{
	return open_descriptor(TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *before)
{
	struct descriptor *timer = descriptor_of(fd, TIMER);

	if (!timer)
		machine_accuse("sets a timer that is not open");
	assert(flags == TFD_TIMER_ABSTIME && !before);
	set_readable(timer, calls_nanoseconds(&when->it_value));
	return 0;
}

int __wrap_eventfd(unsigned count, int flags)
{
	const int fd = open_descriptor(EVENT);

	if (fd >= 0 && count > 0)
		set_readable(descriptor_of(fd, EVENT), 1);
	return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
	struct descriptor *event = descriptor_of(fd, EVENT);

	if (!event)
		return __real_write(fd, bytes, length);
	set_readable(event, 1);
	return (ssize_t)length;
}

int __wrap_close(int fd)
{
	const int i = fd - FIRST_DESCRIPTOR;

	if (i < 0 || i >= DESCRIPTORS_MAX)
		return __real_close(fd);
	if (!descriptors[i].kind)
		machine_accuse("closes a descriptor that is not open");
	descriptors[i].kind = NOTHING;
	while (descriptors_end > 0 && !descriptors[descriptors_end - 1].kind)
		descriptors_end--;
	return 0;
}

struct polled {
	const struct pollfd *fds;
	nfds_t n;
};

/* When the first of them is readable, as they are set now. */
static uint64_t when_readable(const void *argument)
{
	const struct polled *polled = argument;
	uint64_t next = FOREVER;

	for (nfds_t i = 0; i < polled->n; i++) {
		const struct descriptor *descriptor = descriptor_of(polled->fds[i].fd, TIMER);

		if (!descriptor)
			descriptor = descriptor_of(polled->fds[i].fd, EVENT);
		if (!descriptor)
			machine_accuse("polls a descriptor that is not open");
		if (descriptor->at > 0 && descriptor->at < next)
			next = descriptor->at;
	}
	return next;
}

static uint64_t end_of_wait(int timeout_ms)
{
	return timeout_ms < 0 ? FOREVER : machine_now() + (uint64_t)timeout_ms * 1000000u;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	const struct polled polled = { fds, n };
	int count = 0;

	if (!machine_inside())
		return __real_poll(fds, n, timeout_ms);
	machine_wait(when_readable, &polled, end_of_wait(timeout_ms), true);
	for (nfds_t i = 0; i < n; i++) {
		const struct polled one = { &fds[i], 1 };

		fds[i].revents = when_readable(&one) <= machine_now() ? POLLIN : 0;
		count += fds[i].revents != 0;
	}
	return count;
}

int __wrap_epoll_create1(int flags)
{
	return open_descriptor(SET);
}

int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	struct descriptor *member =
		descriptor_of(fd, TIMER) ? descriptor_of(fd, TIMER) : descriptor_of(fd, EVENT);

	if (!descriptor_of(set, SET) || !member)
		machine_accuse("changes a set of descriptors that are not open");
	assert(operation == EPOLL_CTL_ADD || operation == EPOLL_CTL_DEL);
	member->set = operation == EPOLL_CTL_ADD ? set : 0;
	member->told = false;
	if (event)
		member->wanted = *event;
	return 0;
}

static uint64_t when_told(const void *set)
{
	uint64_t next = FOREVER;

	for (int i = 0; i < descriptors_end; i++) {
		const struct descriptor *member = &descriptors[i];

		if (member->kind && member->set == *(const int *)set && member->at > 0 &&
		    member->at < next && !(member->told && member->wanted.events & EPOLLET))
			next = member->at;
	}
	return next;
}

int __wrap_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms)
{
	int count = 0;

	machine_wait(when_told, &set, end_of_wait(timeout_ms), true);
	for (int i = 0; i < descriptors_end && count < most; i++) {
		struct descriptor *member = &descriptors[i];

		if (!member->kind || member->set != set || member->at == 0 ||
		    member->at > machine_now() || (member->told && member->wanted.events & EPOLLET))
			continue;
		member->told = true;
		events[count++] = member->wanted;
	}
	return count;
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
	return __wrap_poll(fds, n, timeout_ms);
}

int calls_open_descriptors(void)
{
	int count = 0;

	for (int i = 0; i < descriptors_end; i++)
		count += descriptors[i].kind != NOTHING;
	return count;
}
