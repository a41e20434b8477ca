/* SPDX-License-Identifier: BSD-3-Clause */
/* What holds for every kind of store. All claims are tried on one after the other. */
#include <netdb.h>
#include <stdbool.h>

#include "../patience.h"
#include "tutti_asserts.h"
#include "test_folder.h"
#include "test_store_scene.h"

#define CLIENTS 8

/* ---------------------------------------------------------------- kinds */

static const struct kind {
	const char *address;
	bool keyed, is_unix, is_folder;
} kinds[] = {
	{ "tcp://127.0.0.1:0" },
	{ "tcp://[::1]:0" },
	{ "tcp://localhost:0" },
	/* what others than this machine's processes can reach needs a key */
	{ "tcp://0.0.0.0:0", .keyed = true },
	{ "unix:tutti-test-store-", .is_unix = true },
	{ "file:", .is_folder = true },
};

static const struct kind *kind;
static tutti_store_t host;
static char address[TT_STORE_ADDRESS_MAX]; /* as all find it */

static int open_kind(void **state)
{
	if (kind->keyed)
		setenv("TUTTI_KEY", KEY, 1);
	if (kind->is_folder && make_folder(state))
		return -1;
	if (kind->is_unix)
		snprintf(address, sizeof(address), "%s%ld", kind->address, (long)getpid());
	else
		snprintf(address, sizeof(address), "%s%s", kind->address,
			 kind->is_folder ? folder : "");
	assert_ok(tutti_store_open(address, 1, PATIENCE_S, &host));
	snprintf(address, sizeof(address), "%s", tutti_store_address(host));
	print_message("%s\n", address);
	return 0;
}

static int close_kind(void **state)
{
	tutti_store_close(host);
	unsetenv("TUTTI_KEY");
	return kind->is_folder ? remove_folder(state) : 0;
}

static tutti_store_t open_client(void)
{
	tutti_store_t store;

	assert_ok(tutti_store_open(address, 0, PATIENCE_S, &store));
	return store;
}

/* ---------------------------------------------------------------- values */

static void fill(uint8_t *data, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void check_value(tutti_store_t store, const char *key, size_t length, unsigned seed)
{
	uint8_t *want = malloc(length + 1), *got = malloc(length + 1);
	size_t capacity = length;

	fill(want, length, seed);
	assert_ok(tutti_store_get(store, key, got, &capacity, PATIENCE_S));
	assert_int_equal(capacity, length);
	assert_memory_equal(got, want, length);
	free(want);
	free(got);
}

static void set_value(tutti_store_t store, const char *key, size_t length, unsigned seed)
{
	uint8_t *data = malloc(length + 1);

	fill(data, length, seed);
	assert_ok(tutti_store_set(store, key, data, length));
	free(data);
}

TEST(gives_back_values_of_any_size)
{
	static const size_t sizes[] = { 0, 1, 11, 12, 13, 4095, 65536, 262147, 1 << 20 };
	tutti_store_t other = open_client();
	char key[32];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(key, sizeof(key), "size/%zu", sizes[i]);
		set_value(host, key, sizes[i], (unsigned)i);
		check_value(other, key, sizes[i], (unsigned)i);
		check_value(host, key, sizes[i], (unsigned)i);
	}
	tutti_store_close(other);
}

TEST(the_last_value_of_a_key_wins)
{

	set_value(host, "twice", 1000, 1);
	set_value(host, "twice", 10, 2);
	check_value(host, "twice", 10, 2);
}

TEST(keys_of_any_bytes_and_length_are_kept_apart)
{
	char longest[256], other[256];
	const char *const keys[] = { "a",    "a/",  "a/b", "A",	      ".",     "..",
				     "../x", "%61", "+",   " \n\xff", longest, other };
	const size_t count = sizeof(keys) / sizeof(keys[0]);

	memset(longest, '/', 255);
	longest[255] = 0;
	memcpy(other, longest, 256);
	other[254] = '.';
	for (unsigned i = 0; i < count; i++)
		set_value(host, keys[i], i + 1, i);
	for (unsigned i = 0; i < count; i++)
		check_value(host, keys[i], i + 1, i);
	/* a key that is another's beginning, cut where long names are divided */
	other[200] = 0;
	set_value(host, other, 5, 77);
	check_value(host, other, 5, 77);
	check_value(host, longest, count - 1, (unsigned)count - 2);
}

TEST(a_get_of_a_missing_key_times_out)
{
	const uint64_t start = tt_now();
	size_t length = 0;

	assert_int_equal(tutti_store_get(host, "never", NULL, &length, 0), TUTTI_ERR_TIMEOUT);
	assert_int_equal(tutti_store_get(host, "never", NULL, &length, 0.05), TUTTI_ERR_TIMEOUT);
	assert_true(tt_now() - start >= 50000000u);
	assert_says(tt_thread_error(), "key \"never\" did not come");
	/* whoever waited in vain does not disturb what comes later */
	set_value(host, "never", 3, 3);
	check_value(host, "never", 3, 3);
}

