/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the descriptor of userfaultfd(2) and the thread that reads it.
 *
 * Pages are registered for write protection, and never protected: so none of their faults is
 * caught, and no thread waits for one here. What is wanted are the events: of what is unmapped
 * and moved after it happened, of what is discarded before. They are counted by the kernel while
 * it still holds the lock of the address space, and UFFDIO_COPY says so (EAGAIN) until they have
 * been read: that is how who comes to addresses that another thread has just unmapped learns
 * that word of it is on its way. A thread that reads holds the lock from before the read
 * until all are told.
 *
 * A child of fork() has nothing of it: its pages are not registered, its descriptor is closed,
 * and it begins anew. */
#include "monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "mappings.h"
#include "thread.h"

#define FEATURES                                                                                   \
	(UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |   \
	 UFFD_FEATURE_EVENT_REMAP)

/* newer than some headers */
#define USER_FAULTS_ONLY 1		   /* UFFD_USER_MODE_ONLY */
#define NEW_DESCRIPTOR	 _IO(UFFDIO, 0x00) /* USERFAULTFD_IOC_NEW */

static struct {
	pthread_mutex_t lock;
	struct rdma_watch *watches;
	pthread_t thread;
	int fd, bell;	      /* bell: the thread is to end */
	bool refused, ending; /* refused: by the kernel, which will not change its mind */
} notice = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .bell = -1 };

void tt_rdma_monitor_lock(void)
{
	pthread_mutex_lock(&notice.lock);
}

void tt_rdma_monitor_unlock(void)
{
	pthread_mutex_unlock(&notice.lock);
}

void tt_rdma_monitor_wait(pthread_cond_t *condition)
{
	pthread_cond_wait(condition, &notice.lock);
}

/* ---- what is watched */

bool tt_rdma_monitor_is_settled(void)
{
	struct uffdio_copy nothing = { 0 }; /* else refused as that: EINVAL */

	return notice.fd < 0 || ioctl(notice.fd, UFFDIO_COPY, &nothing) == 0 || errno != EAGAIN;
}

static bool unregister(uintptr_t begin, uintptr_t end)
{
	struct uffdio_range range = { begin, end - begin };

	return ioctl(notice.fd, UFFDIO_UNREGISTER, &range) == 0;
}

static bool unregister_mapping(const struct rdma_mapping *mapping, void *context)
{
	const struct rdma_watch *all = context;

	unregister(mapping->begin > all->begin ? mapping->begin : all->begin,
		   mapping->end < all->end ? mapping->end : all->end);
	return true;
}

/* Of these pages those that nobody watches. */
static void let_go(uintptr_t begin, uintptr_t end)
{
	while (begin < end) {
		struct rdma_watch chunk = { .begin = begin, .end = end };
		uintptr_t watched_to = 0;

		for (const struct rdma_watch *w = notice.watches; w; w = w->next) {
			if (w->begin <= begin && w->end > begin)
				watched_to = w->end > watched_to ? w->end : watched_to;
			else if (w->begin > begin && w->begin < chunk.end)
				chunk.end = w->begin;
		}
		if (watched_to) {
			begin = watched_to;
			continue;
		}
		/* refused as a whole where other memory lies between by now, and where there is
		 * none */
		if (!unregister(chunk.begin, chunk.end))
			tt_rdma_mappings(chunk.begin, chunk.end, unregister_mapping, &chunk);
		begin = chunk.end;
	}
}

bool tt_rdma_monitor_watch(struct rdma_watch *watch)
{
	struct uffdio_register wanted = { .range = { watch->begin, watch->end - watch->begin },
					  .mode = UFFDIO_REGISTER_MODE_WP };

	if (ioctl(notice.fd, UFFDIO_REGISTER, &wanted) < 0)
		return false;
	watch->next = notice.watches;
	watch->at = &notice.watches;
	if (watch->next)
		watch->next->at = &watch->next;
	notice.watches = watch;
	return true;
}

static void take_off(struct rdma_watch *watch)
{
	*watch->at = watch->next;
	if (watch->next)
		watch->next->at = watch->at;
	watch->at = NULL;
}

void tt_rdma_monitor_unwatch(struct rdma_watch *watch)
{
	if (!watch->at)
		return;
	take_off(watch);
	let_go(watch->begin, watch->end);
}

/* ---- what is told */

/* All that watch one of these pages do so no longer. Pages that are not mapped any more are not
 * asked to be let go. */
static void tell(uintptr_t begin, uintptr_t end, bool mapped)
{
	struct rdma_watch *next;

	for (struct rdma_watch *w = notice.watches; w; w = next) {
		next = w->next;
		if (w->end <= begin || w->begin >= end)
			continue;
		take_off(w);
		if (mapped) {
			let_go(w->begin, w->end);
		} else {
			let_go(w->begin, begin);
			let_go(end, w->end);
		}
		w->gone(w);
	}
}

static bool let_go_to_its_end(const struct rdma_mapping *mapping, void *context)
{
	let_go(*(const uintptr_t *)context, mapping->end);
	return false;
}

/* Pages take along that they are watched, and those that are new behind them are, too. */
static void follow(uintptr_t to)
{
	tt_rdma_mappings(to, to + 1, let_go_to_its_end, &to);
}

