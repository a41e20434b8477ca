/* SPDX-License-Identifier: BSD-3-Clause */
/* What holds for every kind of store. The store a test runs on is in *state: how to open it, from
 * any thread or process. */
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "../patience.h"
#include "log.h"
#include "store.h"
#include "test_store_waiter.h"
#include "transport.h"

#define CLIENTS	   8
#define PATIENCE_S 20.0 /* far beyond what anything here takes */

/* ---------------------------------------------------------------- kinds */

struct kind {
	const char *address; /* "": the host of the fixture gives it */
	char directory[64];
	tutti_store_t host;
};

static int open_kind(void **state, const char *address)
{
	struct kind *kind = calloc(1, sizeof(*kind));

	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &kind->host), TUTTI_OK);
	kind->address = tutti_store_address(kind->host);
	*state = kind;
	return 0;
}

static int open_tcp(void **state)
{
	return open_kind(state, "tcp://127.0.0.1:0");
}

static int open_tcp6(void **state)
{
	return open_kind(state, "tcp://[::1]:0");
}

/* A bare container may know no name at all. */
static int open_named(void **state)
{
	struct addrinfo *found;

	*state = NULL;
	if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
		return 0;
	freeaddrinfo(found);
	return open_kind(state, "tcp://localhost:0");
}

/* What others than this machine's processes can reach needs a key. */
static int open_any(void **state)
{
	setenv("TUTTI_KEY", "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100", 1);
	return open_kind(state, "tcp://0.0.0.0:0");
}

static int open_unix(void **state)
{
	char address[64];

	snprintf(address, sizeof(address), "unix:tutti-test-store-%ld", (long)getpid());
	return open_kind(state, address);
}

static int open_file(void **state)
{
	char directory[] = "/tmp/tutti-test-store-XXXXXX", address[64];

	assert_non_null(mkdtemp(directory));
	snprintf(address, sizeof(address), "file:%s", directory);
	open_kind(state, address);
	memcpy(((struct kind *)*state)->directory, directory, sizeof(directory));
	return 0;
}

static int close_kind(void **state)
{
	struct kind *kind = *state;
	char command[128];

	tutti_store_close(kind->host);
	if (kind->directory[0]) {
		snprintf(command, sizeof(command), "rm -r '%s'", kind->directory);
		assert_int_equal(system(command), 0);
	}
	free(kind);
	unsetenv("TUTTI_KEY");
	return 0;
}

static int close_named(void **state)
{
	return *state ? close_kind(state) : 0;
}

static tutti_store_t open_client(const struct kind *kind)
{
	tutti_store_t store;

	assert_int_equal(tutti_store_open(kind->address, 0, PATIENCE_S, &store), TUTTI_OK);
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
	assert_int_equal(tutti_store_get(store, key, got, &capacity, PATIENCE_S), TUTTI_OK);
	assert_int_equal(capacity, length);
	assert_memory_equal(got, want, length);
	free(want);
	free(got);
}

static void set_value(tutti_store_t store, const char *key, size_t length, unsigned seed)
{
	uint8_t *data = malloc(length + 1);

	fill(data, length, seed);
	assert_int_equal(tutti_store_set(store, key, data, length), TUTTI_OK);
	free(data);
}

static void gives_back_values_of_any_size(void **state)
{
	static const size_t sizes[] = { 0, 1, 11, 12, 13, 4095, 65536, 262147, 1 << 20 };
	struct kind *kind = *state;
	tutti_store_t other = open_client(kind);
	char key[32];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(key, sizeof(key), "size/%zu", sizes[i]);
		set_value(kind->host, key, sizes[i], (unsigned)i);
		check_value(other, key, sizes[i], (unsigned)i);
		check_value(kind->host, key, sizes[i], (unsigned)i);
	}
	tutti_store_close(other);
}

static void gives_back_values_under_a_name(void **state)
{
	if (!*state) {
		print_message("localhost has no address on this machine\n");
		skip();
	}
	gives_back_values_of_any_size(state);
}

static void the_last_value_of_a_key_wins(void **state)
{
	struct kind *kind = *state;

	set_value(kind->host, "twice", 1000, 1);
	set_value(kind->host, "twice", 10, 2);
	check_value(kind->host, "twice", 10, 2);
}

