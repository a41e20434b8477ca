/* SPDX-License-Identifier: BSD-3-Clause */
/* How tutti-run starts ranks: its options, their environment, where they run, what they see of a
 * terminal. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launched.h"

static const char *tutti_run;
static const char *store_rank; /* store_rank.c */

/* Run tutti-run with up to six arguments; its exit status. */
static int run(struct launched *l, const char *a, const char *b, const char *c, const char *d,
	       const char *e, const char *f)
{
	const char *argv[] = { tutti_run, a, b, c, d, e, f, NULL };

	return launched_run(l, argv);
}

static void assert_refused(const char *a, const char *b, const char *c, const char *message)
{
	struct launched l;

	assert_int_equal(run(&l, a, b, c, NULL, NULL, NULL), 125);
	assert_contains(launched_err(&l), message);
	assert_string_equal(launched_out(&l), "");
	launched_free(&l);
}

static void wrong_options_say_what_is_expected(void **state)
{
	assert_refused("-n", "0", "true",
		       "-n has \"0\": expected a number of ranks from 1 to 4096");
	assert_refused("-n", "4x", "true", "-n has \"4x\": expected");
	assert_refused("--bind", "socket", "true",
		       "--bind has \"socket\": expected share, core, numa or none");
	assert_refused("--timeout", "-1", "true",
		       "--timeout has \"-1\": expected seconds, above 0 and at most 1e9");
	assert_refused("--timeout", "1e10", "true",
		       "--timeout has \"1e10\": expected seconds, above 0 and at most 1e9");
	assert_refused("--grace", "soon", "true", "--grace has \"soon\": expected");
	assert_refused("--env", "NAME", "true", "--env has \"NAME\": expected NAME=VALUE");
	assert_refused("--frobnicate", NULL, NULL, "unknown option --frobnicate; tutti-run --help");
	assert_refused("--retsart", "1", NULL,
		       "unknown option --retsart (did you mean --restart?)");
	assert_refused("--no-label=yes", NULL, NULL, "--no-label takes no value");
	assert_refused("--bind", "nuam", "true", "--bind has \"nuam\" (did you mean numa?)");
	assert_refused("-z", NULL, NULL, "unknown option -z; tutti-run --help");
	assert_refused("-Lz", NULL, NULL, "unknown option -z;");
	assert_refused("-n", NULL, NULL, "-n needs a value");
	assert_refused("-n", "2", NULL, "no program: expected tutti-run -n N -- PROGRAM");
	assert_refused("true", NULL, NULL, "no number of ranks: expected -n N");
}

/* What users of mpirun, torchrun and srun write: taken where it means the same, or else answered.
 */
static void options_of_other_launchers_are_understood(void **state)
{
	static const char *const count[][2] = {
		{ "-np", "2" }, { "--np", "2" }, { "--ntasks=2", "-L" }, { "--nproc_per_node", "2" }
	};
	struct launched l;

	for (size_t i = 0; i < sizeof(count) / sizeof(count[0]); i++) {
		assert_int_equal(run(&l, count[i][0], count[i][1], "--", "echo", "-np", NULL), 0);
		/* the program's own stays */
		assert_int_equal(count_of(launched_out(&l), "-np\n"), 2);
		launched_free(&l);
	}
	assert_refused("-np", "many", "true", "-n has \"many\": expected a number of ranks");
	assert_refused("-np", NULL, NULL, "-n has \"\": expected a number of ranks");
	for (size_t i = 0; i < 5; i++) {
		static const char *const hosts[] = { "--hosts", "-H", "--hostfile", "-hostfile",
						     "--nnodes=2" };

		assert_refused(hosts[i], "a,b", "true",
			       "on several hosts start them by torchrun, mpirun or srun");
	}
	assert_refused("-x", "A=B", "true", "found -x: expected --env NAME=VALUE");
	assert_refused("--oversubscribe", NULL, NULL, "leave it out");
}

