/* SPDX-License-Identifier: BSD-3-Clause */
/* The user's own stores, and what the public calls on stores say to arguments that make no sense.
 */
#include <errno.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tutti_asserts.h"
#include "test_folder.h"
#include "test_store_scene.h"

/* ---------------------------------------------------------------- the user's own */

struct table {
	int sets, destroyed;
	bool inside; /* two threads at once would be a broken promise */
	char key[64];
	uint8_t value[64];
	size_t length;
	int error;
};

static void occupy(struct table *t)
{
	assert_false(__atomic_exchange_n(&t->inside, true, __ATOMIC_ACQUIRE));
}

static void vacate(struct table *t)
{
	__atomic_store_n(&t->inside, false, __ATOMIC_RELEASE);
}

static int table_set(void *context, const char *key, const void *value, size_t length)
{
	struct table *t = context;

	occupy(t);
	snprintf(t->key, sizeof(t->key), "%s", key);
	memcpy(t->value, value, length);
	t->length = length;
	t->sets++;
	vacate(t);
	return t->error;
}

static int table_get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	struct table *t = context;
	const size_t capacity = *length;
	int error = 0;

	(void)timeout_s;
	occupy(t);
	assert_non_null(value);
	*length = t->length;
	if (t->error)
		error = t->error;
	else if (strcmp(key, t->key) != 0)
		error = ETIMEDOUT;
	else if (t->length > capacity)
		error = EMSGSIZE;
	else
		memcpy(value, t->value, t->length);
	vacate(t);
	return error;
}

static void table_destroy(void *context)
{
	((struct table *)context)->destroyed++;
}

static const tutti_store_ops_t table_ops = { sizeof(table_ops), table_set, table_get,
					     table_destroy };

TEST(a_users_table_is_called_and_destroyed)
{
	struct table table = { 0 };
	tutti_store_t store;
	char value[8];
	size_t length = sizeof(value), small = 1, none = 0;

	assert_ok(tutti_store_create(&table_ops, &table, &store));
	assert_non_null(tutti_store_address(store));
	assert_ok(tutti_store_set(store, "k", "hello", 6));
	assert_int_equal(table.sets, 1);
	assert_ok(tutti_store_get(store, "k", value, &length, 1));
	assert_string_equal(value, "hello");
	assert_int_equal(tutti_store_get(store, "k", value, &small, 1), TUTTI_ERR_INVALID);
	assert_int_equal(small, 6);
	assert_int_equal(tutti_store_get(store, "k", NULL, &none, 1), TUTTI_ERR_INVALID);
	assert_int_equal(tutti_store_get(store, "none", value, &length, 0.01), TUTTI_ERR_TIMEOUT);
	table.error = EIO;
	assert_int_equal(tutti_store_get(store, "k", value, &length, 1), TUTTI_ERR_SYSTEM);
	assert_fails(tutti_store_set(store, "k", value, 1), TUTTI_ERR_SYSTEM, strerror(EIO));
	tutti_store_close(store);
	assert_int_equal(table.destroyed, 1);
}

TEST(a_waiting_get_of_a_users_table_lets_others_in)
{
	struct table table = { 0 };
	struct waiter waiter = { .key = "late" };
	const int value = 5;

	assert_ok(tutti_store_create(&table_ops, &table, &waiter.store));
	waiter_begin(&waiter);
	assert_ok(tutti_store_set(waiter.store, "late", &value, sizeof(value)));
	waiter_end(&waiter);
	assert_int_equal(waiter.result, TUTTI_OK);
	assert_int_equal(waiter.value, 5);
	tutti_store_close(waiter.store);
}

static sem_t let_go;		/* who is in set() returns */
static _Thread_local bool late; /* the thread's time is over when it is woken, whoever did that */

int __real_pthread_cond_timedwait(pthread_cond_t *turned, pthread_mutex_t *lock,
				  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *turned, pthread_mutex_t *lock,
				  const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *turned, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	for (int i = 0; late && i < 2; i++) /* it needs the lock for that; and this thread */
		sem_post(&let_go);
	const int error = __real_pthread_cond_timedwait(turned, lock, until);
	return late ? ETIMEDOUT : error;
}

static int slow_set(void *context, const char *key, const void *value, size_t length)
{
	sem_post(context);
	sem_wait(&let_go);
	return 0;
}

static void *set_slowly(void *store)
{
	tutti_store_set(store, "k", "", 0);
	return NULL;
}

TEST(a_turn_at_a_users_table_that_comes_with_the_end_of_the_time_is_taken)
{
	const tutti_store_ops_t ops = { sizeof(ops), slow_set, table_get, NULL };
	tutti_store_t store;
	pthread_t thread;
	sem_t inside;

	sem_init(&inside, 0, 0);
	sem_init(&let_go, 0, 0);
	assert_ok(tutti_store_create(&ops, &inside, &store));
	assert_int_equal(pthread_create(&thread, NULL, set_slowly, store), 0);
	sem_wait(&inside);
	late = true;
	assert_ok(tutti_store_set(store, "k", "", 0));
	late = false;
	pthread_join(thread, NULL);
	tutti_store_close(store);
}

TEST(a_users_table_must_be_whole)
{
	tutti_store_ops_t ops = table_ops;
	tutti_store_t store;

	assert_fails(tutti_store_create(NULL, NULL, &store), TUTTI_ERR_INVALID, "NULL");
	assert_fails(tutti_store_create(&ops, NULL, NULL), TUTTI_ERR_INVALID, "NULL");
	ops.get = NULL;
	assert_fails(tutti_store_create(&ops, NULL, &store), TUTTI_ERR_INVALID, "get is NULL");
	ops = table_ops;
	ops.size = 8;
	assert_fails(tutti_store_create(&ops, NULL, &store), TUTTI_ERR_INVALID, "size");
	assert_null(store);
}

