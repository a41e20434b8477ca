/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-run: start the ranks of a job on this host. Owns the order in which things are set up and
 * taken down; sees the library through its public header only. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tutti/tutti.h"

#include "job.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "reaper.h"
#include "spawn.h"

#define KEY_VARIABLE "TUTTI_KEY="

struct run {
	struct options options;
	struct inherited inherited;
	struct reaper reaper;
	struct job job;
	struct spawn spawn;
	struct relay relay;
	struct loop loop;
	int signals;
	char mark[64]; /* TUTTI_JOB=… */
	char key[sizeof(KEY_VARIABLE) + TUTTI_KEY_LENGTH];
	char address[64]; /* of the store */
};

static bool say_cannot(const char *what)
{
	fprintf(stderr, "tutti-run: cannot %s: %s\n", what, strerror(errno));
	return false;
}

/* Names of the job that no other job has, and that cannot be guessed. */
static bool make_names(struct run *run)
{
	uint64_t random[3];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return say_cannot("get random numbers");
	snprintf(run->mark, sizeof(run->mark), "TUTTI_JOB=%016llx%016llx",
		 (unsigned long long)random[0], (unsigned long long)random[1]);
	snprintf(run->address, sizeof(run->address), "unix:tutti-run-%d-%016llx", (int)getpid(),
		 (unsigned long long)random[2]);
	return true;
}

/* A key of the job, unless one is given: for the store, and in the environment that the ranks
 * inherit. */
static bool make_key(struct run *run)
{
	const char *given = getenv("TUTTI_KEY"), *file = getenv("TUTTI_KEY_FILE");
	const size_t name = strlen(KEY_VARIABLE);

	if ((given && *given) || (file && *file))
		return true;
	memcpy(run->key, KEY_VARIABLE, name);
	if (tutti_key_make(run->key + name) != TUTTI_OK)
		return say_cannot("get random numbers");
	return putenv(run->key) == 0 || say_cannot("set the environment");
}

/* Per rank: two streams, its pidfd, the connection to the store. */
static bool raise_file_limit(struct run *run)
{
	const rlim_t needed = 64 + 4 * (rlim_t)run->options.ranks;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &run->inherited.files) < 0)
		return say_cannot("read the limit of open files");
	limit = run->inherited.files;
	if (limit.rlim_cur >= needed)
		return true;
	limit.rlim_cur = needed;
	if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fprintf(stderr,
			"tutti-run: -n %d needs %llu open files, the limit is %llu: raise it (ulimit -n) "
			"or start fewer ranks\n",
			run->options.ranks, (unsigned long long)needed,
			(unsigned long long)limit.rlim_max);
		return false;
	}
	return true;
}

static bool open_store(struct run *run)
{
	if (tutti_store_open(run->address, 1, 0, &run->job.store) == TUTTI_OK)
		return true;
	fprintf(stderr, "tutti-run: cannot serve the store where ranks meet: %s\n",
		tutti_last_error(NULL));
	return false;
}

static bool open_input(struct run *run)
{
	run->spawn.stdin_fd = relay_init(&run->relay);
	return run->spawn.stdin_fd >= 0 || say_cannot("open the standard input of the ranks");
}

enum { PORTS_FIRST = 20000, PORTS = 12000 };

static bool is_free(int port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)port),
					     .sin_addr.s_addr = htonl(INADDR_ANY) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool free =
		fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;

	if (fd >= 0)
		close(fd);
	return free;
}

/* A TCP port that will still be free when a rank listens on it. The kernel gives ports from 32768 on to
 * whoever connects (ip_local_port_range), so it lies below, at a place that differs between jobs. */
static int choose_port(void)
{
	const int start = (int)(getpid() % PORTS);

	for (int i = 0; i < PORTS; i++)
		if (is_free(PORTS_FIRST + (start + i) % PORTS))
			return PORTS_FIRST + (start + i) % PORTS;
	return PORTS_FIRST + start;
}