static void help_and_version_are_answered_on_stdout(void **state)
{
	struct launched l;

	assert_int_equal(run(&l, "--help", NULL, NULL, NULL, NULL, NULL), 0);
	assert_contains(launched_out(&l), "Usage: tutti-run -n N");
	assert_string_equal(launched_err(&l), "");
	launched_free(&l);
	assert_int_equal(run(&l, "--version", NULL, NULL, NULL, NULL, NULL), 0);
	assert_contains(launched_out(&l), "tutti-run ");
	launched_free(&l);
}

static void a_program_that_cannot_be_started_is_named(void **state)
{
	struct launched l;

	assert_int_equal(run(&l, "-n", "2", "--", "no-such-program", NULL, NULL), 127);
	assert_contains(launched_err(&l), "\"no-such-program\" is in no directory of PATH");
	launched_free(&l);
	assert_int_equal(run(&l, "-n", "2", "--", "./no-such-program", NULL, NULL), 127);
	assert_contains(launched_err(&l), "\"./no-such-program\" does not exist");
	launched_free(&l);
	assert_int_equal(run(&l, "-n", "2", "--", "/etc/passwd", NULL, NULL), 126);
	assert_contains(launched_err(&l), "cannot execute \"/etc/passwd\": Permission denied");
	launched_free(&l);
}

static void options_of_the_program_are_its_own(void **state)
{
	struct launched l;

	assert_int_equal(run(&l, "-n", "1", "echo", "-n", "--bind", NULL), 0);
	assert_string_equal(launched_out(&l), "[0] --bind\n");
	launched_free(&l);
}

static void ranks_find_their_place_in_the_environment(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,
		"-n",
		"3",
		"--",
		"/bin/sh",
		"-c",
		"echo $TUTTI_RANK/$TUTTI_SIZE $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE "
		"served $TUTTI_STORE_SERVED; echo job $TUTTI_JOB store $TUTTI_STORE; "
		"echo torch $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
		"at $MASTER_ADDR:$MASTER_PORT$TORCHELASTIC_USE_AGENT_STORE",
		NULL
	};
	char common[256];
	long port;
	const char *job;

	/* of another job that tutti-run is a rank of */
	setenv("RANK", "7", 1);
	setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
	assert_int_equal(launched_run(&l, argv), 0);
	unsetenv("RANK");
	unsetenv("TORCHELASTIC_USE_AGENT_STORE");
	assert_contains(launched_out(&l), "[0] 0/3 0/3 served 1\n");
	assert_contains(launched_out(&l), "[1] 1/3 1/3 served 1\n");
	assert_contains(launched_out(&l), "[2] 2/3 2/3 served 1\n");
	job = strstr(launched_out(&l), "job ");
	assert_non_null(job);
	snprintf(common, sizeof(common), "%.*s", (int)strcspn(job, "\n"), job);
	assert_int_equal(count_of(launched_out(&l), common), 3);
	assert_int_equal(strspn(common + 4, "0123456789abcdef"), 32);
	snprintf(common, sizeof(common), "store unix:tutti-run-%d-", (int)l.pid);
	assert_int_equal(count_of(launched_out(&l), common), 3);
	assert_contains(launched_out(&l), "[2] torch 2/3 2/3 at 127.0.0.1:");
	assert_int_equal(numbers_after(launched_out(&l), "at 127.0.0.1:", &port, 1), 1);
	snprintf(common, sizeof(common), "/3 at 127.0.0.1:%ld\n", port);
	assert_int_equal(count_of(launched_out(&l), common), 3);
	launched_free(&l);
}

static void an_address_for_pytorch_that_was_given_stays(void **state)
{
	struct launched l;
	const char *argv[] = { tutti_run, "-n",
			       "1",	  "-L",
			       "--env",	  "MASTER_ADDR=::1",
			       "--",	  "/bin/sh",
			       "-c",	  "echo $MASTER_ADDR $MASTER_PORT",
			       NULL };

	setenv("MASTER_PORT", "4711", 1);
	assert_int_equal(launched_run(&l, argv), 0);
	unsetenv("MASTER_PORT");
	assert_string_equal(launched_out(&l), "::1 4711\n");
	launched_free(&l);
}

