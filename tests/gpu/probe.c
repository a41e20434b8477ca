/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints what CUDA's driver does on this machine where nobody documents it and the library's
 * design rests on it, as a table (docs/reference/gpu.md).
 *
 *   probe [--short] [KERNELS]
 *
 * KERNELS: the file of the library's kernels, whose loading is timed. --short: fewer streams and
 * bytes, to see that the questions can be asked, and 1 if one of them met an error. Otherwise
 * the exit status is 0, whatever the answers are; 77 where there is no GPU. */
#include "probe.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define BEGIN_S	   20 /* to start CUDA and get ready */
#define NAME_WIDTH 66
#define KILL_S	   5 /* a process that the driver keeps is left behind */

bool probe_short;
const char *probe_image;

/* What the process that answers says. */
static struct {
	atomic_int begun, failed;
	char text[160];
} * said;
static bool unasked; /* some question could not be asked */

void begun(void)
{
	atomic_store(&said->begun, 1);
}

void answer(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(said->text, sizeof(said->text), format, args);
	va_end(args);
}

const char *error_name(cuda_result error)
{
	const char *name = NULL;

	cu.get_error_name(error, &name);
	return name ? name : "an error without a name";
}

_Noreturn void end(void)
{
	_exit(0); /* CUDA's own end could wait for streams */
}

void must(const char *what, cuda_result error)
{
	if (!error)
		return;
	answer("%s: %s", what, error_name(error));
	atomic_store(&said->failed, 1);
	end();
}

/* True if it has ended before `until`, or else when it has begun, if that is waited for, too. */
static bool await_end(int pidfd, double until, bool or_begun)
{
	struct pollfd poller = { pidfd, POLLIN, 0 };

	while (seconds_now() < until && !(or_begun && atomic_load(&said->begun)))
		if (poll(&poller, 1, 10) > 0)
			return true;
	return false;
}

static void answer_in(pid_t pid, const struct question *question)
{
	const double patient = question->limit_s > 0 ? question->limit_s : 2,
		     limit = probe_short ? patient / 4 : patient;
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool ended = await_end(pidfd, seconds_now() + BEGIN_S, true);

	if (!ended && atomic_load(&said->begun))
		ended = await_end(pidfd, seconds_now() + limit, false);
	if (!ended) {
		kill(pid, SIGKILL);
		if (!said->text[0])
			snprintf(said->text, sizeof(said->text),
				 atomic_load(&said->begun) ? "blocks"
							   : "blocks before it is asked");
		ended = await_end(pidfd, seconds_now() + KILL_S, false);
	}
	close(pidfd);
	if (ended)
		waitpid(pid, NULL, 0);
	if (!said->text[0]) {
		snprintf(said->text, sizeof(said->text), "its process has ended without an answer");
		atomic_store(&said->failed, 1);
	}
	unasked = unasked || atomic_load(&said->failed);
}

static void ask(const struct question *question, const char *connections)
{
	*said->text = '\0';
	atomic_store(&said->begun, 0);
	atomic_store(&said->failed, 0);
	fflush(NULL);
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
		question->ask(question);
		end();
	}
	if (pid > 0) {
		answer_in(pid, question);
	} else {
		snprintf(said->text, sizeof(said->text), "not asked: no process could be made");
		unasked = true;
	}
}

static void ask_all(const struct question *question)
{
	static const char *const connections[] = { "1", "8", "32" };

	for (; question->name; question++) {
		printf("%-*s ", NAME_WIDTH, question->name);
		for (int i = 0; i < 3 && question->by_connections; i++) {
			ask(question, connections[i]);
			printf("%s: %s%s", connections[i], said->text, i < 2 ? "; " : "");
		}
		if (!question->by_connections) {
			ask(question, "32");
			printf("%s", said->text);
		}
		printf("\n");
		fflush(stdout);
	}
}

static void ask_gpu(const struct question *question)
{
	int count = 0, version = 0, multiprocessors = 0, mode = 0;
	cuda_device device;
	char name[96];

	begun();
	must("no GPU: cuInit", cu.init(0));
	must("no GPU: cuDeviceGetCount", cu.device_get_count(&count));
	if (count == 0) {
		answer("no GPU");
		end();
	}
	must("no GPU: cuDeviceGet", cu.device_get(&device, 0));
	cu.device_get_name(name, sizeof(name), device);
	cu.driver_get_version(&version);
	cu.device_get_attribute(&multiprocessors, CUDA_MULTIPROCESSORS, device);
	cu.device_get_attribute(&mode, CUDA_COMPUTE_MODE, device);
	answer("%s, %d multiprocessors, compute mode %d, driver for CUDA %d.%d", name,
	       multiprocessors, mode, version / 1000, version % 1000 / 10);
}

int main(int argc, char **argv)
{
	const struct question gpu = { .name = "GPU", .ask = ask_gpu, .limit_s = 20 };
	char why[512];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--short") == 0) {
			probe_short = true;
		} else if (argv[i][0] == '-') {
			fprintf(stderr, "usage: %s [--short] [KERNELS]\n", argv[0]);
			return 2;
		} else {
			probe_image = argv[i];
		}
	}
	if (!calls_open(why)) {
		printf("no GPU: %s\n", why);
		return 77;
	}
	said = shared_memory(sizeof(*said));
	ask(&gpu, "32");
	printf("%s\n", said->text);
	if (strncmp(said->text, "no GPU", 6) == 0)
		return 77;
	ask_all(probe_waits);
	ask_all(probe_shares);
	return probe_short && unasked;
}
