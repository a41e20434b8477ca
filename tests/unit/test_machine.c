/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever is in another namespace is no candidate for shared memory, though its rank counts as
 * one of the same host. And a machine is known by one thing, whatever is lacking when it is
 * first asked for. Of other processes it is known whether they have ended, and of a listening socket
 * whether anybody waits there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "accept.h"
#include "domain.h"
#include "fork.h"
#include "log.h"
#include "machine.h"
#include "process.h"
#include "shm.h"
#include "test_folder.h"
#include "test_raw.h"
#include "test_shortage.h"

/* What a rank tells of itself, on a thread of its own. */
struct rank {
	bool apart; /* in a network namespace that nobody else is in */
	bool there; /* it could be made */
	struct tt_machine machine;
	struct tt_peer peer;
	uint8_t address[TT_ADDRESS_MAX];
};

static void *be_rank(void *argument)
{
	struct rank *rank = argument;
	const struct tt_endpoint_config config = { .comm_id = 1, .size = 2, .timeout_s = 20 };
	struct tt_endpoint *endpoint;

	if (rank->apart && unshare(CLONE_NEWNET) < 0)
		return NULL;
	if (tt_machine_here(&rank->machine) != TUTTI_OK)
		return NULL;
	if (tt_transport_shm.open(&config, &endpoint) != TUTTI_OK)
		return NULL;
	rank->peer.address = rank->address;
	rank->peer.address_length = (uint16_t)tt_transport_shm.address(endpoint, rank->address);
	tt_transport_shm.destroy(endpoint);
	rank->there = true;
	return NULL;
}

static bool start(struct rank *rank)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, be_rank, rank), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return rank->there;
}

/* What every process of this machine reads; false: none can. */
static bool read_boot_id(char *out, int size)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	const bool there = file && fgets(out, size, file);

	if (file)
		fclose(file);
	return there;
}

/* The first test: nothing is known yet. */
TEST(without_descriptors_the_machine_is_not_known_by_another_name)
{
	struct shortage shortage;
	struct tt_machine machine;
	char id[64];

	if (!read_boot_id(id, sizeof(id)))
		leave_out("the kernel gives no boot id");
	shortage_begin(&shortage);
	const tutti_result_t result = tt_machine_here(&machine);
	const uint64_t boot = tt_machine_boot();
	shortage_end(&shortage);
	assert_int_equal(result, TUTTI_ERR_SYSTEM);
	assert_says(tt_thread_error(), "Too many open files");
	assert_int_equal(boot, 0);
	assert_ok(tt_machine_here(&machine));
	assert_int_equal(machine.boot, tt_hash_text(id));
}

TEST(threads_of_one_process_share_memory)
{
	struct rank one = { 0 }, other = { 0 };

	assert_true(start(&one) && start(&other));
	assert_int_not_equal(one.machine.boot, 0);
	assert_memory_equal(&one.machine, &other.machine, sizeof(one.machine));
	assert_true(tt_transport_shm.reach(&one.peer, &other.peer));
}

TEST(a_network_namespace_apart_shares_none)
{
	struct rank one = { 0 }, other = { .apart = true };

	if (!start(&other))
		leave_out("no network namespace can be made");
	assert_true(start(&one));
	assert_true(one.machine.boot == other.machine.boot &&
		    one.machine.processes == other.machine.processes);
	assert_true(one.machine.network != other.machine.network);
	assert_false(tt_transport_shm.reach(&one.peer, &other.peer));
	assert_false(tt_transport_shm.reach(&other.peer, &one.peer));
}

/* ---- other processes */

/* Until the thread that begins the process is a zombie. */
static void *outlive_first_thread(void *unused)
{
	char line[512] = "";

	while (!strstr(line, ") Z ")) {
		FILE *file = fopen("/proc/self/stat", "re");

		if (!file || !fgets(line, sizeof(line), file))
			_exit(1);
		fclose(file);
	}
	raise(SIGSTOP);
	_exit(0);
}