static void ranks_meet_in_the_store_that_is_served(void **state)
{
	struct launched l;

	assert_int_equal(run(&l, "-n", "8", "--", store_rank, NULL, NULL), 0);
	assert_int_equal(count_of(launched_out(&l), "] met 8\n"), 8);
	assert_string_equal(launched_err(&l), "");
	launched_free(&l);
}

/* What a rank finds as its key, into `key`; "" if it finds none. */
static void key_of_job(char *key, size_t size)
{
	struct launched l;
	const char *argv[] = { tutti_run,
			       "-n",
			       "2",
			       "-L",
			       "/bin/sh",
			       "-c",
			       "echo key $TUTTI_KEY.; tr '\\0' ' ' </proc/$PPID/cmdline",
			       NULL };
	const char *line;

	assert_int_equal(launched_run(&l, argv), 0);
	line = strstr(launched_out(&l), "key ");
	assert_non_null(line);
	snprintf(key, size, "%.*s", (int)strcspn(line + 4, "."), line + 4);
	if (*key)
		assert_int_equal(count_of(launched_out(&l), key),
				 2); /* and not in tutti-run's command line */
	launched_free(&l);
}

static void every_job_has_a_key_of_its_own(void **state)
{
	char one[128], two[128];

	unsetenv("TUTTI_KEY");
	key_of_job(one, sizeof(one));
	key_of_job(two, sizeof(two));
	assert_int_equal(strlen(one), 64);
	assert_int_equal(strspn(one, "0123456789abcdef"), 64);
	assert_string_not_equal(one, two);
}

static void a_key_that_is_given_is_handed_on(void **state)
{
	static const char given[] =
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
	char path[] = "/tmp/tutti-test-run-key-XXXXXX", key[128];
	struct launched l;

	setenv("TUTTI_KEY", given, 1);
	key_of_job(key, sizeof(key));
	assert_string_equal(key, given);
	unsetenv("TUTTI_KEY");
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, given, 64), 64);
	close(fd);
	setenv("TUTTI_KEY_FILE", path, 1);
	key_of_job(key, sizeof(key));
	assert_string_equal(key, "");
	assert_int_equal(run(&l, "-n", "2", "--", store_rank, NULL, NULL),
			 0); /* they read it themselves */
	assert_int_equal(count_of(launched_out(&l), "] met 2\n"), 2);
	launched_free(&l);
	unsetenv("TUTTI_KEY_FILE");
	unlink(path);
	setenv("TUTTI_KEY", "none", 1);
	assert_int_equal(run(&l, "-n", "2", "--", store_rank, NULL, NULL), 125);
	assert_contains(launched_err(&l), "TUTTI_KEY has 4 characters");
	launched_free(&l);
	unsetenv("TUTTI_KEY");
}

static void the_store_of_a_job_wants_its_key(void **state)
{
	struct launched l;
	const char *without[] = { tutti_run, "-n",	  "1",	      "/usr/bin/env",
				  "-u",	     "TUTTI_KEY", store_rank, NULL };
	const char *another[] = {
		tutti_run,
		"-n",
		"1",
		"-e",
		"TUTTI_KEY=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		store_rank,
		NULL
	};

	assert_int_equal(launched_run(&l, without), 3);
	assert_contains(launched_err(&l), "has a key, and this end has none");
	launched_free(&l);
	assert_int_equal(launched_run(&l, another), 3);
	assert_contains(launched_err(&l), "has another key");
	launched_free(&l);
}

static void env_adds_and_replaces_variables(void **state)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,  "-n",	"2",
		"-e",	    "TT_A=new", "--env",
		"TT_B=x=y", "--env",	"TUTTI_RANK=7",
		"/bin/sh",  "-c",	"echo $TT_A $TT_B $TT_C $TUTTI_RANK; env | grep -c ^TT_A=",
		NULL
	};

	setenv("TT_A", "old", 1);
	setenv("TT_C", "kept", 1);
	assert_int_equal(launched_run(&l, argv), 0);
	assert_contains(launched_out(&l), "[0] new x=y kept 0\n");
	assert_contains(launched_out(&l), "[1] new x=y kept 1\n");
	assert_contains(launched_out(&l), "[0] 1\n");
	assert_contains(launched_out(&l), "[1] 1\n");
	launched_free(&l);
}

