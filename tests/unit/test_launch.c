/* SPDX-License-Identifier: BSD-3-Clause */
/* What each launcher's variables are taken for. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "launch.h"
#include "log.h"
#include "meeting.h"
#include "pmi_wire.h"
#include "test_raw.h"
#include "transport.h"

#define SECOND 1000000000ull

/* "A=1 B=2" and nothing else. */
static void environment(const char *text)
{
	char copy[512], *rest = copy;

	clearenv();
	setenv("FLUX_PMI_LIBRARY_PATH", "/none", 1); /* whatever this machine has */
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value = 0;
		assert_int_equal(setenv(word, value + 1, 1), 0);
	}
}

static bool keyed; /* the jobs below have a key */

static struct tt_launch read_good(const char *text)
{
	struct tt_launch launch;

	environment(text);
	const tutti_result_t result = tt_launch_read(keyed, &launch);
	if (result != TUTTI_OK)
		fail_msg("\"%s\": %s", text, tt_thread_error());
	return launch;
}

/* What is found: the launcher, the rank, and where it meets the others, or serves them. */
static void check(const char *text, const char *expected)
{
	const struct tt_launch launch = read_good(text);
	char own[32], found[400];

	snprintf(own, sizeof(own), "unix:tutti-%ld-", (long)geteuid());
	const bool is_own = strncmp(launch.store, own, strlen(own)) == 0;
	snprintf(found, sizeof(found), "%s, %d of %d, %s %s%s", launch.launcher, launch.rank,
		 launch.size, launch.serve ? "serves" : "at", is_own ? "unix:tutti-UID-" : "",
		 launch.store + (is_own ? strlen(own) : 0));
	assert_string_equal(found, expected);
}

static void check_local(const char *text, int local_rank, int local_size, const char *job)
{
	const struct tt_launch launch = read_good(text);

	assert_int_equal(launch.local_rank, local_rank);
	assert_int_equal(launch.local_size, local_size);
	assert_string_equal(launch.job, job);
}

static void check_refused(const char *text, const char *says)
{
	struct tt_launch launch;

	environment(text);
	assert_int_equal(tt_launch_read(keyed, &launch), TUTTI_ERR_INVALID);
	if (!strstr(tt_thread_error(), says))
		fail_msg("\"%s\": \"%s\" is not in \"%s\"", text, says, tt_thread_error());
}

TEST(without_a_launcher_a_process_is_alone)
{
	check("", "none, 0 of 1, at ");
	check_local("", 0, 1, "");
	check("TUTTI_STORE=tcp://h:1 SLURM_PROCID=0 SLURM_NTASKS=4 MASTER_ADDR=x",
	      "none, 0 of 1, at ");
	check("TUTTI_RANK= RANK=", "none, 0 of 1, at ");
}

TEST(reads_tutti_run)
{
#define RUN "TUTTI_RANK=2 TUTTI_SIZE=4 TUTTI_STORE=unix:x TUTTI_JOB=j-1 "
	check(RUN "TUTTI_STORE_SERVED=1", "tutti-run, 2 of 4, at unix:x");
	check("TUTTI_RANK=0 TUTTI_SIZE=4 TUTTI_STORE=tcp://h:1 TUTTI_STORE_SERVED=1",
	      "tutti-run, 0 of 4, at tcp://h:1");
	check("TUTTI_RANK=0 TUTTI_SIZE=4 TUTTI_STORE=tcp://h:1",
	      "tutti-run, 0 of 4, serves tcp://h:1");
	check("TUTTI_RANK=1 TUTTI_SIZE=4 TUTTI_STORE=tcp://h:1", "tutti-run, 1 of 4, at tcp://h:1");
	check("TUTTI_RANK=0 TUTTI_SIZE=1", "tutti-run, 0 of 1, at ");
	check("TUTTI_RANK=1 TUTTI_SIZE=2 TUTTI_LOCAL_SIZE=2 TUTTI_LOCAL_RANK=1 TUTTI_JOB=a/b",
	      "tutti-run, 1 of 2, at unix:tutti-UID-a_b");
	check_local(RUN "TUTTI_LOCAL_RANK=1 TUTTI_LOCAL_SIZE=3", 1, 3, "j-1");
	check_local(RUN, -1, -1, "j-1");
	check_refused("TUTTI_RANK=1 TUTTI_SIZE=2", "TUTTI_STORE=tcp://");
	check_refused("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_STORE=tcp://[::]:0", "1 to 65535");
}

