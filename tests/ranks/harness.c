/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../held.h"

#define MAX_RANKS 64

const char *transport_chosen = "any";

double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int complain(tutti_comm_t comm, const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s:%d: rank %d of %d: %s\n", file, line, tutti_comm_rank(comm),
		tutti_comm_size(comm), text);
	return 1;
}

bool fails(tutti_comm_t comm, const char *file, int line, const char *call, tutti_result_t result,
	   tutti_result_t expected, const char *const *words)
{
	const char *said = tutti_last_error(comm);
	bool all = result == expected;

	if (!all)
		complain(comm, file, line, "%s: %d (%s), expected %d", call, result, said,
			 expected);
	for (; all && *words; words++)
		if (!(all = strstr(said, *words)))
			complain(comm, file, line, "%s: \"%s\" does not say \"%s\"", call, said,
				 *words);
	return all;
}

int sums_right(tutti_comm_t comm)
{
	float sum = 1;

	SUCCEEDS(tutti_all_reduce(comm, &sum, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	CLAIM(sum == (float)tutti_comm_size(comm), "the sum is %g", (double)sum);
	return 0;
}

#define LONG 300000 /* elements: more than any buffer on the way holds */

int all_ways_compute(tutti_comm_t comm, int mine, const int *expected)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	int32_t *all = calloc((size_t)size, sizeof(*all)), *many = malloc(LONG * sizeof(*many)),
		sum = 0, wanted = 0;

	SUCCEEDS(tutti_all_gather(comm, &mine, all, 1, TUTTI_INT32, NULL));
	for (int i = 0; i < size; i++) {
		CLAIM(all[i] == expected[i], "rank %d was rank %d, expected %d", i, (int)all[i],
		      expected[i]);
		wanted += expected[i];
	}
	SUCCEEDS(tutti_all_reduce(comm, &mine, &sum, 1, TUTTI_INT32, TUTTI_SUM, NULL));
	CLAIM(sum == wanted, "the sum is %d, expected %d", (int)sum, (int)wanted);
	for (int i = 0; i < LONG; i++)
		many[i] = mine + i;
	SUCCEEDS(tutti_all_reduce(comm, many, many, LONG, TUTTI_INT32, TUTTI_SUM, NULL));
	for (int i = 0; i < LONG; i++)
		CLAIM(many[i] == wanted + size * i, "element %d is %d", i, (int)many[i]);
	if (size > 1) {
		const int32_t word = 1000 + rank;
		int32_t heard = -1;

		SUCCEEDS(tutti_group_begin(comm));
		SUCCEEDS(tutti_send(comm, &word, 1, TUTTI_INT32, (rank + 1) % size, NULL));
		SUCCEEDS(tutti_recv(comm, &heard, 1, TUTTI_INT32, (rank + size - 1) % size, NULL));
		SUCCEEDS(tutti_group_end(comm, NULL));
		CLAIM(heard == 1000 + (rank + size - 1) % size, "heard %d", (int)heard);
	}
	SUCCEEDS(tutti_barrier(comm, NULL));
	free(all);
	free(many);
	return 0;
}

void *shared_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return memory;
}

/* For a millisecond, or until somebody wakes who waits at `count`. */
static void sleep_at(const atomic_int *count, int seen)
{
	const struct timespec most = { 0, 1000000 };

	syscall(SYS_futex, count, FUTEX_WAIT, seen, &most, NULL, 0);
}

void look_again(void)
{
	static const atomic_int nobody_wakes;

	sleep_at(&nobody_wakes, 0);
}

bool await_count_for(const atomic_int *count, int least, double seconds)
{
	const double end = seconds_now() + seconds;
	int seen;

	while ((seen = atomic_load(count)) < least && seconds_now() < end)
		sleep_at(count, seen);
	return seen >= least;
}

void await_count(const atomic_int *count, int least)
{
	await_count_for(count, least, INFINITY);
}

