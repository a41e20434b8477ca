/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that fork: the child can use nothing of its parent's, disturbs nobody, hides nobody's
 * death, and makes its own; a program that a rank starts inherits no descriptor.
 *
 *   test_fork shm|tcp|rdma|mixed */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/window.h>

#include "tutti_asserts.h"
#include "harness.h"

#define RANKS  4
#define SOON_S bound_s(5.0)
#define FORKS  20
#define COUNT  50000

extern char **environ;

/* Descriptors that a program started by this process begins with, as the test's parent counted
 * them. */
static int inherited_descriptors;

static void drop(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	atomic_int *errors = context;

	if (level == TUTTI_LOG_ERROR && strcmp(subsystem, "mem") == 0)
		atomic_fetch_add(errors, 1);
}

/* How a child ended: 0 if it exited with 0. */
static int await_child(tutti_comm_t comm, pid_t child, int signal)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		CLAIM(errno == EINTR, "waitpid: %s", strerror(errno));
	if (signal)
		CLAIM(WIFSIGNALED(status) && WTERMSIG(status) == signal,
		      "the child's status is %x, expected signal %d", status, signal);
	else
		CLAIM(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %x",
		      status);
	return 0;
}

/* ---- what a child is told */

#define REFUSED(call) REFUSES(call, made_by, "after fork")

struct things {
	tutti_comm_t comm;
	tutti_store_t store;
	tutti_request_t pending[3];
	float *memory;
	float *coming;	 /* COUNT, of the last of the pending ones */
	int descriptors; /* before any of them */
	const char *rendezvous;
};

static void nothing(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
}

static int collectives_are_refused(struct things *t, const char *made_by)
{
	const tutti_comm_t comm = t->comm;
	float value = 1, sums[RANKS];
	tutti_request_t request;

	REFUSED(tutti_all_reduce(comm, &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	REFUSED(tutti_all_reduce(comm, &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, &request));
	CLAIM(!request, "a request was made");
	REFUSED(tutti_all_gather(comm, &value, sums, 1, TUTTI_FLOAT32, NULL));
	REFUSED(tutti_barrier(comm, NULL));
	REFUSED(tutti_send(comm, &value, 1, TUTTI_FLOAT32, 0, NULL));
	REFUSED(tutti_recv(comm, &value, 1, TUTTI_FLOAT32, 0, NULL));
	REFUSED(tutti_group_begin(comm));
	REFUSED(tutti_group_end(comm, &request));
	CLAIM(strcmp(tutti_last_error(comm), tutti_last_error(NULL)) == 0,
	      "tutti_last_error(comm) says \"%s\"", tutti_last_error(comm));
	return 0;
}

static int the_rest_is_refused(struct things *t, const char *made_by)
{
	const tutti_comm_t comm = t->comm;
	tutti_plan_info_t info = { .size = sizeof(info) };
	const tutti_call_t call = TUTTI_CALL_INIT;
	tutti_comm_t other;
	const float two = 2;
	size_t index, length = 0;
	tutti_op_t op;

	REFUSED(tutti_comm_split(comm, 0, 0, &other));
	REFUSED(tutti_comm_shrink(comm, &other));
	REFUSED(tutti_comm_grow(comm, NULL, 1, &other));
	REFUSED(tutti_comm_join(t->store, NULL, &other));
	REFUSED(tutti_comm_abort(comm, "the child says so"));
	REFUSED(tutti_next_call(comm, &call));
	REFUSED(tutti_comm_error(comm, NULL));
	REFUSED(tutti_comm_last_plan(comm, &info));
	REFUSED(tutti_op_create(comm, nothing, 1, NULL, &op));
	REFUSED(tutti_op_create_premul_sum(comm, &two, TUTTI_FLOAT32, &op));
	REFUSED(tutti_op_destroy(comm, TUTTI_OP_COUNT));
	REFUSED(tutti_test(&t->pending[0]));
	REFUSED(tutti_wait(&t->pending[1]));
	REFUSED(tutti_wait_any(t->pending, 3, &index));
	CLAIM(index == 2 && !t->pending[0] && !t->pending[1] && !t->pending[2],
	      "requests are left");
	REFUSED(tutti_store_set(t->store, "child", "x", 1));
	REFUSED(tutti_store_get(t->store, "child", NULL, &length, 0));
	REFUSED(tutti_comm_create(t->store, tutti_comm_rank(comm), RANKS, NULL, &other));
	return 0;
}

/* What a child may look at; what it writes to is a signal for a child of its own. */
static int memory_is_to_be_read(struct things *t)
{
	const tutti_comm_t comm = t->comm;
	float *own;

	CLAIM(t->memory[7] == 7, "the parent's memory holds %g, expected 7", (double)t->memory[7]);
	const pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile float *)&t->memory[7] = 8;
		_exit(0);
	}
	if (await_child(comm, child, SIGSEGV))
		return 1;
	SUCCEEDS(tutti_mem_alloc(4096, (void **)&own));
	CLAIM(own[7] == 0, "new memory holds %g", (double)own[7]);
	own[7] = 9;
	CLAIM(t->memory[7] == 7, "the child's memory is its parent's");
	tutti_mem_free(t->memory);
	tutti_mem_free(own);
	memset(t->coming, 0xff, COUNT * sizeof(float)); /* the child's copy */
	return 0;
}