TEST(only_a_store_of_one_start_has_nothing_of_others)
{
	assert_false(read_good(RUN "TUTTI_STORE_SERVED=once").lasting);
	assert_false(read_good(RUN "TUTTI_STORE_SERVED=0").lasting); /* rank 0's */
	assert_true(read_good(RUN "TUTTI_STORE_SERVED=1").lasting);
	assert_true(read_good("TUTTI_RANK=0 TUTTI_SIZE=4 TUTTI_STORE=file:/d").lasting);
	check_refused(RUN "TUTTI_STORE_SERVED=yes",
		      "TUTTI_STORE_SERVED is \"yes\": expected 0, 1 or once");
}

TEST(reads_torchrun)
{
#define TORCH "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
	check(TORCH "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500",
	      "torchrun, 1 of 4, at tcp://10.0.0.1:29500");
	check("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=29500 "
	      "TORCHELASTIC_USE_AGENT_STORE=True",
	      "torchrun, 1 of 2, at tcp://127.0.0.1:29501");
	check(TORCH "MASTER_ADDR=fd00::1 MASTER_PORT=29500",
	      "torchrun, 1 of 4, at tcp://[fd00::1]:29500");
	check(TORCH "MASTER_ADDR=[fd00::1] MASTER_PORT=29500",
	      "torchrun, 1 of 4, at tcp://[fd00::1]:29500");
	assert_ptr_equal(read_good(TORCH "MASTER_ADDR=h MASTER_PORT=1 "
					 "TORCHELASTIC_USE_AGENT_STORE=True")
				 .kvs,
			 &tt_kvs_torchrun);
	/* all on one host: it need not be known by its name */
	check("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=29500",
	      "torchrun, 1 of 2, at tcp://127.0.0.1:29500");
	check("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_USE_AGENT_STORE=False",
	      "torchrun, 0 of 2, serves tcp://h:1");
	check(TORCH "TUTTI_STORE=file:/d", "torchrun, 1 of 4, at file:/d");
	check_local(TORCH "TUTTI_STORE=file:/d TORCHELASTIC_RUN_ID=ab TORCHELASTIC_RESTART_COUNT=2",
		    1, 2, "ab");
	check_local(TORCH "TUTTI_STORE=file:/d TORCHELASTIC_RUN_ID=none", 1, 2, "");
	check("RANK=0 WORLD_SIZE=1", "torchrun, 0 of 1, at ");
	check_refused(TORCH "MASTER_PORT=1", "MASTER_ADDR is not");
	check_refused(TORCH "MASTER_ADDR=h", "MASTER_PORT is not");
	check_refused(TORCH "MASTER_ADDR=http://h MASTER_PORT=1",
		      "MASTER_ADDR is \"http://h\": expected the name or the address");
	check_refused(TORCH "MASTER_ADDR=h MASTER_PORT=x1", "MASTER_PORT to \"x1\"");
	check_refused("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h "
		      "MASTER_PORT=65535 TORCHELASTIC_USE_AGENT_STORE=True",
		      "65536");
	check_refused("RANK=0", "WORLD_SIZE is not set");
}

TEST(reads_open_mpi)
{
#define OMPI                                                                                       \
	"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "              \
	"OMPI_COMM_WORLD_LOCAL_SIZE=2 "
	check(OMPI "PMIX_NAMESPACE=77", "Open MPI, 0 of 2, serves unix:tutti-UID-77");
	check(OMPI "OMPI_MCA_ess_base_jobid=77", "Open MPI, 0 of 2, serves unix:tutti-UID-77");
	check_local(OMPI "PMIX_NAMESPACE=prterun-h-12@1", 0, 2, "prterun-h-12_1");
	check_refused(OMPI, "gives no job id");
	check_refused("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
		      "PMIX_NAMESPACE=7",
		      "on several hosts; PMIx: ");
	check("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 TUTTI_STORE=tcp://h:5",
	      "Open MPI, 1 of 2, at tcp://h:5");
}