static void keys_of_any_bytes_and_length_are_kept_apart(void **state)
{
	struct kind *kind = *state;
	char longest[256], other[256];
	const char *const keys[] = { "a",    "a/",  "a/b", "A",	      ".",     "..",
				     "../x", "%61", "+",   " \n\xff", longest, other };
	const size_t count = sizeof(keys) / sizeof(keys[0]);

	memset(longest, '/', 255);
	longest[255] = 0;
	memcpy(other, longest, 256);
	other[254] = '.';
	for (unsigned i = 0; i < count; i++)
		set_value(kind->host, keys[i], i + 1, i);
	for (unsigned i = 0; i < count; i++)
		check_value(kind->host, keys[i], i + 1, i);
	/* a key that is another's beginning, cut where long names are divided */
	other[200] = 0;
	set_value(kind->host, other, 5, 77);
	check_value(kind->host, other, 5, 77);
	check_value(kind->host, longest, count - 1, (unsigned)count - 2);
}

static void a_get_of_a_missing_key_times_out(void **state)
{
	struct kind *kind = *state;
	const uint64_t start = tt_now();
	size_t length = 0;

	assert_int_equal(tutti_store_get(kind->host, "never", NULL, &length, 0), TUTTI_ERR_TIMEOUT);
	assert_int_equal(tutti_store_get(kind->host, "never", NULL, &length, 0.05),
			 TUTTI_ERR_TIMEOUT);
	assert_true(tt_now() - start >= 50000000u);
	assert_non_null(strstr(tt_thread_error(), "key \"never\" did not come"));
	/* whoever waited in vain does not disturb what comes later */
	set_value(kind->host, "never", 3, 3);
	check_value(kind->host, "never", 3, 3);
}

static void a_value_that_does_not_fit_is_refused_with_its_length(void **state)
{
	struct kind *kind = *state;
	char small[4];
	size_t length = sizeof(small);

	set_value(kind->host, "large", 10000, 4);
	assert_int_equal(tutti_store_get(kind->host, "large", small, &length, PATIENCE_S),
			 TUTTI_ERR_INVALID);
	assert_int_equal(length, 10000);
	assert_non_null(strstr(tt_thread_error(), "has 10000 bytes"));
	check_value(kind->host, "large", 10000, 4);
}

/* ---------------------------------------------------------------- many clients */

struct member {
	const struct kind *kind;
	tutti_store_t store; /* NULL: opens its own */
	int index;
	bool failed;
};

/* All set a key and wait for those of all the others, some rounds long; returns what went wrong, or
 * 0. */
static int meet(tutti_store_t store, int index)
{
	char key[32];
	int value;

	for (int round = 0; round < 4; round++) {
		snprintf(key, sizeof(key), "round/%d/%d", round, index);
		value = round * 100 + index;
		if (tutti_store_set(store, key, &value, sizeof(value)) != TUTTI_OK)
			return 1;
		for (int other = 0; other < CLIENTS; other++) {
			size_t length = sizeof(value);

			snprintf(key, sizeof(key), "round/%d/%d", round, other);
			if (tutti_store_get(store, key, &value, &length, PATIENCE_S) != TUTTI_OK)
				return 2;
			if (length != sizeof(value) || value != round * 100 + other)
				return 3;
		}
	}
	return 0;
}

static int join_and_meet(const struct kind *kind, tutti_store_t store, int index)
{
	const bool own = !store;

	if (own && tutti_store_open(kind->address, 0, PATIENCE_S, &store) != TUTTI_OK)
		return 4;
	const int result = meet(store, index);
	if (own)
		tutti_store_close(store);
	return result;
}

static void *member_thread(void *argument)
{
	struct member *m = argument;

	m->failed = join_and_meet(m->kind, m->store, m->index) != 0;
	return NULL;
}

