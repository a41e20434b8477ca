/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose ranks do not fit together: one that allows another transport, says another number
 * of ranks, takes another's number, has another key or none. Every rank is told why within
 * seconds, far from its deadline, in every kind of store.
 *
 *   test_joining [PATTERN OF CLAIMS] */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS_MAX 4
#define SOON_S	  bound_s(15.0) /* a loaded machine's */
#define KEY	  "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER	  "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* What is wrong with the odd one. */
enum fault {
	SHM_ALONE,
	TCP_ALONE,
	ONE_MORE,
	ONE_LESS,
	TWICE,
	ANOTHER_KEY,
	NO_KEY,
	A_KEY,
	ANOTHER_SECRET, /* another key, where all encrypt */
	ENCRYPTS,
	DOES_NOT_ENCRYPT,
	NO_INTERFACE
};

#define KEYED "TUTTI_KEY=" KEY

/* In the environment of all ranks, and then of the odd one: NAME=VALUE, or NAME alone where it is not set. */
static const struct {
	const char *name, *all, *odd;
	bool all_encrypt;
} faults[] = {
	[SHM_ALONE] = { "shm alone", "TUTTI_TRANSPORT=tcp", "TUTTI_TRANSPORT=shm" },
	[TCP_ALONE] = { "tcp alone", "TUTTI_TRANSPORT=shm", "TUTTI_TRANSPORT=tcp" },
	[ONE_MORE] = { "one rank more" },
	[ONE_LESS] = { "one rank less" },
	[TWICE] = { "another's number" },
	[ANOTHER_KEY] = { "another key", KEYED, "TUTTI_KEY=" OTHER },
	[NO_KEY] = { "no key", KEYED, "TUTTI_KEY" },
	[A_KEY] = { "a key", "TUTTI_KEY", KEYED },
	[ANOTHER_SECRET] = { "another key of TLS", KEYED, "TUTTI_KEY=" OTHER, true },
	[ENCRYPTS] = { "encryption", KEYED, "TUTTI_ENCRYPT=1" },
	[DOES_NOT_ENCRYPT] = { "no encryption", KEYED, "TUTTI_ENCRYPT", true },
	[NO_INTERFACE] = { "no interface", KEYED, "TUTTI_INTERFACE=nosuch0" },
};

/* How the ranks meet: by tutti_init() or tutti_comm_create(), in which store. */
enum way {
	HOSTED_TCP,
	HOSTED_UNIX,
	SERVED_TCP,
	SERVED_UNIX,
	A_DIRECTORY,
	CREATE_TCP,
	CREATE_UNIX,
	CREATE_DIRECTORY,
	CREATE_USER
};

static const char *const way_names[] = {
	[HOSTED_TCP] = "tcp of rank 0", [HOSTED_UNIX] = "unix of rank 0",
	[SERVED_TCP] = "tcp served",	[SERVED_UNIX] = "unix served",
	[A_DIRECTORY] = "a directory",	[CREATE_TCP] = "tcp, made",
	[CREATE_UNIX] = "unix, made",	[CREATE_DIRECTORY] = "a directory, made",
	[CREATE_USER] = "user's",
};

struct outcome {
	pid_t pid;
	tutti_result_t result;
	double took;
	char error_text[512];
};

struct play {
	enum fault fault;
	enum way way;
	int size, odd; /* which rank; of start_again(): how many came to the start before … */
	bool gave_up;  /* … until their deadline; otherwise they were killed */
	char address[128];
	atomic_int serving, over, done;
	struct outcome outcome[RANKS_MAX];
};

static bool shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool shell(const char *format, ...)
{
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command) == 0;
}

/* ---- a rank */

static bool is_created(enum way way)
{
	return way >= CREATE_TCP;
}

static bool is_served(enum way way)
{
	return way == SERVED_TCP || way == SERVED_UNIX || way == CREATE_TCP || way == CREATE_UNIX;
}