/* What it says is asked for: tests/launchers/launchers.sh has a real one. */
TEST(knows_pmix_alone)
{
	check_refused("PMIX_RANK=1", "cannot be asked (PMIx: PMIX_NAMESPACE is not set)");
	check_refused("PMIX_NAMESPACE=x", "PMIX_RANK is not set): install");
	check("TUTTI_RANK=1 TUTTI_SIZE=2 TUTTI_STORE=tcp://h:5 PMIX_RANK=0 PMIX_NAMESPACE=x",
	      "tutti-run, 1 of 2, at tcp://h:5");
	check("PMI_RANK=1 PMI_SIZE=2 PMIX_RANK=0 TUTTI_STORE=tcp://h:5",
	      "PMI, 1 of 2, at tcp://h:5");
}

TEST(reads_hydra)
{
#define HYDRA "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 "
	char text[256], begin[64];
	int pair[2];
	struct tt_launch launch;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(text, sizeof(text), HYDRA "PMI_FD=%d", pair[0]);
	snprintf(begin, sizeof(begin), "unix:tutti-%ld-%ld-", (long)geteuid(), (long)getpid());
	launch = read_good(text);
	assert_string_equal(launch.launcher, "Hydra");
	assert_int_equal(launch.rank, 1);
	assert_int_equal(launch.local_size, 2);
	assert_memory_equal(launch.store, begin, strlen(begin));
	assert_true(strtoull(launch.store + strlen(begin), NULL, 10) > 0);
	close(pair[0]);
	close(pair[1]);
	check_refused(text, "gives no job id"); /* the socket is gone */
	check_refused(HYDRA, "gives no job id");
	check_refused("PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2",
		      "they are on several hosts");
	check_refused("MPI_LOCALRANKID=1 PMI_SIZE=4", "PMI_RANK is not set");
}

TEST(reads_slurm)
{
#define SLURM "SLURM_STEP_ID=3 SLURM_JOB_ID=9 SLURM_PROCID=1 SLURM_LOCALID=1 "
	static const char *const lists[] = { "n[", "n[]", "n[x-y]", "n[1-2", "n;m", ",n" };

	check(SLURM "SLURM_NTASKS=2 SLURM_NNODES=1", "Slurm, 1 of 2, at unix:tutti-UID-9.3");
	check(SLURM "SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=8 SLURM_NNODES=4 SLURM_STEP_NUM_NODES=1",
	      "Slurm, 1 of 2, at unix:tutti-UID-9.3");
	check_local(SLURM "SLURM_NTASKS=2 SLURM_NNODES=1", 1, 2, "9.3");
	check_refused(SLURM "SLURM_NTASKS=2 SLURM_NNODES=2", "start it by srun --mpi=pmi2");
	keyed = true;
	check(SLURM "SLURM_NTASKS=2 SLURM_STEP_NODELIST=n", "Slurm, 1 of 2, at tcp://n:20147");
	check(SLURM "SLURM_NTASKS=2 SLURM_STEP_NODELIST=rack[2-3]n[07-16,20]-x,login1",
	      "Slurm, 1 of 2, at tcp://rack2n07-x:20147");
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		char text[512];

		snprintf(text, sizeof(text), SLURM "SLURM_NTASKS=2 SLURM_STEP_NODELIST=%s",
			 lists[i]);
		check_refused(text, "start it by srun --mpi=pmi2");
	}
	keyed = false;
	check_refused("SLURM_STEP_ID=1 SLURM_NTASKS=2", "SLURM_PROCID is not set");
	check(SLURM "SLURM_NTASKS=2 SLURM_NNODES=2 TUTTI_STORE=tcp://h:1",
	      "Slurm, 1 of 2, at tcp://h:1");
}

/* In a child, as a library stays open. */
static void meet_by_exiting_library(void)
{
	char text[TT_KVS_TEXT_MAX] = "";
	struct tt_launch launch;

	environment(SLURM
		    "SLURM_NTASKS=2 SLURM_STEP_NODELIST=n FLUX_PMI_LIBRARY_PATH=" EXITING_PMI);
	if (tt_launch_read(true, &launch) || launch.kvs ||
	    strcmp(launch.store, "tcp://n:20147") != 0)
		exit(1);
	if (tt_launch_read(false, &launch) || launch.kvs != &tt_kvs_pmi_library || launch.store[0])
		exit(2);
	tt_kvs_bring(launch.kvs, launch.rank, launch.size, 0, text, tt_now() + 60 * SECOND);
	exit(4);
}