static void take(const struct uffd_msg *message)
{
	switch (message->event) {
	case UFFD_EVENT_UNMAP:
		tell((uintptr_t)message->arg.remove.start, (uintptr_t)message->arg.remove.end,
		     false);
		break;
	case UFFD_EVENT_REMOVE:
		tell((uintptr_t)message->arg.remove.start, (uintptr_t)message->arg.remove.end,
		     true);
		break;
	case UFFD_EVENT_REMAP:
		tell((uintptr_t)message->arg.remap.from,
		     (uintptr_t)(message->arg.remap.from + message->arg.remap.len), true);
		follow((uintptr_t)message->arg.remap.to);
		break;
	default: /* a fault: there are none */ break;
	}
}

static void *monitor_main(void *argument)
{
	struct pollfd wanted[] = { { .fd = notice.fd, .events = POLLIN },
				   { .fd = notice.bell, .events = POLLIN } };
	struct uffd_msg message;
	bool ended = false;

	while (!ended) {
		poll(wanted, 2, -1);
		tt_rdma_monitor_lock();
		while (read(notice.fd, &message, sizeof(message)) == (ssize_t)sizeof(message))
			take(&message);
		ended = notice.ending &&
			tt_rdma_monitor_is_settled(); /* nobody waits for word that is never read */
		tt_rdma_monitor_unlock();
	}
	return NULL;
}

/* ---- beginning and ending */

/* The system call, or the device of the same name, which an administrator may give to whom the
 * call is denied. */
static int make_descriptor(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_FAULTS_ONLY);

	if (fd < 0 && errno == EINVAL) /* before Linux 5.11 */
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		const int denied = errno, device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

		if (device >= 0)
			fd = ioctl(device, NEW_DESCRIPTOR,
				   O_CLOEXEC | O_NONBLOCK | USER_FAULTS_ONLY);
		const int error = tt_errno_is_shortage(errno) ? errno : denied;

		if (device >= 0)
			close(device);
		errno = error;
	}
	return fd;
}

static void close_descriptors(void)
{
	tt_fd_close(notice.fd);
	tt_fd_close(notice.bell);
	notice.fd = notice.bell = -1;
}

static void log_none(tutti_log_level_t level, const char *what, int error, const char *help)
{
	if (level <= tt_log_levels[TT_LOG_RDMA])
		tt_log_write(
			level, TT_LOG_RDMA,
			"long messages from and to memory that is not of tutti_mem_alloc() are copied on their way, as the kernel cannot report "
			"of changes to it: %s (%s); %s, or use tutti_mem_alloc()",
			what, strerror(error), help);
}

static void refuse(const char *what, const char *help)
{
	notice.refused = true;
	log_none(TUTTI_LOG_WARN, what, errno, help);
}

/* For want of something, which may be there the next time. */
static void lack(const char *what, int error, const char *help)
{
	static bool said; /* once a process, and each time at level debug */

	log_none(__atomic_exchange_n(&said, true, __ATOMIC_RELAXED) ? TUTTI_LOG_DEBUG
								    : TUTTI_LOG_WARN,
		 what, error, help); /* relaxed: it guards nothing */
}

static void lack_descriptor(void)
{
	lack("no descriptor can be had for now", errno,
	     errno == EMFILE   ? "raise the limit (ulimit -n)"
	     : errno == ENFILE ? "raise the machine's limit (sysctl fs.file-max)"
			       : "free some of the machine's memory");
}

static bool open_descriptors(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };

	notice.fd = TT_FD(make_descriptor());
	if (notice.fd < 0 && tt_errno_is_shortage(errno)) {
		lack_descriptor();
		return false;
	}
	if (notice.fd < 0) {
		refuse("userfaultfd(2) is denied",
		       "allow it in the seccomp profile, or by docker run --device /dev/userfaultfd (Linux 6.1)");
		return false;
	}
	if (ioctl(notice.fd, UFFDIO_API, &api) < 0) {
		refuse("its userfaultfd has no events or no write protection",
		       "on x86-64 Linux 5.7 has them");
		return false;
	}
	notice.bell = TT_FD(eventfd(0, EFD_CLOEXEC));
	if (notice.bell < 0)
		lack_descriptor();
	return notice.bell >= 0;
}

bool tt_rdma_monitor_thread(pthread_t *thread, void *(*body)(void *))
{
	const int error = tt_thread_begin(thread, body, NULL);

	if (error)
		lack("no thread can be had for now", error, "raise the limit (ulimit -u)");
	return error == 0;
}

static void forget(void)
{
	pthread_mutex_init(&notice.lock, NULL);
	notice.watches = NULL;
	notice.fd = notice.bell = -1;
	notice.refused = false;
}

__attribute__((constructor)) static void mind_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}

bool tt_rdma_monitor_begin(void)
{
	notice.ending = false; /* there is no thread that reads it */
	const bool listening = !notice.refused && open_descriptors() &&
			       tt_rdma_monitor_thread(&notice.thread, monitor_main);

	if (!listening)
		close_descriptors();
	return listening;
}

void tt_rdma_monitor_end(void)
{
	const uint64_t one = 1;

	tt_rdma_monitor_lock();
	notice.ending = true;
	tt_rdma_monitor_unlock();
	if (write(notice.bell, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(notice.thread, NULL);
	close_descriptors();
}