TEST(a_value_that_does_not_fit_is_refused_with_its_length)
{
	char small[4];
	size_t length = sizeof(small);

	set_value(host, "large", 10000, 4);
	assert_int_equal(tutti_store_get(host, "large", small, &length, PATIENCE_S),
			 TUTTI_ERR_INVALID);
	assert_int_equal(length, 10000);
	assert_says(tt_thread_error(), "has 10000 bytes");
	check_value(host, "large", 10000, 4);
}

/* ---------------------------------------------------------------- many clients */

struct member {
	pthread_t thread;
	tutti_store_t store; /* NULL: opens its own */
	const char *prefix;
	int index, failed;
};

/* All set a key and wait for those of all the others, some rounds long; returns what went wrong, or
 * 0. */
static int meet(tutti_store_t store, const struct member *m)
{
	char key[64];
	int value;

	for (int round = 0; round < 4; round++) {
		snprintf(key, sizeof(key), "%s/%d/%d", m->prefix, round, m->index);
		value = round * 100 + m->index;
		if (tutti_store_set(store, key, &value, sizeof(value)) != TUTTI_OK)
			return 1;
		for (int other = 0; other < CLIENTS; other++) {
			size_t length = sizeof(value);

			snprintf(key, sizeof(key), "%s/%d/%d", m->prefix, round, other);
			if (tutti_store_get(store, key, &value, &length, PATIENCE_S) != TUTTI_OK)
				return 2;
			if (length != sizeof(value) || value != round * 100 + other)
				return 3;
		}
	}
	return 0;
}

static void *be_member(void *argument)
{
	struct member *m = argument;
	tutti_store_t store = m->store;

	if (!store && tutti_store_open(address, 0, PATIENCE_S, &store) != TUTTI_OK)
		m->failed = 4;
	else
		m->failed = meet(store, m);
	if (!m->store)
		tutti_store_close(store);
	return NULL;
}

static void run_threads(const char *prefix, tutti_store_t store)
{
	struct member members[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		struct member *m = &members[i];

		*m = (struct member){ .store = store, .prefix = prefix, .index = i };
		assert_int_equal(pthread_create(&m->thread, NULL, be_member, m), 0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(members[i].thread, NULL);
		assert_int_equal(members[i].failed, 0);
	}
}

TEST_OF(threads_meet_each_with_its_own_handle, run_threads("apart", NULL))
TEST_OF(threads_meet_through_one_handle, run_threads("together", host))

/* They are made while the store has no threads, and its address was free a moment ago. */
TEST(processes_wait_for_the_host_and_meet)
{
	pid_t pids[CLIENTS];
	tutti_store_t none;

	tutti_store_close(host);
	host = NULL;
	for (int i = 0; i < CLIENTS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct member m = { .prefix = "processes", .index = i };

			be_member(&m);
			_exit(m.failed);
		}
	}
	if (!kind->is_folder) {
		assert_fails(tutti_store_open(address, 0, 0.02, &none), TUTTI_ERR_TIMEOUT,
			     "nobody serves the store ");
		assert_null(none);
	}
	assert_ok(tutti_store_open(address, 1, PATIENCE_S, &host));
	for (int i = 0; i < CLIENTS; i++)
		await_exit(pids[i], 0);
}

/* ---------------------------------------------------------------- waiting */

TEST(waiting_gets_are_answered_by_a_later_set)
{
	struct waiter waiters[CLIENTS];
	const int value = 4711;
	size_t none = 0;

	for (int i = 0; i < CLIENTS; i++) {
		waiters[i] = (struct waiter){ .store = host, .key = "late" };
		waiter_begin(&waiters[i]);
	}
	/* passes while they wait: a waiting get holds nobody up */
	assert_int_equal(tutti_store_get(host, "other", NULL, &none, 0.02), TUTTI_ERR_TIMEOUT);
	const uint64_t start = tt_now();
	assert_ok(tutti_store_set(host, "late", &value, sizeof(value)));
	for (int i = 0; i < CLIENTS; i++) {
		waiter_end(&waiters[i]);
		assert_int_equal(waiters[i].result, TUTTI_OK);
		assert_int_equal(waiters[i].value, value);
	}
	assert_true(tt_now() - start < 1e9 * bound_s(5));
}

/* A bare container may know no name at all. */
static bool is_known(const char *name)
{
	struct addrinfo *found;

	if (getaddrinfo(name, NULL, NULL, &found) != 0) {
		print_message("%s has no address on this machine\n", name);
		return false;
	}
	freeaddrinfo(found);
	return true;
}

int main(void)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !failed; i++) {
		kind = &kinds[i];
		if (!strstr(kind->address, "localhost") || is_known("localhost"))
			failed = run_claims(open_kind, close_kind);
	}
	return failed;
}