static void ranks_get_signals_and_limits_as_tutti_run_got_them(void **state)
{
	struct launched l;
	char own[4096], expected[4096];
	const char *argv[] = { tutti_run,
			       "-n",
			       "1",
			       "-L",
			       "/bin/sh",
			       "-c",
			       "grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -Sn",
			       NULL };

	assert_int_equal(launched_run(&l, argv + 4), 0);
	snprintf(expected, sizeof(expected), "%s", launched_out(&l));
	launched_free(&l);
	assert_int_equal(launched_run(&l, argv), 0);
	snprintf(own, sizeof(own), "%s", launched_out(&l));
	launched_free(&l);
	assert_string_equal(own, expected);
}

/* ---------------------------------------------------------------- where ranks run */

/* Run `n` ranks bound by `policy`; the cpus that rank `rank` was allowed, as the kernel prints
 * them. */
static void allowed_cpus(const char *policy, const char *n, int rank, char *list, size_t capacity)
{
	struct launched l;
	const char *argv[] = {
		tutti_run,	     "-n", n, "--bind", policy, "grep", "Cpus_allowed_list",
		"/proc/self/status", NULL
	};
	char start[64];

	assert_int_equal(launched_run(&l, argv), 0);
	snprintf(start, sizeof(start), "[%d] Cpus_allowed_list:\t", rank);
	assert_contains(launched_out(&l), start);
	const char *at = strstr(launched_out(&l), start) + strlen(start);
	snprintf(list, capacity, "%.*s", (int)strcspn(at, "\n"), at);
	launched_free(&l);
}

static void ranks_are_bound_to_cores_of_their_own(void **state)
{
	cpu_set_t own;
	char first[256], second[256], third[256];

	assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
	if (CPU_COUNT(&own) != 2) {
		print_message("skipped: this check wants two allowed cpus\n");
		skip();
	}
	allowed_cpus("core", "3", 0, first, sizeof(first));
	allowed_cpus("core", "3", 1, second, sizeof(second));
	allowed_cpus("core", "3", 2, third, sizeof(third));
	assert_string_equal(first, third);
	allowed_cpus("share", "2", 0, third, sizeof(third));
	assert_string_equal(first, third);
	allowed_cpus("share", "2", 1, third, sizeof(third));
	assert_string_equal(second, third);
}

static void only_cpus_of_tutti_runs_own_affinity_are_used(void **state)
{
	static const char *const policies[] = { "share", "core", "numa", "none" };
	cpu_set_t own, one;
	char list[256], expected[32];
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
	while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &own))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	snprintf(expected, sizeof(expected), "%d", cpu);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		allowed_cpus(policies[i], "2", 1, list, sizeof(list));
		assert_string_equal(list, expected);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
}

static void the_topology_of_another_machine_binds_nothing(void **state)
{
	struct launched l;

	setenv("HWLOC_SYNTHETIC", "core:64 pu:1", 1);
	assert_int_equal(run(&l, "-n", "1", "--bind", "core", "true", NULL), 125);
	assert_contains(launched_err(&l), "describes another machine; --bind none does without");
	launched_free(&l);
	assert_int_equal(run(&l, "-n", "1", "--bind", "none", "true", NULL), 0);
	unsetenv("HWLOC_SYNTHETIC");
	launched_free(&l);
}

static void more_ranks_than_cores_share_all_of_them(void **state)
{
	char free_list[256], shared[256];

	allowed_cpus("none", "1", 0, free_list, sizeof(free_list));
	allowed_cpus("share", "64", 63, shared, sizeof(shared));
	assert_string_equal(shared, free_list);
}

/* ---------------------------------------------------------------- on a terminal */

/* From now on no pseudo terminal of this process can be unlocked: a bare container has none at all.
 */