/* ---------------------------------------------------------------- errors */

TEST_WITH(bad_arguments_are_named, open_host, close_host)
{
	tutti_store_t host = *state;
	char key[258], value[4];
	size_t length = sizeof(value);

	memset(key, 'k', 256);
	key[256] = 0;
	assert_fails(tutti_store_set(NULL, "k", "", 0), TUTTI_ERR_INVALID, "NULL");
	assert_int_equal(tutti_store_set(host, NULL, "", 0), TUTTI_ERR_INVALID);
	assert_int_equal(tutti_store_set(host, "", "", 0), TUTTI_ERR_INVALID);
	assert_fails(tutti_store_set(host, key, "", 0), TUTTI_ERR_INVALID,
		     "has 256 bytes: expected 1 to 255");
	assert_int_equal(tutti_store_set(host, "k", NULL, 1), TUTTI_ERR_INVALID);
	assert_fails(tutti_store_set(host, "k", key, (1 << 20) + 1), TUTTI_ERR_INVALID,
		     "1048577 bytes");
	assert_fails(tutti_store_get(NULL, "k", value, &length, 1), TUTTI_ERR_INVALID, "NULL");
	assert_int_equal(tutti_store_get(host, "k", value, NULL, 1), TUTTI_ERR_INVALID);
	assert_int_equal(tutti_store_get(host, "k", NULL, &length, 1), TUTTI_ERR_INVALID);
	assert_int_equal(tutti_store_get(host, "k", value, &length, -1), TUTTI_ERR_INVALID);
	assert_null(tutti_store_address(NULL));
	tutti_store_close(NULL);
}

TEST(bad_addresses_are_named)
{
	static const struct {
		const char *address, *says;
	} cases[] = {
		{ "http://x:1", "\"http://x:1\": expected tcp://HOST:PORT" },
		{ "tcp://", "expected tcp://HOST:PORT" },
		{ "tcp://host", "expected tcp://HOST:PORT" },
		{ "tcp://:1", "expected tcp://HOST:PORT" },
		{ "tcp://fd00::1:5", "in brackets" },
		{ "tcp://[::1]5", "in brackets" },
		{ "tcp://h:70000", "port \"70000\"" },
		{ "tcp://h:-1", "port \"-1\"" },
		{ "tcp://h:", "port \"\"" },
		{ "tcp://127.0.0.1:0", "has port 0" },
		{ "unix:", "0 bytes" },
		{ "file:", "names no directory" },
	};
	char longest[700] = "tcp://";
	tutti_store_t store;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_fails(tutti_store_open(cases[i].address, 0, 1, &store), TUTTI_ERR_INVALID,
			     cases[i].says);
		assert_null(store);
	}
	assert_fails(tutti_store_open(NULL, 0, 1, &store), TUTTI_ERR_INVALID, "NULL");
	assert_fails(tutti_store_open("unix:x", 0, -1, &store), TUTTI_ERR_INVALID, "-1");
	assert_fails(tutti_store_open("unix:x", 0, 1, NULL), TUTTI_ERR_INVALID, "NULL");
	memset(longest + 6, 'h', sizeof(longest) - 7);
	assert_int_equal(tutti_store_open(longest, 0, 1, &store), TUTTI_ERR_INVALID);
	memcpy(longest + 400, ":1", 3);
	assert_fails(tutti_store_open(longest, 0, 1, &store), TUTTI_ERR_INVALID,
		     "host name of 394 bytes");
}

/* Whoever may write to a store's directory can give a key's name to anything; nobody waits for a
 * pipe's other end. */
TEST_WITH(what_is_no_value_is_named, make_folder, remove_folder)
{
	static const char *const names[] = { "pipe", "link", "dangling", "directory", "socket" };
	char address[80], value[8];
	struct sockaddr_un name = { AF_UNIX, "socket" };
	const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	tutti_store_t store;

	assert_int_equal(chdir(folder), 0);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(symlink("/etc/passwd", "link"), 0);
	assert_int_equal(symlink("nowhere", "dangling"), 0);
	assert_int_equal(mkdir("directory", 0700), 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&name, sizeof(name)), 0);
	snprintf(address, sizeof(address), "file:%s", folder);
	assert_ok(tutti_store_open(address, 0, 1, &store));
	for (int i = 0; i < 5; i++) {
		size_t length = sizeof(value);

		assert_fails(tutti_store_get(store, names[i], value, &length, 10), TUTTI_ERR_SYSTEM,
			     "is no regular file: expected a value");
	}
	tutti_store_close(store);
	close(listening);
	assert_int_equal(chdir("/"), 0);
}

TEST_WITH(a_store_that_cannot_be_served_says_why, open_host, close_host)
{
	char taken[64];
	const struct {
		const char *address;
		int serve;
		const char *says;
	} cases[] = {
		{ tutti_store_address(*state), 1, "has this address" },
		{ taken, 1, "has this address" },
		{ "tcp://192.0.2.77:1", 1, "no address of this machine" },
		{ "tcp://no.such.host.invalid:1", 1, "no.such.host.invalid" },
		{ "file:/proc/version", 0, "/proc/version" },
		{ "file:/proc/none/such", 0, "/proc/none/such" },
	};
	tutti_store_t store;

	snprintf(taken, sizeof(taken), "tcp://127.0.0.1,192.0.2.77%s",
		 strrchr(tutti_store_address(*state), ':'));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_fails(open_with(cases[i].address, cases[i].serve, KEY, &store),
			     TUTTI_ERR_SYSTEM, cases[i].says);
		assert_null(store);
	}
}
