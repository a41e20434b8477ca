/* SPDX-License-Identifier: BSD-3-Clause */
/* Fails each allocation and each system call of a store in turn: the first of them, then the
 * second, until a whole story passes without reaching the one to fail. Whatever fails, calls
 * return with an error message or do what they should, and no descriptor is left. The stores
 * under test are built with these calls renamed. */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests.h"
#include "log.h"
#include "store.h"
#include "transport.h"

/* ---------------------------------------------------------------- calls that fail when told to */

void *failing_malloc(size_t size);
void *failing_calloc(size_t count, size_t size);
int failing_socket(int domain, int type, int protocol);
int failing_connect(int fd, const struct sockaddr *at, socklen_t length);
int failing_listen(int fd, int backlog);
int failing_accept4(int fd, struct sockaddr *at, socklen_t *length, int flags);
ssize_t failing_send(int fd, const void *data, size_t length, int flags);
ssize_t failing_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t failing_recv(int fd, void *data, size_t length, int flags);
int failing_epoll_create1(int flags);
int failing_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int failing_eventfd(unsigned value, int flags);
int failing_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			   void *(*function)(void *), void *argument);
int failing_mkostemp(char *name, int flags);
int failing_rename(const char *from, const char *to);
int failing_mkdir(const char *path, mode_t mode);
ssize_t failing_write(int fd, const void *data, size_t length);
ssize_t failing_read(int fd, void *data, size_t length);
int failing_inotify_init1(int flags);

static atomic_int calls_left; /* until the one that fails; relaxed: it orders nothing */
static atomic_bool failed;
static bool refuse; /* the next connection, in a test without threads */

static bool fails(int error)
{
	if (atomic_fetch_sub_explicit(&calls_left, 1, memory_order_relaxed) != 1)
		return false;
	atomic_store_explicit(&failed, true, memory_order_relaxed);
	errno = error;
	return true;
}

void *failing_malloc(size_t size)
{
	return fails(ENOMEM) ? NULL : malloc(size);
}

void *failing_calloc(size_t count, size_t size)
{
	return fails(ENOMEM) ? NULL : calloc(count, size);
}

int failing_socket(int domain, int type, int protocol)
{
	return fails(EMFILE) ? -1 : socket(domain, type, protocol);
}

int failing_connect(int fd, const struct sockaddr *at, socklen_t length)
{
	if (!refuse)
		return connect(fd, at, length);
	refuse = false;
	errno = ECONNREFUSED;
	return -1;
}

int failing_listen(int fd, int backlog)
{
	return fails(EADDRINUSE) ? -1 : listen(fd, backlog);
}

int failing_accept4(int fd, struct sockaddr *at, socklen_t *length, int flags)
{
	return fails(EMFILE) ? -1 : accept4(fd, at, length, flags);
}

ssize_t failing_send(int fd, const void *data, size_t length, int flags)
{
	return fails(ECONNRESET) ? -1 : send(fd, data, length, flags);
}

ssize_t failing_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return fails(ECONNRESET) ? -1 : sendmsg(fd, message, flags);
}

ssize_t failing_recv(int fd, void *data, size_t length, int flags)
{
	return fails(ECONNRESET) ? -1 : recv(fd, data, length, flags);
}

int failing_epoll_create1(int flags)
{
	return fails(EMFILE) ? -1 : epoll_create1(flags);
}

int failing_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return op == EPOLL_CTL_ADD && fails(ENOSPC) ? -1 : epoll_ctl(epoll, op, fd, event);
}

int failing_eventfd(unsigned value, int flags)
{
	return fails(EMFILE) ? -1 : eventfd(value, flags);
}

int failing_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			   void *(*function)(void *), void *argument)
{
	return fails(EAGAIN) ? EAGAIN : pthread_create(thread, attributes, function, argument);
}

int failing_mkostemp(char *name, int flags)
{
	return fails(ENOSPC) ? -1 : mkostemp(name, flags);
}

int failing_rename(const char *from, const char *to)
{
	return fails(EIO) ? -1 : rename(from, to);
}

int failing_mkdir(const char *path, mode_t mode)
{
	return fails(ENOSPC) ? -1 : mkdir(path, mode);
}

ssize_t failing_write(int fd, const void *data, size_t length)
{
	return fails(ENOSPC) ? -1 : write(fd, data, length);
}