static bool forbid_terminals(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSPTLCK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Run tutti-run on a pseudo terminal, which is the last if `bare`; type `typed` when `prompt` has
 * been shown; what it showed. */
static void on_terminal(const char *const argv[], bool bare, const char *prompt, const char *typed,
			char *shown, size_t capacity)
{
	size_t used = 0;
	int terminal, status;
	ssize_t got;
	const pid_t pid = forkpty(&terminal, NULL, NULL, NULL);

	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("TERM", "xterm", 1);
		unsetenv("NO_COLOR");
		if (bare && !forbid_terminals())
			_exit(125);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(125);
	}
	while (used + 1 < capacity &&
	       (got = read(terminal, shown + used, capacity - used - 1)) > 0) {
		used += (size_t)got;
		shown[used] = '\0';
		if (prompt && strstr(shown, prompt)) {
			assert_int_equal(write(terminal, typed, strlen(typed)), strlen(typed));
			prompt = NULL;
		}
	}
	close(terminal);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void on_a_terminal_progress_is_live_and_labels_are_coloured(void **state)
{
	char shown[65536] = "";
	const char *argv[] = {
		tutti_run,
		"-n",
		"1",
		"/bin/sh",
		"-c",
		"printf '10%%\\r'; read x; printf '90%%\\r'; read x; echo done; test -t 1",
		NULL
	};

	on_terminal(argv, false, "10%", "a\nb\n", shown, sizeof(shown));
	assert_contains(shown, "\033[36m[0]\033[0m 10%");
	assert_contains(shown, "\r\033[K\033[36m[0]\033[0m done\r\n");
}

static void what_is_typed_reaches_rank_0(void **state)
{
	char shown[65536] = "";
	const char *argv[] = { tutti_run, "-n", "2",
			       "/bin/sh", "-c", "printf 'name? '; read x; echo hello $x",
			       NULL };

	on_terminal(argv, false, "name?", "tutti\n", shown, sizeof(shown));
	assert_contains(shown, "[0]\033[0m name? hello tutti\r\n");
}

static void without_pseudo_terminals_ranks_get_pipes(void **state)
{
	char shown[65536] = "";
	const char *argv[] = { tutti_run, "-n", "2",
			       "/bin/sh", "-c", "test -t 1 || test -t 2 || echo pipes",
			       NULL };

	on_terminal(argv, true, NULL, NULL, shown, sizeof(shown));
	assert_int_equal(count_of(shown, "pipes\r\n"), 2);
	assert_int_equal(count_of(shown, "cannot open a pseudo terminal: "), 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_options_say_what_is_expected),
		cmocka_unit_test(options_of_other_launchers_are_understood),
		cmocka_unit_test(help_and_version_are_answered_on_stdout),
		cmocka_unit_test(a_program_that_cannot_be_started_is_named),
		cmocka_unit_test(options_of_the_program_are_its_own),
		cmocka_unit_test(ranks_find_their_place_in_the_environment),
		cmocka_unit_test(an_address_for_pytorch_that_was_given_stays),
		cmocka_unit_test(ranks_meet_in_the_store_that_is_served),
		cmocka_unit_test(every_job_has_a_key_of_its_own),
		cmocka_unit_test(a_key_that_is_given_is_handed_on),
		cmocka_unit_test(the_store_of_a_job_wants_its_key),
		cmocka_unit_test(env_adds_and_replaces_variables),
		cmocka_unit_test(ranks_get_signals_and_limits_as_tutti_run_got_them),
		cmocka_unit_test(ranks_are_bound_to_cores_of_their_own),
		cmocka_unit_test(only_cpus_of_tutti_runs_own_affinity_are_used),
		cmocka_unit_test(the_topology_of_another_machine_binds_nothing),
		cmocka_unit_test(more_ranks_than_cores_share_all_of_them),
		cmocka_unit_test(on_a_terminal_progress_is_live_and_labels_are_coloured),
		cmocka_unit_test(what_is_typed_reaches_rank_0),
		cmocka_unit_test(without_pseudo_terminals_ranks_get_pipes),
	};

	tutti_run = argc > 1 ? argv[1] : "tutti-run";
	store_rank = argc > 2 ? argv[2] : "store_rank";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