/* One that has not begun to end executes another program, or is not to be seen. */
TEST(a_process_is_ending_until_its_last_thread_has_ended)
{
	const pid_t child = fork();
	pthread_t thread;
	siginfo_t info;
	int status;

	if (child == 0) {
		if (pthread_create(&thread, NULL, outlive_first_thread, NULL))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	assert_false(tt_process_has_ended(child));
	assert_true(tt_process_is_ending(child));
	assert_int_equal(kill(child, SIGCONT), 0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_status, 0);
	assert_true(tt_process_has_ended(child)); /* a zombie */
	assert_false(tt_process_is_ending(child));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(tt_process_has_ended(child));
	assert_false(tt_process_is_ending(child));
	assert_false(tt_process_has_ended(getpid()));
	assert_false(tt_process_is_ending(getpid()));
}

static bool take_a_name(void *name)
{
	return prctl(PR_SET_NAME, name) == 0;
}

TEST(a_stopped_process_is_seen_whatever_its_name_is)
{
	const pid_t child = child_that(take_a_name, (void *)"a) R 1\n(b");

	stop_child(child);
	assert_true(tt_process_is_stopped(child));
	end_child(child);
	assert_false(tt_process_is_stopped(child));
}

/* Its number may be another file's, or that of no file at all, once it is looked for. */
TEST(a_file_of_a_process_is_opened_and_no_other)
{
	const int fd = memfd_create("that", MFD_CLOEXEC),
		  other = memfd_create("other", MFD_CLOEXEC);
	const struct tt_process_file file = tt_process_file(fd);
	int ends[2];

	assert_true(file.exists && !tt_process_file(-1).exists);
	const int there = tt_process_open(getpid(), &file);
	assert_int_equal(write(there, "x", 1), 1);
	assert_int_equal(lseek(fd, 0, SEEK_END), 1);
	tt_fd_close(there);
	assert_int_equal(dup2(other, fd), fd);
	assert_int_equal(tt_process_open(getpid(), &file), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(dup2(ends[0], fd), fd);
	assert_int_equal(tt_process_open(getpid(), &file), -1);
	assert_int_equal(errno, ESTALE);
	for (int i = 0; i < 4; i++)
		close(i < 2 ? ends[i] : i < 3 ? other : fd);
	assert_int_equal(tt_process_open(getpid(), &file), -1);
	assert_int_equal(errno, ENOENT);
}

/* A machine of 4 processors: each two have a cache of the third level, all of them a node. */
static int make_processors(void **state)
{
	static const struct {
		const char *name, *text[2]; /* of each cache */
	} files[] = { { "level", { "2\n", "3\n" } },
		      { "size", { "512K\n", "32768K\n" } },
		      { "shared_cpu_list", { "0\n" } } };
	char name[80];

	if (make_folder(state))
		return -1;
	for (int cpu = 0; cpu < 4; cpu++) {
		snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/node0/cpulist", cpu);
		file_with(name, "0-3\n");
		for (int i = 0; i < 6; i++) {
			const char *text = files[i / 2].text[i % 2];

			snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/cache/index%d/%s",
				 cpu, i % 2, files[i / 2].name);
			file_with(name, text ? text : cpu % 2 ? "1,3\n" : "0,2\n");
		}
	}
	file_with("devices/system/node/node0/cpulist", "0-3\n");
	return 0;
}

static void check_domain(uint64_t cpus, int cache, int node)
{
	const uint64_t words[TT_CPU_WORDS] = { cpus };
	const struct tt_domain domain = tt_domain_of(folder, words);

	assert_int_equal(domain.cache, cache);
	assert_int_equal(domain.node, node);
	assert_int_equal(domain.level2, cpus & 0xf ? 512 * 1024 : 0);
}

TEST_WITH(processors_have_a_cache_or_a_node_in_common, make_processors, remove_folder)
{
	check_domain(0x1, 1, 1);
	check_domain(0x5, 1, 1);
	check_domain(0x8, 2, 1);
	check_domain(0x3, 0, 1); /* two caches */
	check_domain(0xf, 0, 1);
	check_domain(0x11, 0, 0); /* of processor 4 nothing is said */
	check_domain(0x10, 0, 0);
	check_domain(0, 0, 0);
	file_with("devices/system/node/node0/cpulist", "0-1,99999999999999999999-3,x\n");
	check_domain(0x3, 0, 1);
	check_domain(0x4, 1, 0);
}

/* accept4() finds a shortage, too, where nobody waits. */
TEST(no_descriptor_is_lacking_where_nobody_waits)
{
	int port = 0;
	const int listener = raw_listen(&port, 1), caller = raw_socket();
	struct pollfd queue = { listener, POLLIN, 0 };
	struct sockaddr_storage from;
	struct shortage shortage;

	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	shortage_begin(&shortage);
	assert_int_equal(tt_accept(listener, &from), -1);
	assert_int_equal(errno, EAGAIN);
	raw_call(caller, port);
	assert_int_equal(poll(&queue, 1, 20000), 1);
	assert_int_equal(tt_accept(listener, &from), -1);
	assert_int_equal(errno, EMFILE);
	shortage_end(&shortage);
	close(caller);
	close(listener);
}