/* As Slurm's does in a container without Slurm. */
TEST(a_library_that_may_exit_comes_last_and_does_not_do_so_unexplained)
{
	char said[2048];
	size_t used = 0;
	ssize_t n;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		meet_by_exiting_library();
	}
	close(ends[1]);
	while ((n = read(ends[0], said + used, sizeof(said) - 1 - used)) > 0)
		used += (size_t)n;
	said[used] = 0;
	close(ends[0]);
	await_exit(child, 3);
	assert_says(said, "has ended this process");
	assert_says(said, "or set TUTTI_KEY_FILE");
}

static bool with_mpi;	    /* there is a library called libmpi, which cannot be opened … */
static bool list_is_locked; /* … by a thread that holds this lock */
static int opened_meanwhile, opened;

int __real_dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data);
int __wrap_dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data);
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

int __wrap_dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct dl_phdr_info mpi = { .dlpi_name = "libmpi-of-nobody.so" };

	if (!with_mpi)
		return __real_dl_iterate_phdr(look, data);
	list_is_locked = true;
	const int result = look(&mpi, sizeof(mpi), data);
	list_is_locked = false;
	return result;
}

void *__wrap_dlopen(const char *name, int flags)
{
	opened += with_mpi;
	opened_meanwhile += list_is_locked;
	return __real_dlopen(name, flags);
}

/* A thread that opens one at that time waits for that lock, and has the other. */
TEST(no_library_is_opened_while_the_list_of_them_is_locked)
{
	with_mpi = true;
	assert_false(tt_kvs_mpi_began());
	with_mpi = false;
	assert_int_equal(opened, 1);
	assert_int_equal(opened_meanwhile, 0);
}

TEST(reads_plain_pmi)
{
	check("PMI_RANK=1 PMI_SIZE=2 TUTTI_STORE=tcp://h:1", "PMI, 1 of 2, at tcp://h:1");
	check_refused("PMI_RANK=1 PMI_SIZE=2", "nor whether they share a host");
	check_local(SLURM "SLURM_NTASKS=2 SLURM_NNODES=1 PMI_RANK=1 PMI_SIZE=2", 1, 2, "9.3");
}

/* Its ranks are those of the launcher's key-value store; those of other launchers are not. */
TEST(a_store_that_is_no_store_is_passed_over)
{
	int pair[2];
	char text[256];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(text, sizeof(text), "PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d", pair[0]);
	assert_string_equal(read_good(text).kvs->name, "PMI");
	snprintf(text, sizeof(text), "PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d TUTTI_STORE=file:/d",
		 pair[0]);
	assert_null(read_good(text).kvs);
	snprintf(text, sizeof(text), "TUTTI_RANK=1 TUTTI_SIZE=2 PMI_FD=%d", pair[0]);
	check_refused(text,
		      "does not say where the ranks meet (nor whether they share a host): set");
	close(pair[0]);
	close(pair[1]);
	snprintf(text, sizeof(text), "PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d", pair[0]);
	check_refused(text, "PMI_FD is no open socket");
	check_refused("PMI_RANK=1 PMI_SIZE=2 PMI_FD=1x", "PMI_FD is no open socket");
}

TEST(where_the_launcher_cannot_be_asked_variables_are_named)
{
	char text[TT_KVS_TEXT_MAX] = "", variables[256];
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(variables, sizeof(variables), "PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d", pair[0]);
	const struct tt_launch launch = read_good(variables);

	close(pair[1]);
	assert_int_equal(tt_kvs_bring(launch.kvs, 1, 2, 0, text, tt_now() + 60 * SECOND),
			 TUTTI_ERR_SYSTEM);
	assert_says(tt_thread_error(), "the launcher has closed its connection (PMI_FD)");
	assert_says(tt_thread_error(),
		    ". Where the launcher cannot be asked, set TUTTI_STORE on every rank");
	close(pair[0]);
}