static bool is_directory(enum way way)
{
	return way == A_DIRECTORY || way == CREATE_DIRECTORY || way == CREATE_USER;
}

static void be_as_all(const struct play *play)
{
	setenv("TUTTI_TRANSPORT", "shm,tcp", 1);
	if (faults[play->fault].all)
		putenv((char *)faults[play->fault].all);
	if (faults[play->fault].all_encrypt)
		setenv("TUTTI_ENCRYPT", "1", 1);
	setenv("TUTTI_STORE", play->address, 1);
	set_number("TUTTI_SIZE", play->size);
	unsetenv("TUTTI_LOCAL_SIZE");
	unsetenv("TUTTI_LOCAL_RANK");
	if (is_served(play->way))
		setenv("TUTTI_STORE_SERVED", "once", 1);
}

/* Whose number the odd one takes. */
static int taken(const struct play *play)
{
	return (play->odd + 1) % play->size;
}

static void be_odd(const struct play *play)
{
	if (faults[play->fault].odd)
		putenv((char *)faults[play->fault].odd);
	else if (play->fault == TWICE)
		set_number("TUTTI_RANK", taken(play));
	else
		set_number("TUTTI_SIZE", play->size + (play->fault == ONE_MORE ? 1 : -1));
}

static int user_set(void *context, const char *key, const void *value, size_t length)
{
	return store_error(tutti_store_set(context, key, value, length));
}

static int user_get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	return store_error(tutti_store_get(context, key, value, length, timeout_s));
}

static tutti_result_t create(const struct play *play, tutti_comm_t *comm)
{
	const tutti_store_ops_t ops = { sizeof(ops), user_set, user_get, NULL };
	tutti_store_t store = NULL, inner = NULL;
	tutti_result_t result = tutti_store_open(play->address, 0, 0, &store);

	if (!result && play->way == CREATE_USER) {
		inner = store;
		result = tutti_store_create(&ops, inner, &store);
	}
	if (!result)
		result = tutti_comm_create(store, atoi(getenv("TUTTI_RANK")),
					   atoi(getenv("TUTTI_SIZE")), NULL, comm);
	tutti_store_close(store);
	tutti_store_close(inner);
	return result;
}

static tutti_result_t join(const struct play *play, tutti_comm_t *comm)
{
	return is_created(play->way) ? create(play, comm) : tutti_init(NULL, comm);
}

static int serve(struct play *play)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;

	SUCCEEDS(tutti_store_open(play->address, 1, 0, &store));
	snprintf(play->address, sizeof(play->address), "%s", tutti_store_address(store));
	atomic_store(&play->serving, 1);
	await_count(&play->done, play->size);
	tutti_store_close(store);
	return 0;
}

static int be(int rank, void *argument)
{
	struct play *play = argument;
	struct outcome *out = &play->outcome[rank];
	tutti_comm_t comm = NULL;

	if (rank < play->size)
		await_count(&play->serving, 1);
	be_as_all(play);
	if (rank == play->size)
		return serve(play);
	if (rank == play->odd)
		be_odd(play);
	out->pid = getpid();
	const double start = seconds_now();
	out->result = join(play, &comm);
	out->took = seconds_now() - start;
	snprintf(out->error_text, sizeof(out->error_text), "%s",
		 out->result ? tutti_last_error(NULL) : "joined");
	tutti_comm_destroy(comm);
	atomic_fetch_add(&play->done, 1);
	return 0;
}

/* ---- what they are told */

static bool is_about_keys(enum fault fault)
{
	return fault >= ANOTHER_KEY && fault <= DOES_NOT_ENCRYPT;
}

/* The host of the store turns away who has another key, and knows who that is. */
static bool is_turned_away(const struct play *play)
{
	return is_about_keys(play->fault) && !is_directory(play->way);
}

static bool says(const char *error_text, const char *format, int number)
{
	char words[64];

	snprintf(words, sizeof(words), format, number);
	return strstr(error_text, words);
}

