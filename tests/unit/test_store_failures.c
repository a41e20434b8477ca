/* SPDX-License-Identifier: BSD-3-Clause */
/* Fails each allocation and each system call of a store in turn: the first of them, then the
 * second, until a whole story passes without reaching the one to fail. Whatever fails, calls
 * return with an error message or do what they should, and no descriptor is left. The stores
 * under test are built with these calls renamed. */
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "held.h"
#include "tutti_asserts.h"
#include "test_folder.h"
#include "test_store_scene.h"

/* ---------------------------------------------------------------- calls that fail when told to */

static atomic_int calls_left; /* until the one that fails; relaxed: it orders nothing */
static atomic_bool failed;
static int asked;  /* for the addresses of a name */
static bool moves; /* the name, from another machine's address to this one's */
static int refuse; /* the next connection by this errno value, in a test without threads */

static bool fails(int error)
{
	if (atomic_fetch_sub_explicit(&calls_left, 1, memory_order_relaxed) != 1)
		return false;
	atomic_store_explicit(&failed, true, memory_order_relaxed);
	errno = error;
	return true;
}

/* What the stores call in place of `name`. */
#define FAILING(type, name, parameters, arguments, error, failure)                                 \
	type failing_##name parameters;                                                            \
	type failing_##name parameters                                                             \
	{                                                                                          \
		return fails(error) ? failure : name arguments;                                    \
	}

FAILING(void *, malloc, (size_t size), (size), ENOMEM, NULL)
FAILING(void *, calloc, (size_t n, size_t size), (n, size), ENOMEM, NULL)
FAILING(int, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, -1)
FAILING(int, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE, -1)
FAILING(int, accept4, (int fd, struct sockaddr *at, socklen_t *length, int flags),
	(fd, at, length, flags), EMFILE, -1)
FAILING(ssize_t, send, (int fd, const void *data, size_t n, int flags), (fd, data, n, flags),
	ECONNRESET, -1)
FAILING(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
	ECONNRESET, -1)
FAILING(ssize_t, recv, (int fd, void *data, size_t n, int flags), (fd, data, n, flags), ECONNRESET,
	-1)
FAILING(int, epoll_create1, (int flags), (flags), EMFILE, -1)
FAILING(int, eventfd, (unsigned value, int flags), (value, flags), EMFILE, -1)
FAILING(int, pthread_create,
	(pthread_t * thread, const pthread_attr_t *attributes, void *(*function)(void *),
	 void *argument),
	(thread, attributes, function, argument), EAGAIN, EAGAIN)
FAILING(int, mkostemp, (char *name, int flags), (name, flags), ENOSPC, -1)
FAILING(int, rename, (const char *from, const char *to), (from, to), EIO, -1)
FAILING(int, mkdir, (const char *path, mode_t mode), (path, mode), ENOSPC, -1)
FAILING(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), ENOSPC, -1)
FAILING(ssize_t, read, (int fd, void *data, size_t n), (fd, data, n), EIO, -1)
FAILING(int, inotify_init1, (int flags), (flags), EMFILE, -1)

int failing_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int failing_connect(int fd, const struct sockaddr *at, socklen_t length);
int failing_getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
			struct addrinfo **out);

int failing_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return op == EPOLL_CTL_ADD && fails(ENOSPC) ? -1 : epoll_ctl(epoll, op, fd, event);
}

int failing_connect(int fd, const struct sockaddr *at, socklen_t length)
{
	if (!refuse)
		return connect(fd, at, length);
	errno = refuse;
	refuse = 0;
	return -1;
}

int failing_getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
			struct addrinfo **out)
{
	const char *moved = asked++ ? "127.0.0.1" : "192.0.2.77";

	return getaddrinfo(moves ? moved : name, port, hints, out);
}

/* ---------------------------------------------------------------- the story */

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

TEST_OF(a_tcp_store_survives_each_failure, fail_each_call("tcp://127.0.0.1:0"))

TEST(a_store_with_a_key_survives_each_failure)
{
	setenv("TUTTI_KEY", KEY, 1);
	fail_each_call("tcp://127.0.0.1:0");
	unsetenv("TUTTI_KEY");
}