/* The children of all ranks are a job of their own. */
static int children_meet(struct things *t, int rank)
{
	tutti_comm_t comm = NULL;
	tutti_store_t store;
	float value = 1;

	SUCCEEDS(tutti_store_open(t->rendezvous, rank == 0, 0, &store));
	SUCCEEDS(tutti_comm_create(store, rank, RANKS, NULL, &comm));
	for (int i = 0; i < 20; i++)
		SUCCEEDS(tutti_all_reduce(comm, &value, &value, 1, TUTTI_FLOAT32, TUTTI_MAX, NULL));
	SUCCEEDS(tutti_all_reduce(comm, &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	CLAIM(value == RANKS, "the children's sum is %g", (double)value);
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	return 0;
}

/* Nothing that ranks share can be written to. */
static int nothing_shared_is_writable(tutti_comm_t comm)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[8] = "";
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		CLAIM(!strstr(line, "/dev/infiniband"), "mapped in the child: %s", line);
		if (!strstr(line, "memfd:tutti"))
			continue;
		found++;
		sscanf(line, "%*s %7s", rights);
		CLAIM(strcmp(rights, "r--s") == 0 && strstr(line, "tutti-heap"),
		      "mapped in the child: %s", line);
	}
	fclose(maps);
	CLAIM(found == 1, "%d mappings are left, expected the heap's", found);
	return 0;
}

static int be_child(struct things *t, pid_t parent)
{
	const tutti_comm_t comm = t->comm;
	const int rank = tutti_comm_rank(comm);
	char made_by[64];

	snprintf(made_by, sizeof(made_by), "made by process %d ", (int)parent);
	CLAIM(rank >= 0 && tutti_comm_size(comm) == RANKS, "rank %d of %d", rank,
	      tutti_comm_size(comm));
	CLAIM(open_descriptors() == t->descriptors, "%d descriptors are open, expected %d",
	      open_descriptors(), t->descriptors);
	if (nothing_shared_is_writable(comm) || collectives_are_refused(t, made_by) ||
	    the_rest_is_refused(t, made_by) || memory_is_to_be_read(t))
		return 1;
	tutti_comm_destroy(comm);
	tutti_store_close(t->store);
	t->comm = NULL;
	if (getenv("TUTTI_TRACE")[0] == '/') /* "off" otherwise */
		raise(SIGUSR1); /* which asks for a report of the communicators that are there:
				 * none */
	return children_meet(t, rank);
}