static bool says_sizes(const struct play *play, const char *error_text)
{
	const int other = play->fault == ONE_MORE ? play->size + 1 : play->size - 1;

	return says(error_text, "there are %d ranks", play->odd ? other : play->size) &&
	       says(error_text, "rank 0 that there are %d", play->odd ? play->size : other);
}

static bool says_twice(const struct play *play, const char *error_text)
{
	return says(error_text, "two processes are rank %d:", taken(play)) &&
	       strstr(error_text, "by one launcher (mpirun inside tutti-run starts each") &&
	       says(error_text, "pid %d on", play->outcome[play->odd].pid) &&
	       says(error_text, "pid %d on", play->outcome[taken(play)].pid);
}

static bool says_transports(const struct play *play, const char *error_text)
{
	const char *words = play->fault == SHM_ALONE ? "tcp: rank %d: TUTTI_TRANSPORT is \"shm\""
						     : "shm: rank %d: TUTTI_TRANSPORT is \"tcp\"";

	return strstr(error_text, "reaches rank") && says(error_text, words, play->odd);
}

static bool says_keys(const struct play *play, int rank, const char *error_text)
{
	const char *host = strstr(error_text, "the host of the store");

	if (!strstr(error_text,
		    play->fault < ENCRYPTS ? "give all ranks the same TUTTI_KEY" : "TUTTI_ENCRYPT"))
		return false;
	if (!is_turned_away(play)) /* found in the records */
		return says(error_text,
			    play->fault == ANOTHER_KEY ? "ranks" : "has no key, and rank", 0) &&
		       says(error_text, "%d", play->odd);
	if (rank == play->odd || (play->odd == 0 && rank > 0 && !is_served(play->way)))
		return host || strstr(error_text,
				      /* it was turned away itself, or a rank like it */
				      "what listens at the store's address");
	return host && (play->odd == 0 || says(error_text, "turned rank %d (", play->odd));
}

static bool is_true(const struct play *play, int rank, const char *error_text)
{
	switch (play->fault) {
	case SHM_ALONE:
	case TCP_ALONE: return says_transports(play, error_text);
	case ONE_MORE:
	case ONE_LESS: return says_sizes(play, error_text);
	case TWICE: return says_twice(play, error_text);
	case NO_INTERFACE:
		return strstr(error_text, "TUTTI_INTERFACE is \"nosuch0\"") &&
		       (rank == play->odd || says(error_text, "rank %d could not join", play->odd));
	default: return says_keys(play, rank, error_text);
	}
}

/* In one of the stores without a host two may say so at the same time, in words of their own. */
static bool is_alike(const struct play *play, int rank)
{
	return is_about_keys(play->fault) || play->fault == NO_INTERFACE ||
	       is_directory(play->way) ||
	       strcmp(play->outcome[rank].error_text, play->outcome[0].error_text) == 0;
}

static void judge(const struct play *play)
{
	for (int rank = 0; rank < play->size; rank++) {
		const struct outcome *o = &play->outcome[rank];

		if (o->result >= 0 || o->took > SOON_S || !is_true(play, rank, o->error_text) ||
		    !is_alike(play, rank))
			fail_msg(
				"%s, rank %d of %d, in %s: rank %d is told %s after %.2f s: %s; rank 0: %s",
				faults[play->fault].name, play->odd, play->size,
				way_names[play->way], rank, tutti_strerror(o->result), o->took,
				o->error_text, play->outcome[0].error_text);
	}
}

/* ---- cases */

static void name_store(struct play *play, char directory[64])
{
	static int number;

	if (is_directory(play->way)) {
		make_directory(directory);
		snprintf(play->address, sizeof(play->address), "file:%s", directory);
	} else if (play->way == HOSTED_TCP) {
		snprintf(play->address, sizeof(play->address), "tcp://127.0.0.1:%d", free_port());
	} else if (play->way == SERVED_TCP || play->way == CREATE_TCP) {
		snprintf(play->address, sizeof(play->address), "tcp://127.0.0.1:0");
	} else {
		snprintf(play->address, sizeof(play->address), "unix:tutti-test-joining-%d-%d",
			 (int)getpid(), number++);
	}
}