TEST_WITH(a_file_store_survives_each_failure_and_leaves_no_scraps, make_folder, remove_folder)
{
	char address[80];

	snprintf(address, sizeof(address), "file:%s", folder);
	fail_each_call(address);
	assert_int_equal(count_entries(folder), 3); /* ., .., the folder of the long key */
}

/* ---------------------------------------------------------------- what is said */

static int begin_call(int port)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ||
		    errno == EINPROGRESS);
	return fd;
}

TEST(the_end_of_the_time_does_not_hide_why_nobody_answered)
{
	char address[64];
	/* its queue is full: connections neither come about nor are refused */
	const int listening = listen_as_host(0, 0, address), port = atoi(strrchr(address, ':') + 1);
	int queued[4];
	tutti_store_t store;

	for (int i = 0; i < 4; i++)
		queued[i] = begin_call(port);
	atomic_store(&calls_left, 0);
	refuse = ECONNREFUSED;
	assert_int_equal(tutti_store_open(address, 0, 0.2, &store), TUTTI_ERR_TIMEOUT);
	assert_int_equal(refuse, 0);
	assert_says(tt_thread_error(), ", last: Connection refused. Is its host running");
	/* where nothing else is known, that is what is said */
	assert_fails(tutti_store_open(address, 0, 0.2, &store), TUTTI_ERR_TIMEOUT,
		     ", last: no reaction to the connection attempt, ");
	for (int i = 0; i < 4; i++)
		close(queued[i]);
	close(listening);
}

/* ICMPv6's "administratively prohibited", as of one address of two that a name has. */
TEST(a_way_that_is_forbidden_is_tried_again)
{
	tutti_store_t store;

	atomic_store(&calls_left, 0);
	refuse = EACCES;
	assert_ok(tutti_store_open("tcp://127.0.0.1:0", 1, 10, &store));
	assert_int_equal(refuse, 0);
	tutti_store_close(store);
}

TEST(a_pod_without_a_name_ends_at_its_deadline)
{
	tutti_store_t store;

	asked = 0;
	setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	assert_fails(tutti_store_open("tcp://no.such.host.invalid:1", 1, 1e-9, &store),
		     TUTTI_ERR_SYSTEM, "no.such.host.invalid");
	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_int_equal(asked, 1); /* and not until a minute is over */
}

TEST(a_pod_waits_while_its_name_is_that_of_the_pod_before)
{
	tutti_store_t store;

	asked = 0;
	moves = true;
	setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	setenv("TUTTI_KEY", KEY, 1);
	assert_ok(tutti_store_open("tcp://job-0.job:0", 1, 10, &store));
	unsetenv("TUTTI_KEY");
	unsetenv("KUBERNETES_SERVICE_HOST");
	moves = false;
	tutti_store_close(store);
}

/* What will not pass is not waited for. */
TEST(who_has_no_descriptors_is_told_so_at_once)
{
	char address[64];
	const int listening = listen_as_host(0, 0, address);
	tutti_store_t store;

	atomic_store(&calls_left, 0);
	refuse = EMFILE;
	assert_fails(tutti_store_open(address, 0, 5, &store), TUTTI_ERR_SYSTEM,
		     "Too many open files: ");
	close(listening);
}

TEST(a_host_without_memory_is_the_one_whose_limit_to_raise)
{
	tutti_result_t result = TUTTI_OK;

	for (int n = 1; result != TUTTI_ERR_NO_MEMORY; n++) {
		tutti_store_t host, client;

		atomic_store(&calls_left, 0);
		assert_ok(tutti_store_open("tcp://127.0.0.1:0", 1, 10, &host));
		assert_ok(tutti_store_open(tutti_store_address(host), 0, 10, &client));
		atomic_store(&failed, false);
		atomic_store(&calls_left, n);
		result = tutti_store_set(client, "key", "1234", 4);
		assert_true(result == TUTTI_ERR_NO_MEMORY || atomic_load(&failed));
		if (result == TUTTI_ERR_NO_MEMORY)
			assert_says(tt_thread_error(),
				    "has no memory left for keys and values, of which "
				    "it takes 1 GiB at most; raise the limit of its");
		tutti_store_close(client);
		tutti_store_close(host);
	}
}