static int fork_with_everything(int rank, void *argument)
{
	struct things t = { .rendezvous = argument };
	float one = 1, sum = 0, came[2] = { 0 };
	tutti_request_t sent[3];
	atomic_int errors = 0;
	tutti_comm_t comm = NULL;

	tutti_log_set_sink(drop, &errors);
	t.descriptors = open_descriptors();
	SUCCEEDS(tutti_init(NULL, &comm));
	t.comm = comm;
	SUCCEEDS(tutti_store_open(getenv("TEST_STORE"), 0, 0, &t.store));
	SUCCEEDS(tutti_mem_alloc(COUNT * sizeof(float), (void **)&t.memory));
	t.memory[7] = 7;
	/* every kind of link is in use, and something in flight */
	SUCCEEDS(tutti_all_reduce(comm, t.memory, t.memory, COUNT, TUTTI_FLOAT32, TUTTI_MAX, NULL));
	SUCCEEDS(tutti_all_reduce(comm, &one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	t.coming = calloc(COUNT, sizeof(float));
	for (int i = 0; i < 3; i++)
		SUCCEEDS(tutti_recv(comm, i < 2 ? &came[i] : t.coming, i < 2 ? 1 : COUNT,
				    TUTTI_FLOAT32, (rank + 1) % RANKS, &t.pending[i]));
	const pid_t parent = getpid(), child = fork();
	if (child == 0)
		_exit(be_child(&t, parent) || atomic_load(&errors));
	if (await_child(comm, child, 0))
		return 1;
	for (int i = 0; i < 3; i++)
		SUCCEEDS(tutti_send(comm, i < 2 ? &one : t.memory, i < 2 ? 1 : COUNT, TUTTI_FLOAT32,
				    (rank + RANKS - 1) % RANKS, &sent[i]));
	SUCCEEDS(tutti_wait_all(t.pending, 3));
	SUCCEEDS(tutti_wait_all(sent, 3));
	for (int i = 0; i < COUNT; i++)
		CLAIM(t.coming[i] == (i == 7 ? 7 : 0), "element %d that came is %g", i,
		      (double)t.coming[i]);
	SUCCEEDS(tutti_all_reduce(comm, t.memory, t.memory, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	CLAIM(came[1] == 1 && sum == RANKS && t.memory[7] == 7 * RANKS, "%g came, %g is the sum",
	      (double)came[1], (double)t.memory[7]);
	tutti_mem_free(t.memory);
	free(t.coming);
	tutti_store_close(t.store);
	tutti_comm_destroy(comm);
	return 0;
}

/* A fork while another thread allocates leaves the address sanitizer's own locks taken in the
 * child. */
static void skip_under_address_sanitizer(void)
{
#if defined(__SANITIZE_ADDRESS__)
	print_message("skipped: a child of threads cannot allocate under the address sanitizer\n");
	skip();
#endif
}

static void children_are_refused(const char *with_directory)
{
	char rendezvous[64], address[64];
	tutti_store_t store;

	skip_under_address_sanitizer();
	snprintf(rendezvous, sizeof(rendezvous), "unix:tutti-test-fork-meeting-%d", (int)getpid());
	snprintf(address, sizeof(address), "unix:tutti-test-fork-%d", (int)getpid());
	setenv("TEST_STORE", address, 1);
	assert_ok(tutti_store_open(address, 1, 0, &store));
	HOLDS(.ranks = RANKS, .whole = fork_with_everything, .argument = rendezvous,
	      .with_directory = with_directory);
	tutti_store_close(store);
}

TEST_OF(a_child_is_refused_and_makes_its_own, children_are_refused(NULL))

/* The flight recorder's list of communicators is the parent's as well. */
TEST_OF(a_child_reports_nothing_of_its_parents, children_are_refused("TUTTI_TRACE="))

/* ---- a store of its parent's, which a child's own communicator is to grow by */

static int count_set(void *context, const char *key, const void *value, size_t length)
{
	++*(int *)context;
	return 0;
}

static int find_nothing(void *context, const char *key, void *value, size_t *length,
			double timeout_s)
{
	return ETIMEDOUT;
}

static int grow_by(tutti_store_t store, const int *sets)
{
	tutti_comm_t comm = NULL, more = NULL;

	SUCCEEDS(tutti_comm_create(NULL, 0, 1, NULL, &comm));
	REFUSES(tutti_comm_grow(comm, store, 1, &more), "after fork");
	CLAIM(*sets == 0, "%d values were set in the parent's store", *sets);
	tutti_comm_destroy(comm);
	return 0;
}

static int grow_by_the_parents_store(int rank, void *argument)
{
	const tutti_store_ops_t ops = { sizeof(ops), count_set, find_nothing, NULL };
	const tutti_comm_t comm = NULL;
	tutti_store_t store;
	int sets = 0;

	SUCCEEDS(tutti_store_create(&ops, &sets, &store));
	const pid_t child = fork();
	if (child == 0)
		_exit(grow_by(store, &sets));
	const int failed = await_child(comm, child, 0);
	tutti_store_close(store);
	return failed;
}

JOB(a_childs_own_communicator_touches_no_store_of_its_parents, .ranks = 1,
    .whole = grow_by_the_parents_store)

/* ---- a child that lives on hides no death */

struct life {
	bool executes;
	int pipe[2]; /* ends when the test does */
	atomic_int ready;
	_Atomic double died_at;
};

static void live_on(struct life *life)
{
	char byte;

	close(life->pipe[1]);
	if (life->executes) {
		dup2(life->pipe[0], 0);
		execl("/bin/cat", "cat", (char *)NULL);
		_exit(127);
	}
	while (read(life->pipe[0], &byte, 1) < 0 && errno == EINTR) {
	}
	_exit(0);
}

static int outlive(tutti_comm_t comm, void *argument)
{
	struct life *life = argument;
	const int rank = tutti_comm_rank(comm);
	float sum = 1;

	/* links exist, so that the child inherits them */
	SUCCEEDS(tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	if (rank == 1) {
		if (fork() == 0)
			live_on(life);
		await_count(&life->ready, RANKS - 1);
		atomic_store(&life->died_at, seconds_now());
		raise(SIGKILL);
	}
	atomic_fetch_add(&life->ready, 1);
	const tutti_result_t result = tutti_barrier(comm, NULL);
	const double after = seconds_now() - atomic_load(&life->died_at);
	FAILS(result, TUTTI_ERR_PEER_LOST, "rank 1 ");
	CLAIM(after < SOON_S, "told after %.3f s", after);
	return 0;
}

static void hides_no_death(bool executes)
{
	struct life *life = shared_memory(sizeof(*life));

	life->executes = executes;
	assert_int_equal(pipe2(life->pipe, O_CLOEXEC), 0);
	HOLDS(.ranks = RANKS, .body = outlive, .argument = life, .limit_s = 30,
	      .expect_signal = SIGKILL, .victims = 1u << 1);
	close(life->pipe[0]);
	close(life->pipe[1]);
}

TEST_OF(a_child_does_not_hide_its_parents_death, hides_no_death(false))
TEST_OF(a_program_does_not_hide_its_starters_death, hides_no_death(true))

/* ---- forks and programs while another thread works */

struct work {
	pthread_t thread;
	tutti_comm_t comm;
	atomic_int stop;
	int rounds, failed;
};

static int sum_until_told(struct work *work)
{
	const tutti_comm_t comm = work->comm;
	float *values = malloc(COUNT * sizeof(*values));
	int32_t go_on = 1;

	while (go_on) {
		for (size_t i = 0; i < COUNT; i++)
			values[i] = (float)(i % 1000 + (size_t)work->rounds % 7);
		SUCCEEDS(tutti_all_reduce(comm, values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
					  NULL));
		for (size_t i = 0; i < COUNT; i++)
			CLAIM(values[i] == RANKS * (float)(i % 1000 + (size_t)work->rounds % 7),
			      "round %d: element %zu is %g", work->rounds, i, (double)values[i]);
		go_on = !atomic_load(&work->stop);
		/* all stop after the same sum: when nobody forks any more */
		SUCCEEDS(tutti_all_reduce(comm, &go_on, &go_on, 1, TUTTI_INT32, TUTTI_MAX, NULL));
		work->rounds++;
	}
	free(values);
	return 0;
}

static void *work_on(void *argument)
{
	struct work *work = argument;

	work->failed = sum_until_told(work);
	return NULL;
}

/* This program itself, counting what it inherits. */
static int start_program(tutti_comm_t comm)
{
	char count[16], self[] = "test_fork", word[] = "descriptors";
	char *arguments[] = { self, word, count, NULL };
	pid_t child;

	snprintf(count, sizeof(count), "%d", inherited_descriptors);
	CLAIM(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0,
	      "posix_spawn fails");
	return await_child(comm, child, 0);
}

static int fork_once(tutti_comm_t comm, int descriptors)
{
	const pid_t child = fork();
	float value = 1;

	if (child == 0) {
		const tutti_result_t result =
			tutti_all_reduce(comm, &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL);

		if (result == TUTTI_ERR_INVALID && descriptors != open_descriptors())
			fprintf(stderr, "%d descriptors, expected %d\n", open_descriptors(),
				descriptors);
		tutti_comm_destroy(comm); /* whatever the other thread was doing */
		_exit(result != TUTTI_ERR_INVALID || open_descriptors() != descriptors);
	}
	return await_child(comm, child, 0);
}

static int fork_while_working(int rank, void *argument)
{
	const int descriptors = open_descriptors();
	struct work work = { .failed = 1 };
	tutti_comm_t comm = NULL;
	int failed = 0;
	char line[64] = "";

	SUCCEEDS(tutti_init(NULL, &comm));
	work.comm = comm;
	CLAIM(pthread_create(&work.thread, NULL, work_on, &work) == 0, "no thread");
	for (int i = 0; i < FORKS && !failed; i++)
		failed = fork_once(comm, descriptors);
	for (int i = 0; i < 3 && !failed; i++)
		failed = start_program(comm);
	CLAIM(failed || system("true") == 0, "system() fails");
	FILE *echo = popen("echo said", "r");
	CLAIM(echo && fgets(line, sizeof(line), echo) && strcmp(line, "said\n") == 0,
	      "popen() gives \"%s\"", line);
	pclose(echo);
	atomic_store(&work.stop, 1);
	pthread_join(work.thread, NULL);
	tutti_comm_destroy(comm);
	return failed || work.failed;
}

JOB(forks_disturb_no_thread_that_works, .ranks = RANKS, .whole = fork_while_working)

/* ---- forks while another thread frees memory that windows may be in */

#define FREEING_FORKS 1000

static void *allocate_and_free(void *stop)
{
	void *memory;

	while (!atomic_load((atomic_int *)stop))
		if (tutti_mem_alloc(4096, &memory) == TUTTI_OK)
			tutti_mem_free(memory);
	return NULL;
}

static int fork_while_freeing(tutti_comm_t comm, void *argument)
{
	atomic_int stop = 0;
	tutti_window_t window;
	pthread_t threads[2];
	void *memory;
	int failed = 0;

	SUCCEEDS(tutti_mem_alloc(4096, &memory));
	SUCCEEDS(tutti_window_create(comm, memory, 4096, 0, &window));
	for (int i = 0; i < 2; i++)
		CLAIM(pthread_create(&threads[i], NULL, allocate_and_free, &stop) == 0,
		      "no thread");
	for (int i = 0; i < FREEING_FORKS && !failed && tutti_comm_rank(comm) == 0; i++) {
		const pid_t child = fork();

		if (child == 0) {
			void *own = NULL;
			const tutti_result_t result = tutti_mem_alloc(4096, &own);

			tutti_mem_free(own);
			_exit(result != TUTTI_OK);
		}
		failed = await_child(comm, child, 0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	SUCCEEDS(tutti_window_destroy(window));
	tutti_mem_free(memory);
	return failed;
}

TEST(children_free_memory_whatever_threads_did)
{
	skip_under_address_sanitizer();
	HOLDS(.ranks = 2, .body = fork_while_freeing);
}

/* ---- programs started at any moment inherit nothing */

static void *start_programs(void *argument)
{
	struct work *work = argument;

	work->failed = 0;
	do
		work->failed = start_program(NULL);
	while (!atomic_load(&work->stop) && !work->failed);
	return NULL;
}

static int live_a_whole_life(int rank)
{
	tutti_store_t store = NULL;
	tutti_comm_t comm = NULL, half = NULL;
	tutti_request_t request;
	static float values[COUNT];
	char key[32];

	SUCCEEDS(tutti_store_open(getenv("TEST_STORE"), 0, 0, &store));
	snprintf(key, sizeof(key), "%d", rank);
	SUCCEEDS(tutti_store_set(store, key, "here", 4));
	SUCCEEDS(tutti_init(NULL, &comm));
	for (int i = 0; i < 10; i++)
		SUCCEEDS(tutti_all_reduce(comm, values, values, i % 2 ? COUNT : 1, TUTTI_FLOAT32,
					  TUTTI_SUM, NULL));
	SUCCEEDS(tutti_comm_split(comm, rank % 2, 0, &half));
	SUCCEEDS(tutti_send(comm, values, COUNT, TUTTI_FLOAT32, (rank + 1) % RANKS, &request));
	SUCCEEDS(tutti_recv(comm, values, COUNT, TUTTI_FLOAT32, (rank + RANKS - 1) % RANKS, NULL));
	SUCCEEDS(tutti_wait(&request));
	SUCCEEDS(tutti_barrier(half, NULL));
	tutti_comm_destroy(half);
	tutti_comm_destroy(comm);
	tutti_store_close(store);
	return 0;
}

static int start_programs_all_the_time(int rank, void *argument)
{
	struct work work = { .failed = 1 };
	const tutti_comm_t comm = NULL;
	int failed = 0;

	CLAIM(pthread_create(&work.thread, NULL, start_programs, &work) == 0, "no thread");
	for (int i = 0; i < 3 && !failed; i++)
		failed = live_a_whole_life(rank);
	atomic_store(&work.stop, 1);
	pthread_join(work.thread, NULL);
	return failed || work.failed;
}

JOB(no_program_inherits_a_descriptor, .ranks = RANKS, .whole = start_programs_all_the_time,
    .with_directory = "TEST_STORE=file:")

/* ---- the program that is started */

static int count_descriptors(int expected)
{
	const int found = open_descriptors();
	char path[32], target[256];

	if (found == expected)
		return 0;
	fprintf(stderr, "%d descriptors are inherited, expected %d:\n", found, expected);
	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		const ssize_t n = readlink(path, target, sizeof(target) - 1);

		if (n > 0)
			fprintf(stderr, "  %d %.*s\n", fd, (int)n, target);
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "descriptors") == 0)
		return count_descriptors(atoi(argv[2]));
#if defined(__SANITIZE_THREAD__)
	printf("the thread sanitizer does not follow threads that children of fork() start\n");
	return 77;
#endif
	if (choose_transport(argc, argv))
		return 2;
	inherited_descriptors = open_descriptors();
	return run_claims(NULL, NULL);
}