static void play_case(struct play *play, int (*body)(int, void *), const char *deadline)
{
	const char *const env[] = { deadline, NULL };
	char directory[64] = "";

	name_store(play, directory);
	play->serving = !is_served(play->way);
	const struct job job = { .ranks = play->size + is_served(play->way),
				 .env = env,
				 .whole = body,
				 .argument = play,
				 .limit_s = 90 };
	const int failed = run_job(&job);
	if (directory[0])
		remove_directory(directory);
	assert_int_equal(failed, 0);
}

static bool is_possible(const struct play *play)
{
	if (play->fault == ONE_LESS && (play->size == 2 || play->odd == play->size - 1))
		return false; /* no such rank */
	if (play->fault == TWICE && play->odd == 0 && play->way != SERVED_TCP &&
	    play->way != SERVED_UNIX)
		return false; /* without a rank 0 there is no store, or nothing begins in it */
	if ((play->fault == ONE_MORE || play->fault == ONE_LESS) && play->size > 3 &&
	    (is_directory(play->way) || is_created(play->way)))
		return false; /* who comes late waits whether another one begins */
	if (is_turned_away(play) && is_created(play->way))
		return false; /* without a rank: below */
	return !is_about_keys(play->fault) ||
	       play->size < 4; /* hosts wait for those that come late: a second each */
}

static void in_ways(enum fault fault, enum way first, enum way last)
{
	struct play *play = shared_memory(sizeof(*play));

	for (int way = first; way <= (int)last; way++) {
		for (int size = 2; size <= RANKS_MAX; size++) {
			for (int odd = 0; odd < size; odd++) {
				memset(play, 0, sizeof(*play));
				play->fault = fault;
				play->way = way;
				play->size = size;
				play->odd = odd;
				if (!is_possible(play))
					continue;
				play_case(play, be, NULL);
				judge(play);
			}
		}
	}
}

static void each_way(enum fault fault)
{
	in_ways(fault, HOSTED_TCP, CREATE_USER);
}

TEST(transports_that_do_not_meet_are_told_to_all)
{
	each_way(SHM_ALONE);
	each_way(TCP_ALONE);
}

TEST_OF(an_interface_that_is_not_there_is_told_to_all, each_way(NO_INTERFACE))

TEST(different_sizes_are_told_to_all)
{
	each_way(ONE_MORE);
	each_way(ONE_LESS);
}

TEST_OF(a_number_that_two_have_is_told_to_all, each_way(TWICE))

/* The host of a store turns them away. */
TEST(a_rank_with_another_key_is_told_to_all)
{
	for (enum fault fault = ANOTHER_KEY; fault <= A_KEY; fault++)
		in_ways(fault, HOSTED_TCP, SERVED_UNIX);
}

TEST(a_rank_with_another_key_of_tls_is_told_to_all)
{
	for (enum fault fault = ANOTHER_SECRET; fault <= DOES_NOT_ENCRYPT; fault++)
		in_ways(fault, HOSTED_TCP, HOSTED_TCP);
}

/* Elsewhere all find out before they connect. */
TEST(a_key_that_differs_is_found_out_without_a_host)
{
	for (enum fault fault = ANOTHER_KEY; fault <= A_KEY; fault++)
		in_ways(fault, A_DIRECTORY, CREATE_USER);
}

/* Half of the ranks have it from the program, the others from the environment. */
static int meet_by_any_source(int rank, void *argument)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL, half = NULL;

	if (rank % 2)
		config.key = KEY;
	else
		setenv("TUTTI_KEY", KEY, 1);
	SUCCEEDS(tutti_init(&config, &comm));
	SUCCEEDS(tutti_comm_split(comm, rank / 2, rank, &half)); /* with the key of the whole */
	const int failed = sums_right(comm) || sums_right(half);
	tutti_comm_destroy(half);
	tutti_comm_destroy(comm);
	return failed;
}