void meet_at(atomic_int *count, int ranks)
{
	atomic_fetch_add(count, 1);
	syscall(SYS_futex, count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	await_count(count, ranks);
}

tutti_result_t next_call_takes(tutti_comm_t comm, double seconds)
{
	tutti_call_t next = TUTTI_CALL_INIT;

	next.timeout_s = seconds;
	return tutti_next_call(comm, &next);
}

void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

int store_error(tutti_result_t result)
{
	return result == TUTTI_OK ? 0 : result == TUTTI_ERR_TIMEOUT ? ETIMEDOUT : EIO;
}

/* A letter, as ps(1) shows it; 'X': it has ended. */
static char state_of(pid_t pid)
{
	char path[32], line[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (file && !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	const char *behind_name = strrchr(line, ')');
	const char state = behind_name ? behind_name[2] : 'X';
	return state == 'Z' ? 'X' : state;
}

bool is_stopped(pid_t pid)
{
	return state_of(pid) == 'T';
}

bool await_stop(pid_t pid)
{
	char state;

	while ((state = state_of(pid)) != 'T' && state != 'X')
		look_again();
	return state == 'T';
}

static int send_to_all(const pid_t *pids, int n, int number)
{
	int failed = 0;

	for (int i = 0; i < n; i++)
		failed |= kill(pids[i], number);
	return failed;
}

/* By a child, which goes on meanwhile. */
bool all_stand_still(const pid_t *pids, int n, double seconds)
{
	int status;
	const pid_t child = fork();

	if (child == 0) {
		int failed = send_to_all(pids, n, SIGSTOP);

		for (int i = 0; i < n && !failed; i++)
			failed = !await_stop(pids[i]);
		for (const double end = seconds_now() + seconds; !failed && seconds_now() < end;)
			look_again();
		_exit(send_to_all(pids, n, SIGCONT) | failed ? 1 : 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

int open_descriptors(void)
{
	return count_entries("/proc/self/fd") - 3;
}

void allow_descriptors(int more)
{
	static struct rlimit usual;
	struct rlimit limit;
	int fds[65], highest = 0;

	if (!usual.rlim_max)
		getrlimit(RLIMIT_NOFILE, &usual);
	limit = usual;
	for (int i = 0; i <= more; i++) {
		fds[i] = dup(0);
		highest = fds[i] > highest ? fds[i] : highest;
	}
	for (int i = 0; i <= more; i++)
		close(fds[i]);
	if (more >= 0)
		limit.rlim_cur = (rlim_t)highest;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void make_directory(char path[64])
{
	const char *in = getenv("TMPDIR");

	snprintf(path, 64, "%s/tutti-test-XXXXXX", in ? in : "/tmp");
	if (!mkdtemp(path)) {
		perror(path);
		exit(1);
	}
}

void remove_directory(const char *path)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -r '%s'", path);
	if (system(command) != 0)
		exit(1);
}

int free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&at, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &length) < 0) {
		perror("a free port");
		exit(1);
	}
	close(fd);
	return ntohs(at.sin_port);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

/* as in sanitizer/allocator_interface.h, which comes with clang only */
size_t __sanitizer_get_current_allocated_bytes(void);

long memory_in_use(void)
{
	return (long)(__sanitizer_get_current_allocated_bytes() / 1024);
}

static long shared_memory_in_use(void)
{
	return 0;
}

#else

long memory_in_use(void)
{
	return (long)(bytes_held(HELD_RESIDENT) / 1024);
}

static long shared_memory_in_use(void)
{
	return (long)(bytes_held(HELD_SHARED) / 1024);
}

#endif

long private_memory_in_use(void)
{
	return memory_in_use() - shared_memory_in_use();
}

int choose_transport(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const bool mixed = strcmp(name, "mixed") == 0, tls = strcmp(name, "tls") == 0;

	if (argc != 2 || (!mixed && !tls && strcmp(name, "shm") != 0 && strcmp(name, "tcp") != 0 &&
			  strcmp(name, "rdma") != 0)) {
		fprintf(stderr, "usage: %s shm|tcp|tls|rdma|mixed\n", argv[0]);
		return 2;
	}
	transport_chosen = tls ? "tcp" : name;
	setenv("TUTTI_TRANSPORT", mixed ? "shm,tcp" : transport_chosen, 1);
	if (tls) {
		setenv("TUTTI_KEY",
		       "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
		setenv("TUTTI_ENCRYPT", "1", 1);
	}
	if (mixed)
		setenv("TEST_HOSTS", "2", 1);
	return 0;
}

static char directory_setting[128]; /* of the job that runs; "": none */

static void set_environment(const struct job *job, int rank, const char *store)
{
	set_number("TUTTI_RANK", rank);
	set_number("TUTTI_SIZE", job->ranks);
	set_number("TUTTI_LOCAL_RANK", rank);
	set_number("TUTTI_LOCAL_SIZE", job->ranks);
	setenv("TUTTI_STORE", store, 1);
	setenv("TUTTI_JOB", store, 1);
	if (!getenv("TUTTI_TIMEOUT"))
		set_number("TUTTI_TIMEOUT", USUAL_DEADLINE_S);
	for (int i = 0; job->env && job->env[i]; i++)
		putenv((char *)job->env[i]);
	if (*directory_setting)
		putenv(directory_setting);
	/* TEST_HOSTS=2: the ranks believe to be on two hosts, in turn */
	if (getenv("TEST_HOSTS")) {
		char host[32];

		snprintf(host, sizeof(host), "host-%d", rank % atoi(getenv("TEST_HOSTS")));
		setenv("TUTTI_HOST_ID", host, 1);
	}
}

void environment_add(struct environment *e, const char *format, ...)
{
	va_list args;
	int n = 0;

	while (e->env[n])
		n++;
	va_start(args, format);
	vsnprintf(e->text[n], sizeof(e->text[n]), format, args);
	va_end(args);
	e->env[n] = e->text[n];
}

int run_launched(rank_body *body, void *argument)
{
	tutti_comm_t comm;
	const tutti_result_t result = tutti_init(NULL, &comm);

	if (result) {
		fprintf(stderr, "rank %s: tutti_init: %s (%s)\n", getenv("TUTTI_RANK"),
			tutti_strerror(result), tutti_last_error(NULL));
		return 1;
	}
	const int failed = body(comm, argument);
	tutti_comm_destroy(comm);
	return failed;
}

static int be_rank(const struct job *job, int rank, const char *store)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_environment(job, rank, store);
	return job->whole ? job->whole(rank, job->argument)
			  : run_launched(job->body, job->argument);
}

/* Wait for one rank; true if it ended as it should. */
static bool await_rank(const struct job *job, int rank, pid_t pid, double deadline)
{
	struct pollfd poller = { (int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 };
	const double left = deadline - seconds_now();
	bool hangs = poll(&poller, 1, left > 0 ? (int)(left * 1000) : 0) == 0;
	int status;

	close(poller.fd);
	if (hangs) {
		fprintf(stderr, "rank %d has not ended in time: killed\n", rank);
		kill(pid, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (hangs)
		return false;
	if (WIFSIGNALED(status)) {
		if (WTERMSIG(status) == job->expect_signal && (job->victims >> rank & 1))
			return true;
		fprintf(stderr, "rank %d ended by signal %d (%s)\n", rank, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
		return false;
	}
	return WEXITSTATUS(status) == 0;
}

static int run_once(struct job job)
{
	static int number;
	pid_t pids[MAX_RANKS];
	char store[64];
	int failed = 0;

	if (job.shares)
		job.argument = shared_memory(job.shares);
	snprintf(store, sizeof(store), "unix:tutti-test-%d-%d", (int)getpid(), number++);
	fflush(NULL);
	for (int rank = 0; rank < job.ranks; rank++) {
		pids[rank] = fork();
		if (pids[rank] == 0)
			exit(be_rank(&job, rank, store));
	}
	const double limit_s = job.limit_s > 0 ? job.limit_s : 60;
	const double deadline =
		seconds_now() + (machine_may_be_busy() && limit_s < 160 ? 160 : limit_s);
	for (int rank = 0; rank < job.ranks; rank++)
		failed += !await_rank(&job, rank, pids[rank], deadline);
	if (job.shares)
		munmap(job.argument, job.shares);
	return failed;
}

int run_job(const struct job *job)
{
	struct job each = *job;
	char directory[64];

	if (job->with_directory) {
		make_directory(directory);
		snprintf(directory_setting, sizeof(directory_setting), "%s%s", job->with_directory,
			 directory);
	}
	int failed = run_once(each);
	while (!failed && ++each.ranks <= job->most)
		failed = run_once(each);
	if (job->with_directory)
		remove_directory(directory);
	directory_setting[0] = '\0';
	return failed;
}