ssize_t failing_read(int fd, void *data, size_t length)
{
	return fails(EIO) ? -1 : read(fd, data, length);
}

int failing_inotify_init1(int flags)
{
	return fails(EMFILE) ? -1 : inotify_init1(flags);
}

/* ---------------------------------------------------------------- the story */

static int count_entries(const char *directory)
{
	DIR *d = opendir(directory);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A call of the library did what it should or says what happened. */
static bool went_well(tutti_result_t result)
{
	if (result != TUTTI_OK)
		assert_string_not_equal(tt_thread_error(), "");
	return result == TUTTI_OK;
}

static void talk(tutti_store_t host, tutti_store_t client)
{
	char key[TT_STORE_KEY_MAX + 1], value[8];
	size_t length = sizeof(value), none = 0;

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = 0;
	bool set = went_well(tutti_store_set(host, key, "first", 6));
	set = went_well(tutti_store_set(client, key, "second", 7)) && set;
	if (went_well(tutti_store_get(host, key, value, &length, 1)) && set)
		assert_string_equal(value, "second");
	assert_false(went_well(tutti_store_get(client, "never", NULL, &none, 0.03)));
}

static void tell(const char *address)
{
	tutti_store_t host, client;

	if (!went_well(tutti_store_open(address, 1, 10, &host))) {
		assert_null(host);
		return;
	}
	if (went_well(tutti_store_open(tutti_store_address(host), 0, 10, &client)))
		talk(host, client);
	tutti_store_close(client);
	tutti_store_close(host);
}

static void fail_each_call(const char *address)
{
	int n = 0;

	atomic_store(&calls_left, 0);
	tell(address); /* what is only made once is made now */
	do {
		const int before = count_entries("/proc/self/fd");

		atomic_store(&failed, false);
		atomic_store(&calls_left, ++n);
		tell(address);
		assert_int_equal(count_entries("/proc/self/fd"), before);
	} while (atomic_load(&failed));
	assert_true(n > 5);
}

TEST(a_tcp_store_survives_each_failure)
{
	(void)state;
	fail_each_call("tcp://127.0.0.1:0");
}

TEST(a_store_with_a_key_survives_each_failure)
{
	(void)state;
	setenv("TUTTI_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
	fail_each_call("tcp://127.0.0.1:0");
	unsetenv("TUTTI_KEY");
}

TEST(a_unix_store_survives_each_failure)
{
	char address[64];

	(void)state;
	snprintf(address, sizeof(address), "unix:tutti-test-failures-%ld", (long)getpid());
	fail_each_call(address);
}

TEST(a_file_store_survives_each_failure_and_leaves_no_scraps)
{
	char directory[] = "/tmp/tutti-test-failures-XXXXXX", text[128];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(text, sizeof(text), "file:%s", directory);
	fail_each_call(text);
	assert_int_equal(count_entries(directory), 3); /* ., .., the folder of the long key */
	snprintf(text, sizeof(text), "rm -r '%s'", directory);
	assert_int_equal(system(text), 0);
}

/* ---------------------------------------------------------------- what is said */

/* Connections to it neither come about nor are refused, as its queue is full. */
static int listen_in_vain(struct sockaddr_in *at, int queued[4])
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &length), 0);
	for (int i = 0; i < 4; i++) {
		queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_true(connect(queued[i], (struct sockaddr *)at, sizeof(*at)) == 0 ||
			    errno == EINPROGRESS);
	}
	return fd;
}

TEST(the_end_of_the_time_does_not_hide_why_nobody_answered)
{
	struct sockaddr_in at;
	int queued[4];
	const int fd = listen_in_vain(&at, queued);
	char address[64];
	tutti_store_t store;

	snprintf(address, sizeof(address), "tcp://127.0.0.1:%d", ntohs(at.sin_port));
	atomic_store(&calls_left, 0);
	refuse = true;
	assert_int_equal(tutti_store_open(address, 0, 0.2, &store), TUTTI_ERR_TIMEOUT);
	assert_false(refuse);
	assert_non_null(strstr(tt_thread_error(), ", last: Connection refused. Is rank 0 running"));
	/* where nothing else is known, that is what is said */
	assert_int_equal(tutti_store_open(address, 0, 0.2, &store), TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), ", last: Connection timed out. Is rank 0"));
	for (int i = 0; i < 4; i++)
		close(queued[i]);
	close(fd);
}