TEST(an_agent_that_cannot_be_reached_is_told_within_seconds)
{
	static const char *const addresses[] = { "127.0.0.1", "a..b" };
	int port = 0;
	const int fd = raw_bind(&port); /* at which nobody listens, nor else will */

	for (int i = 0; i < 2; i++) {
		struct tt_key key = { .set = false };
		char variables[256];
		tutti_store_t store;

		snprintf(variables, sizeof(variables),
			 TORCH "MASTER_ADDR=%s MASTER_PORT=%d TORCHELASTIC_USE_AGENT_STORE=True",
			 addresses[i], port);
		const struct tt_launch launch = read_good(variables);
		const uint64_t start = tt_now();

		assert_int_equal(tt_meeting_open(&launch, 0, &key, start + 300 * SECOND, &store),
				 TUTTI_ERR_SYSTEM);
		assert_true(tt_now() - start < 30 * SECOND); /* 3 s, and the machine may be busy */
		assert_says(tt_thread_error(), "connect to torchrun's store at ");
		assert_says(tt_thread_error(),
			    i ? "(MASTER_ADDR, MASTER_PORT): Name or service not known"
			      : "(MASTER_ADDR, MASTER_PORT): Connection refused");
		assert_says(tt_thread_error(), "set TUTTI_STORE on every rank");
	}
	close(fd);
}

TEST(reads_kubernetes)
{
	check("JOB_COMPLETION_INDEX=2 TUTTI_SIZE=4 TUTTI_STORE=tcp://job-0.job:29500",
	      "Kubernetes, 2 of 4, at tcp://job-0.job:29500");
	check("JOB_COMPLETION_INDEX=2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5",
	      "torchrun, 1 of 2, at tcp://h:5");
	check("JOB_COMPLETION_INDEX=2", "none, 0 of 1, at ");
	check_refused("JOB_COMPLETION_INDEX=4 TUTTI_SIZE=4", "rank 4 of 4");
}

TEST(places_to_meet_are_checked)
{
#define DIGITS "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff"
	static const char *const wrong[] = {
		"",
		"1",
		"1,-",
		"1,-,",
		"1,-,80",
		"1,-,80,",
		"1,-,0,10.0.0.1",
		"1,-,65536,10.0.0.1",
		"1,-,99999999,10.0.0.1",
		"1,-,80,host",
		"1,-,80,10.0.0.1,,10.0.0.2",
		"1,-,80,[::1]",
		"1," DIGITS "0,80,10.0.0.1",
		"1,0" DIGITS ",80,10.0.0.1",
		"1,,80,10.0.0.1",
		"1,x" DIGITS ",80,10.0.0.1",
		"2,-,80,10.0.0.1",
		"0",
	};
	struct tt_meeting meeting;

	assert_true(tt_meeting_parse("1,-,80,10.0.0.1", &meeting));
	assert_false(meeting.keyed);
	assert_string_equal(meeting.store, "tcp://10.0.0.1:80");
	assert_true(tt_meeting_parse("1," DIGITS ",65535,fd00::1,10.0.0.1", &meeting));
	assert_true(meeting.keyed && meeting.key[1] == 1 && meeting.key[31] == 0xff);
	assert_string_equal(meeting.store, "tcp://[fd00::1],10.0.0.1:65535");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (tt_meeting_parse(wrong[i], &meeting))
			fail_msg("\"%s\" is a place to meet: %s", wrong[i], meeting.store);
}

TEST(fields_of_pmi_are_found_whole)
{
	char value[8];

	assert_true(tt_pmi_field("cmd=get_result rc=0 value=a=b", "value", value, sizeof(value)));
	assert_string_equal(value, "a=b");
	assert_true(tt_pmi_field("cmd=x  rc=-1", "rc", value, sizeof(value)));
	assert_string_equal(value, "-1");
	assert_false(tt_pmi_field("cmd=x xrc=0", "rc", value, sizeof(value)));
	assert_false(tt_pmi_field("cmd=x rc", "rc", value, sizeof(value)));
	assert_false(tt_pmi_field("cmd=x rc=12345678", "rc", value, sizeof(value)));
	assert_false(tt_pmi_field("", "rc", value, sizeof(value)));
}

