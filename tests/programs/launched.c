/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the starting of programs under test and the collecting of what they write. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../patience.h"
#include "launched.h"

#define PATIENCE_S ((int)bound_s(60))

static void become(const char *const argv[], int in, const int *outs)
{
	sigset_t none;

	/* nothing of the test's own surroundings: shells start background jobs with SIGINT ignored
	 */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in, 0);
	dup2(outs[0], 1);
	dup2(outs[1], 2);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(125);
}

void launched_start(struct launched *launched, const char *const argv[])
{
	int in[2], out[2], err[2];

	memset(launched, 0, sizeof(*launched));
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	launched->pid = fork();
	assert_true(launched->pid >= 0);
	if (launched->pid == 0)
		become(argv, in[0], (int[]){ out[1], err[1] });
	close(in[0]);
	close(out[1]);
	close(err[1]);
	launched->in = in[1];
	launched->fds[0] = out[0];
	launched->fds[1] = err[0];
	for (int i = 0; i < 2; i++)
		launched->texts[i].bytes = calloc(1, 1);
}

static void collect(struct launched *launched, int stream)
{
	struct text *text = &launched->texts[stream];
	char bytes[65536];
	const ssize_t got = read(launched->fds[stream], bytes, sizeof(bytes));

	if (got <= 0) {
		close(launched->fds[stream]);
		launched->fds[stream] = -1;
		return;
	}
	text->bytes = realloc(text->bytes, text->length + (size_t)got + 1);
	assert_non_null(text->bytes);
	memcpy(text->bytes + text->length, bytes, (size_t)got);
	text->length += (size_t)got;
	text->bytes[text->length] = '\0';
}

/* cmocka cuts a long text. */
void launched_fail(const struct launched *launched, const char *format, ...)
{
	char text[256];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	fprintf(stderr, "stdout:\n%s\nstderr:\n%s\n", launched_out(launched),
		launched_err(launched));
	fail_msg("%s", text);
}

/* Wait for more output of either stream. */
static void collect_some(struct launched *launched, const struct timespec *start)
{
	struct pollfd fds[2];
	struct timespec now;

	for (int i = 0; i < 2; i++)
		fds[i] = (struct pollfd){ .fd = launched->fds[i], .events = POLLIN };
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec - start->tv_sec > PATIENCE_S) {
		kill(launched->pid, SIGTERM);
		launched_fail(launched, "no end after %d s", PATIENCE_S);
	}
	poll(fds, 2, 1000);
	for (int i = 0; i < 2; i++)
		if (fds[i].fd >= 0 && fds[i].revents)
			collect(launched, i);
}

void launched_await(struct launched *launched, int stream, const char *text, int times)
{
	struct timespec start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (count_of(launched->texts[stream].bytes, text) < times) {
		if (launched->fds[stream] < 0)
			launched_fail(launched, "the end came before %d times \"%s\"", times, text);
		collect_some(launched, &start);
	}
}

void launched_close_input(struct launched *launched)
{
	if (launched->in >= 0)
		close(launched->in);
	launched->in = -1;
}

int launched_finish(struct launched *launched)
{
	struct timespec start;

	launched_close_input(launched);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (launched->fds[0] >= 0 || launched->fds[1] >= 0)
		collect_some(launched, &start);
	while (waitpid(launched->pid, &launched->status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return WIFEXITED(launched->status) ? WEXITSTATUS(launched->status)
					   : 128 + WTERMSIG(launched->status);
}

void launched_free(struct launched *launched)
{
	free(launched->texts[0].bytes);
	free(launched->texts[1].bytes);
}

int launched_run(struct launched *launched, const char *const argv[])
{
	launched_start(launched, argv);
	return launched_finish(launched);
}

void assert_narrow(const char *text)
{
	const char *line = text;
	int columns = 0;

	for (const char *at = text; *at; at++) {
		if (*at == '\n') {
			line = at + 1;
			columns = 0;
		} else if (*line != '{') {
			columns += ((unsigned char)*at & 0xc0) !=
				   0x80; /* UTF-8: where a character begins */
		}
		if (columns > 100)
			fail_msg("more than 100 columns: %.*s", (int)strcspn(line, "\n"), line);
	}
}

int count_of(const char *text, const char *part)
{
	const size_t length = strlen(part);
	int count = 0;

	/* not strstr(): under the address sanitizer each call looks at all of the text */
	for (const char *at = text; (at = strchrnul(at, *part)) && *at;) {
		const bool found = strncmp(at, part, length) == 0;

		count += found;
		at += found ? length : 1;
	}
	return count;
}

int numbers_after(const char *text, const char *key, long *numbers, int capacity)
{
	int count = 0;

	for (const char *at = text; count < capacity && (at = strstr(at, key));) {
		at += strlen(key);
		numbers[count++] = strtol(at, NULL, 10);
	}
	return count;
}