JOB(a_key_of_any_source_lets_ranks_meet, .ranks = 4, .env = ENV("TUTTI_TRANSPORT=tcp"),
    .whole = meet_by_any_source)

/* Two hosts, as far as anybody can tell: rank 1 goes to a network of its own. */
static int be_apart(int rank, void *argument)
{
	tutti_comm_t comm = NULL;

	CLAIM(rank == 0 || unshare(CLONE_NEWNET) == 0, "no network namespace");
	FAILS(tutti_init(NULL, &comm), TUTTI_ERR_UNSUPPORTED,
	      "without a key ranks are reached on their own machine only; give all the same "
	      "TUTTI_KEY");
	CLAIM(!comm, "it is in a communicator");
	return 0;
}

TEST(a_key_is_what_hosts_without_one_are_told_of)
{
	need_namespaces();
	HOLDS(.ranks = 2, .env = ENV("TUTTI_TRANSPORT=tcp"), .whole = be_apart,
	      .with_directory = "TUTTI_STORE=file:");
}

/* Who opens a store for itself does not say which rank it is: those who wait for it learn at the
 * deadline whom the host turned away. */
TEST(who_was_turned_away_is_told_at_the_deadline)
{
	struct play *play = shared_memory(sizeof(*play));

	*play = (struct play){ .fault = ANOTHER_KEY, .way = CREATE_TCP, .size = 3, .odd = 1 };
	play_case(play, be, "TUTTI_TIMEOUT=3");
	assert_int_equal(play->outcome[1].result, TUTTI_ERR_INVALID);
	for (int rank = 0; rank < 3; rank += 2) {
		assert_int_equal(play->outcome[rank].result, TUTTI_ERR_TIMEOUT);
		assert_says(play->outcome[rank].error_text, "rank 1 has not come");
		assert_says(play->outcome[rank].error_text, "turned 127.0.0.1:");
		assert_says(play->outcome[rank].error_text, "away: it has another key");
	}
}

/* ---- a start that fails, and the next one in its store */

/* Processes of the first start, of which one is missing, from when they have come to their end. */
static int fail_to_start(const struct play *play)
{
	const char *group = is_created(play->way) ? "comm" : "job-again";
	tutti_comm_t comm = NULL;
	tutti_store_t store;
	uint8_t value[64];
	size_t length;
	char key[40];
	pid_t child[RANKS_MAX];
	int status;

	SUCCEEDS(tutti_store_open(play->address, 0, 0, &store));
	for (int rank = 0; rank < play->odd; rank++) {
		child[rank] = fork();
		CLAIM(child[rank] >= 0, "no process");
		if (child[rank] == 0) {
			set_number("TUTTI_RANK", rank);
			if (play->gave_up)
				setenv("TUTTI_TIMEOUT", "0.2", 1);
			_exit(join(play, &comm) == TUTTI_ERR_TIMEOUT ? 0 : 1);
		}
		snprintf(key, sizeof(key), rank ? "%s/come/%d" : "%s/current", group, rank);
		length = sizeof(value);
		SUCCEEDS(tutti_store_get(store, key, value, &length, SOON_S));
	}
	tutti_store_close(store);
	for (int rank = 0; rank < play->odd && !play->gave_up; rank++)
		kill(child[rank], SIGKILL);
	for (int rank = 0; rank < play->odd; rank++)
		CLAIM(waitpid(child[rank], &status, 0) == child[rank] &&
			      status == (play->gave_up ? 0 : SIGKILL),
		      "rank %d of the first start ended with %#x", rank, status);
	return 0;
}