static void run_threads(const struct kind *kind, tutti_store_t store)
{
	struct member members[CLIENTS];
	pthread_t threads[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		members[i] = (struct member){ kind, store, i, false };
		assert_int_equal(pthread_create(&threads[i], NULL, member_thread, &members[i]), 0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(threads[i], NULL);
		assert_false(members[i].failed);
	}
}

static void threads_meet_each_with_its_own_handle(void **state)
{
	run_threads(*state, NULL);
}

static void threads_meet_through_one_handle(void **state)
{
	struct kind *kind = *state;

	run_threads(kind, kind->host);
}

/* The processes are made before the store has threads, and wait for it to come. */
static void processes_meet_at(const char *address)
{
	const struct kind kind = { .address = address };
	pid_t pids[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			tutti_store_t store = NULL;
			int result = 0;

			if (i == 0 && tutti_store_open(address, 1, PATIENCE_S, &store) != TUTTI_OK)
				_exit(5);
			result = join_and_meet(&kind, store, i);
			tutti_store_close(store);
			_exit(result);
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void processes_meet_on_a_unix_socket(void **state)
{
	char address[64];

	(void)state;
	snprintf(address, sizeof(address), "unix:tutti-test-meet-%ld", (long)getpid());
	processes_meet_at(address);
}

/* A port that was free a moment ago. */
static void processes_meet_over_tcp(void **state)
{
	char address[TT_STORE_ADDRESS_MAX];
	tutti_store_t store;

	(void)state;
	assert_int_equal(tutti_store_open("tcp://127.0.0.1:0", 1, PATIENCE_S, &store), TUTTI_OK);
	snprintf(address, sizeof(address), "%s", tutti_store_address(store));
	tutti_store_close(store);
	processes_meet_at(address);
}

static void processes_meet_in_a_directory(void **state)
{
	struct kind *kind;
	void *made;

	(void)state;
	open_file(&made);
	kind = made;
	processes_meet_at(kind->address);
	close_kind(&made);
}

/* ---------------------------------------------------------------- waiting */

static void waiting_gets_are_answered_by_a_later_set(void **state)
{
	struct kind *kind = *state;
	struct waiter waiters[CLIENTS];
	pthread_t threads[CLIENTS];
	const int value = 4711;
	size_t none = 0;

	for (int i = 0; i < CLIENTS; i++) {
		waiters[i] = (struct waiter){ .store = kind->host, .key = "late" };
		pthread_create(&threads[i], NULL, waiter_thread, &waiters[i]);
	}
	/* passes while they wait: a waiting get holds nobody up */
	assert_int_equal(tutti_store_get(kind->host, "other", NULL, &none, 0.02),
			 TUTTI_ERR_TIMEOUT);
	const uint64_t start = tt_now();
	assert_int_equal(tutti_store_set(kind->host, "late", &value, sizeof(value)), TUTTI_OK);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(waiters[i].result, TUTTI_OK);
		assert_int_equal(waiters[i].value, value);
	}
	assert_true(tt_now() - start < 1e9 * bound_s(5));
}

static void *early_thread(void *argument)
{
	struct member *m = argument;

	m->failed = tutti_store_open(m->kind->address, 0, PATIENCE_S, &m->store) != TUTTI_OK;
	tutti_store_close(m->store);
	return NULL;
}

static void a_client_waits_for_its_host_to_come(void **state)
{
	char address[64];
	const struct kind kind = { .address = address };
	struct member early = { .kind = &kind };
	pthread_t thread;
	tutti_store_t host;

	(void)state;
	snprintf(address, sizeof(address), "unix:tutti-test-early-%ld", (long)getpid());
	assert_int_equal(pthread_create(&thread, NULL, early_thread, &early), 0);
	assert_int_equal(tutti_store_open(address, 0, 0.02, &host), TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), "nobody serves the store unix:"));
	assert_null(host);
	assert_int_equal(tutti_store_open(address, 1, PATIENCE_S, &host), TUTTI_OK);
	pthread_join(thread, NULL);
	assert_false(early.failed);
	tutti_store_close(host);
}

#define ON_EVERY(test)                                                                             \
	{ #test " (tcp)", test, open_tcp, close_kind, NULL },                                      \
		{ #test " (unix)", test, open_unix, close_kind, NULL },                            \
	{                                                                                          \
#test " (file)", test, open_file, close_kind, NULL                                 \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_EVERY(gives_back_values_of_any_size),
		{ "gives_back_values_of_any_size (tcp, IPv6)", gives_back_values_of_any_size,
		  open_tcp6, close_kind, NULL },
		{ "gives_back_values_of_any_size (tcp, a name)", gives_back_values_under_a_name,
		  open_named, close_named, NULL },
		{ "gives_back_values_of_any_size (tcp, any address)", gives_back_values_of_any_size,
		  open_any, close_kind, NULL },
		ON_EVERY(the_last_value_of_a_key_wins),
		ON_EVERY(keys_of_any_bytes_and_length_are_kept_apart),
		ON_EVERY(a_get_of_a_missing_key_times_out),
		ON_EVERY(a_value_that_does_not_fit_is_refused_with_its_length),
		ON_EVERY(threads_meet_each_with_its_own_handle),
		ON_EVERY(threads_meet_through_one_handle),
		ON_EVERY(waiting_gets_are_answered_by_a_later_set),
		cmocka_unit_test(processes_meet_on_a_unix_socket),
		cmocka_unit_test(processes_meet_over_tcp),
		cmocka_unit_test(processes_meet_in_a_directory),
		cmocka_unit_test(a_client_waits_for_its_host_to_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