TEST(the_innermost_launcher_wins)
{
	check(RUN SLURM "SLURM_NTASKS=2 TUTTI_STORE_SERVED=1", "tutti-run, 2 of 4, at unix:x");
	check(RUN OMPI, "tutti-run, 2 of 4, at unix:x");
	check(RUN TORCH, "tutti-run, 2 of 4, at unix:x");
	check(OMPI SLURM "SLURM_NTASKS=4 TUTTI_STORE=unix:y", "Open MPI, 0 of 2, serves unix:y");
	check(HYDRA SLURM "SLURM_NTASKS=4 TUTTI_STORE=unix:y", "Hydra, 1 of 2, at unix:y");
}

/* One of tutti-run's variables is set by it alone, and it hands on none that others set alone. */
TEST(a_launcher_inside_tutti_run_wins)
{
	struct tt_launch launch;
	bool joins;

#define INSIDE RUN "TUTTI_STORE_SERVED=once TUTTI_RESTART=0 TUTTI_JOIN=1 "
	check(INSIDE OMPI "PMIX_NAMESPACE=7", "Open MPI, 0 of 2, serves unix:tutti-UID-7");
	assert_ok(tt_launch_joins(&joins));
	assert_false(joins);
	assert_int_equal(tt_launch_meets("a call", &launch), TUTTI_ERR_INVALID); /* nor there */
	check(INSIDE SLURM "SLURM_NTASKS=2 SLURM_NNODES=1", "Slurm, 1 of 2, at unix:tutti-UID-9.3");
	check(INSIDE TORCH "TORCHELASTIC_RUN_ID=none MASTER_ADDR=10.0.0.1 MASTER_PORT=29500",
	      "torchrun, 1 of 4, at tcp://10.0.0.1:29500");
	check(RUN OMPI "TUTTI_RESTART=0",
	      "Open MPI, 0 of 2, serves unix:x"); /* its own TUTTI_STORE */
	check(INSIDE "RANK=2 WORLD_SIZE=4", "tutti-run, 2 of 4, at unix:x");
	check(INSIDE "PMI_SIZE=4", "tutti-run, 2 of 4, at unix:x");
}

TEST(numbers_that_are_none_are_named)
{
	check_refused("TUTTI_RANK=one TUTTI_SIZE=2", "TUTTI_RANK to \"one\"");
	check_refused("TUTTI_RANK=1x TUTTI_SIZE=2", "TUTTI_RANK to \"1x\"");
	check_refused("TUTTI_RANK=-1 TUTTI_SIZE=2", "a number from 0 to 2147483647");
	check_refused("TUTTI_RANK=0 TUTTI_SIZE=0",
		      "TUTTI_SIZE to \"0\": expected a number from 1 to");
	check_refused("TUTTI_RANK=0 TUTTI_SIZE=99999999999999999999", "TUTTI_SIZE");
	check_refused("TUTTI_RANK=0 TUTTI_SIZE=3000000000",
		      "TUTTI_SIZE to \"3000000000\": expected a number from 1 to 2147483647");
	check_refused(TORCH "MASTER_ADDR=h MASTER_PORT=70000",
		      "MASTER_PORT to \"70000\": expected a number from 1 to 65535");
	check_refused("TUTTI_RANK=2 TUTTI_SIZE=2", "TUTTI_RANK says rank 2 of 2 ranks");
	check_refused("TUTTI_RANK=0", "TUTTI_SIZE is not set");
	check_refused("TUTTI_SIZE=2", "TUTTI_RANK is not set");
	check_refused(RUN "TUTTI_LOCAL_SIZE=5", "local rank -1 of 5");
	check_refused(RUN "TUTTI_LOCAL_RANK=2 TUTTI_LOCAL_SIZE=2", "local rank 2 of 2");
	check_refused(RUN "TUTTI_LOCAL_RANK=x", "TUTTI_LOCAL_RANK to \"x\"");
}

TEST(addresses_and_jobs_that_are_too_long_are_refused_or_cut)
{
	char text[512];

	snprintf(text, sizeof(text), "TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_STORE=file:/%0300d", 0);
	check_refused(text, "TUTTI_STORE has 306 bytes");
	snprintf(text, sizeof(text), "RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=%0300d", 0);
	check_refused(text, "MASTER_ADDR has 300 bytes");
	snprintf(text, sizeof(text), RUN "TUTTI_JOB=%0100d", 0);
	assert_int_equal(strlen(read_good(text).job), 63);
}