static int start_again(int rank, void *argument)
{
	struct play *play = argument;
	tutti_comm_t comm = NULL;

	if (rank < play->size)
		await_count(&play->serving, 1);
	be_as_all(play);
	setenv("TUTTI_JOB", "again", 1);
	if (is_served(play->way))
		setenv("TUTTI_STORE_SERVED", "1", 1);
	if (rank == play->size)
		return serve(play);
	if (rank == 0 && fail_to_start(play))
		return 1;
	meet_at(&play->over, play->size);
	SUCCEEDS(join(play, &comm));
	const int failed = sums_right(comm);
	tutti_comm_destroy(comm);
	atomic_fetch_add(&play->done, 1);
	return failed;
}

TEST(what_an_earlier_start_left_holds_up_no_other)
{
	struct play *play = shared_memory(sizeof(*play));

	for (int way = SERVED_TCP; way <= CREATE_USER; way++) {
		for (int i = 0; i < 4; i++) {
			*play = (struct play){ .fault = TWICE,
					       .way = way,
					       .size = 3,
					       .odd = 1 + i % 2,
					       .gave_up = i / 2 };
			play_case(play, start_again, NULL);
		}
	}
}

/* ---- a communicator that ends while some still join it */

static int be_aborted(int rank, void *argument)
{
	static const char reason[] = "it is not wanted any more";
	int sum = rank;

	for (int i = 0; i < 8; i++) {
		tutti_comm_t comm = NULL;

		tutti_result_t result = tutti_init(NULL, &comm);
		if (rank == i % 4 && result == TUTTI_OK)
			tutti_comm_abort(comm, reason);
		if (comm)
			result =
				tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, NULL);
		CLAIM(result == TUTTI_ERR_ABORTED && strstr(tutti_last_error(comm), reason),
		      "%s, round %d: %s", comm ? "joined" : "did not join", i,
		      tutti_last_error(comm));
		tutti_comm_destroy(comm);
	}
	return 0;
}

JOB(an_abort_is_told_to_who_still_joins, .ranks = 4, .env = ENV("TUTTI_TRANSPORT=tcp"),
    .whole = be_aborted)

/* ---- two hosts, and a cable */

struct cable {
	char directory[64];
	bool comes_up; /* later */
	bool ipv6;     /* alone, and at once: the hosts have no other address, nor the store */
	pid_t pid[2];
	atomic_int apart, laid, done;
	struct outcome outcome[2];
};

/* Has the rank said how it is reached? */
static bool has_told(const char *directory, int rank)
{
	DIR *files = opendir(directory);
	char end[16];
	bool told = false;

	snprintf(end, sizeof(end), "%%2F%d", rank);
	for (struct dirent *file; files && !told && (file = readdir(files));) {
		const size_t length = strlen(file->d_name), behind = strlen(end);
		const char *id = file->d_name + length - behind - 16;

		told = length > behind + 16 && strspn(id, "0123456789abcdef") >= 16 &&
		       strcmp(id + 16, end) == 0;
	}
	if (files)
		closedir(files);
	return told;
}

/* A third process in rank 0's network: it plugs the cable in when both ranks have said that they
 * have none. */
static int plug_in(const struct cable *cable)
{
	const pid_t parent = getppid();

	while (!has_told(cable->directory, 0) || !has_told(cable->directory, 1)) {
		if (getppid() != parent)
			return 1;
		look_again();
	}
	return shell("ip link set cable up") ? 0 : 1;
}

/* The host's part of the cable, with an address. */
static int lay(struct cable *cable, int rank)
{
	const tutti_comm_t comm = NULL; /* yet */

	CLAIM(unshare(CLONE_NEWNET) == 0, "no network namespace");
	cable->pid[rank] = getpid();
	meet_at(&cable->apart, 2);
	CLAIM(shell("ip link set lo up"), "no loopback");
	if (rank == 0)
		CLAIM(shell("ip link add cable type veth peer name cable netns %d",
			    (int)cable->pid[1]),
		      "no cable");
	meet_at(&cable->laid, 2);
	if (cable->ipv6)
		CLAIM(shell("ip addr del 127.0.0.1/8 dev lo && "
			    "ip addr add fd79::%d/64 dev cable nodad",
			    rank + 1),
		      "no address, or one too many");
	else
		CLAIM(shell("ip addr add 10.79.0.%d/24 dev cable", rank + 1), "no address");
	return 0;
}