static bool make_spawn(struct run *run)
{
	run->spawn = (struct spawn){
		.options = &run->options,
		.inherited = &run->inherited,
		.store = run->address,
		.mark = run->mark,
		.master_port = choose_port(),
		.terminal = { run->job.sinks[0].terminal, run->job.sinks[1].terminal },
		.stdin_fd = -1,
	};
	return spawn_init(&run->spawn);
}

/* 0, or the exit status to end with; then some may have been started. */
static int start_ranks(struct run *run)
{
	int status = 0;

	for (int i = 0; i < run->options.ranks && status == 0; i++)
		status = loop_start_rank(&run->loop, i, false);
	spawn_hand_over(&run->spawn);
	return status;
}

/* A full disk is a failure of the job, a reader that has seen enough is not. */
static bool output_complete(const struct job *job)
{
	for (int i = 0; i < SPAWN_STREAMS; i++) {
		if (!job->sinks[i].error)
			continue;
		fprintf(stderr,
			"tutti-run: cannot write the standard %s of the ranks: %s; " OUTPUT_ADVICE
			"\n",
			i == 0 ? "output" : "error", strerror(job->sinks[i].error));
		return false;
	}
	return true;
}

/* The job's exit status does not depend on it. */
static void record_exits(const struct job *job)
{
	char directory[EXITS_PATH_BYTES];

	if (!exits_write(job, directory))
		fprintf(stderr,
			"tutti-run: cannot write to %s how the ranks ended (%s): tutti-trace will not know; "
			"TUTTI_TRACE names another directory\n",
			directory, strerror(errno));
}

static int run_ranks(struct run *run)
{
	int status = start_ranks(run);

	run->job.family_changed = true;
	if (status)
		job_kill(&run->job);
	loop_run(&run->loop);
	record_exits(&run->job);
	if (!status)
		status = job_status(&run->job);
	return output_complete(&run->job) || status ? status : RUN_FAILED;
}

static int run_job(struct run *run)
{
	int status = RUN_FAILED;

	if (!job_init(&run->job, &run->options)) {
		say_cannot("remember the ranks");
		return RUN_FAILED;
	}
	run->job.reaper = run->reaper.pid;
	run->job.exits.name = strchr(run->mark, '=') + 1;
	if (!make_spawn(run))
		goto finish_job;
	if (!open_store(run))
		goto finish_spawn;
	if (open_input(run)) {
		if (loop_init(&run->loop, &run->job, &run->spawn, &run->relay, run->signals))
			status = run_ranks(run);
		else
			say_cannot("watch for events");
		loop_finish(&run->loop);
	}
	tutti_store_close(run->job.store);
finish_spawn:
	spawn_finish(&run->spawn);
finish_job:
	job_finish(&run->job);
	return status;
}

static bool adopt_orphans(void)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 || say_cannot("adopt what ranks leave behind");
}

static int start(struct run *run)
{
	int status = RUN_FAILED;

	run->signals = signals_init(&run->inherited);
	if (run->signals < 0) {
		say_cannot("watch for signals");
		return RUN_FAILED;
	}
	/* before any thread exists, and before orphans of this process become its children */
	if (!reaper_start(&run->reaper, run->mark)) {
		say_cannot("start the process that cleans up");
		return RUN_FAILED;
	}
	if (adopt_orphans())
		status = run_job(run);
	reaper_stop(&run->reaper);
	return status;
}

int main(int argc, char **argv)
{
	struct run run = { 0 };
	int status = RUN_FAILED;

	sigaction(SIGXFSZ, NULL, &run.inherited.xfsz); /* before it is ignored */
	output_begin(RUN_FAILED);
	switch (options_parse(&run.options, argc, argv)) {
	case OPTIONS_DONE: status = 0; break;
	case OPTIONS_WRONG: break;
	case OPTIONS_RUN:
		if (make_names(&run) && make_key(&run) && raise_file_limit(&run))
			status = start(&run);
		break;
	}
	options_finish(&run.options);
	return status;
}