static int be_host(int rank, void *argument)
{
	struct cable *cable = argument;
	struct outcome *out = &cable->outcome[rank];
	tutti_comm_t comm = NULL;
	pid_t hand = -1;
	char store[80];
	int status = 0;

	if (lay(cable, rank))
		return 1;
	if (rank == 1 || cable->ipv6)
		CLAIM(shell("ip link set cable up"), "the cable does not come up");
	else if (cable->comes_up && (hand = fork()) == 0)
		_exit(plug_in(cable));
	setenv("TUTTI_KEY", KEY, 1);
	if (cable->ipv6)
		snprintf(store, sizeof(store), "tcp://[fd79::1]:29500");
	else
		snprintf(store, sizeof(store), "file:%s", cable->directory);
	setenv("TUTTI_STORE", store, 1);
	unsetenv("TUTTI_LOCAL_SIZE");
	set_number("TUTTI_SIZE", 2);
	setenv("TUTTI_HOST_ID", rank ? "east" : "west", 1);
	setenv("TUTTI_TRANSPORT", "shm,tcp", 1);
	if (rank == 0)
		setenv("TUTTI_INTERFACE", "cable", 1);
	const double start = seconds_now();
	out->result = tutti_init(NULL, &comm);
	out->took = seconds_now() - start;
	snprintf(out->error_text, sizeof(out->error_text), "%s", tutti_last_error(NULL));
	const int failed = out->result ? 0 : sums_right(comm);
	meet_at(&cable->done, 2); /* the cable goes with its namespace */
	tutti_comm_destroy(comm);
	CLAIM(hand < 0 || (waitpid(hand, &status, 0) == hand && status == 0),
	      "the cable was not plugged in");
	return failed;
}

static struct cable *play_cable(bool comes_up, bool ipv6)
{
	struct cable *cable = shared_memory(sizeof(*cable));

	need_namespaces();
	if (ipv6 &&
	    !shell("unshare -n sh -c 'ip link set lo up && ip addr add fd79::9/128 dev lo'"))
		leave_out("this kernel has no IPv6");
	cable->comes_up = comes_up;
	cable->ipv6 = ipv6;
	make_directory(cable->directory);
	HOLDS(.ranks = 2, .whole = be_host, .argument = cable);
	remove_directory(cable->directory);
	return cable;
}

static void both_hosts_have_joined(const struct cable *cable)
{
	for (int rank = 0; rank < 2; rank++)
		if (cable->outcome[rank].result)
			fail_msg("rank %d: %s", rank, cable->outcome[rank].error_text);
}

TEST_OF(a_cable_that_comes_up_is_waited_for, both_hosts_have_joined(play_cable(true, false)))
TEST_OF(a_cable_with_ipv6_alone_suffices, both_hosts_have_joined(play_cable(false, true)))

/* For 5 s, of many more to the deadline. */
TEST(a_cable_that_does_not_come_up_is_named)
{
	const struct cable *cable = play_cable(false, false);

	for (int rank = 0; rank < 2; rank++) {
		const struct outcome *o = &cable->outcome[rank];

		if (o->result != TUTTI_ERR_UNSUPPORTED || o->took < 5 || o->took > 5 + SOON_S ||
		    !strstr(o->error_text, "(host east)") ||
		    !strstr(o->error_text, "shm: another host id") ||
		    !strstr(o->error_text, "rank 0: cable: down, 5.") ||
		    !strstr(o->error_text, "rank 1: cable: no carrier, 5."))
			fail_msg("rank %d after %.1f s: %s", rank, o->took, o->error_text);
	}
}

int main(int argc, char **argv)
{
	unsetenv("TUTTI_KEY");
	unsetenv("TUTTI_KEY_FILE");
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return run_claims(NULL, NULL);
}
