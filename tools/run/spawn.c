/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way from fork() to exec() of a rank: where it is started, and what it reads and writes.
 *
 * Each rank leads a process group of its own, dies with tutti-run, and has back what tutti-run
 * changed for itself (signals, limits). Its output goes into a pipe, or into a pseudo terminal
 * where the output of tutti-run is a terminal, so that programs show there what they show on a
 * terminal. A replacement runs where the failed rank ran; it reads nothing, since what was typed or
 * piped so far is gone with that rank. Between fork() and exec() only async-signal-safe calls are made: the store's threads
 * may hold any lock. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "proc.h"
#include "spawn.h"

/* What the new process tells when it cannot become the program; nothing on success. */
struct complaint {
	int error;
	bool exec; /* it was exec() that failed */
};

struct birth {
	pid_t parent;
	int stdin_fd;
	int outputs[SPAWN_STREAMS];
	int complaint_fd;
	char **env;
};

static bool open_pipe(int *read_end, int *write_end)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	*read_end = ends[0];
	*write_end = ends[1];
	return true;
}

/* A pseudo terminal that passes bytes as they are. */
static bool open_terminal(int *read_end, int *write_end)
{
	char name[64];
	struct termios raw;

	*read_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*read_end < 0)
		return false;
	if (unlockpt(*read_end) < 0 || ptsname_r(*read_end, name, sizeof(name)) != 0)
		goto close_read_end;
	*write_end = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*write_end < 0)
		goto close_read_end;
	if (tcgetattr(*write_end, &raw) < 0)
		goto close_write_end;
	cfmakeraw(&raw);
	if (tcsetattr(*write_end, TCSANOW, &raw) < 0)
		goto close_write_end;
	return true;
close_write_end:
	close(*write_end);
close_read_end:
	close(*read_end);
	return false;
}

static void say_pipes(struct spawn *spawn)
{
	if (!spawn->pipes_said)
		fprintf(stderr,
			"tutti-run: cannot open a pseudo terminal: %s; ranks write into pipes, as if the output were a "
			"file: it may come late, and plain\n",
			strerror(errno));
	spawn->pipes_said = true;
}

/* Bare containers have no pseudo terminals: there the ranks get pipes. */
static bool open_stream(struct spawn *spawn, int stream, int *read_end, int *write_end)
{
	if (spawn->terminal[stream]) {
		if (open_terminal(read_end, write_end))
			return true;
		say_pipes(spawn);
	}
	return open_pipe(read_end, write_end);
}

static void copy_window_size(int to)
{
	struct winsize size;

	for (int fd = 1; fd <= 2; fd++)
		if (ioctl(fd, TIOCGWINSZ, &size) == 0 && ioctl(to, TIOCSWINSZ, &size) == 0)
			return;
}

static void close_streams(int count, const int *read_ends, const int *write_ends)
{
	for (int i = 0; i < count; i++) {
		close(read_ends[i]);
		close(write_ends[i]);
	}
}

static bool open_streams(struct spawn *spawn, int *read_ends, int *write_ends)
{
	for (int i = 0; i < SPAWN_STREAMS; i++) {
		if (!open_stream(spawn, i, &read_ends[i], &write_ends[i])) {
			close_streams(i, read_ends, write_ends);
			return false;
		}
		if (spawn->terminal[i])
			copy_window_size(write_ends[i]);
		fcntl(read_ends[i], F_SETFL, O_NONBLOCK);
	}
	return true;
}

static void give_back(const struct inherited *inherited)
{
	sigaction(SIGPIPE, &inherited->pipe, NULL);
	sigaction(SIGXFSZ, &inherited->xfsz, NULL);
	sigaction(SIGTTIN, &inherited->ttin, NULL);
	sigaction(SIGTTOU, &inherited->ttou, NULL);
	setrlimit(RLIMIT_NOFILE, &inherited->files);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

/* In the new process: become the program, or complain. */
__attribute__((noreturn)) static void become(const struct spawn *spawn, const struct birth *birth)
{
	struct complaint complaint = { 0 };
	bool ok = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;

	/* whoever lost its parent before the line above gets no signal any more */
	if (getppid() != birth->parent)
		_exit(RUN_FAILED);
	ok = ok && dup2(birth->stdin_fd, 0) == 0;
	for (int i = 0; i < SPAWN_STREAMS; i++)
		ok = ok && dup2(birth->outputs[i], i + 1) == i + 1;
	if (ok) {
		give_back(spawn->inherited);
		execvpe(spawn->options->program[0], spawn->options->program, birth->env);
		complaint.exec = true;
	}
	complaint.error = errno;
	while (write(birth->complaint_fd, &complaint, sizeof(complaint)) < 0 && errno == EINTR)
		continue;
	_exit(RUN_FAILED);
}

static int say_not_started(const char *program, const struct complaint *complaint)
{
	const int error = complaint->error;

	if (!complaint->exec) {
		fprintf(stderr, "tutti-run: cannot prepare the process of a rank: %s\n",
			strerror(error));
		return RUN_FAILED;
	}
	if (error != ENOENT && error != ENOTDIR) {
		fprintf(stderr, "tutti-run: cannot execute \"%s\": %s%s\n", program,
			strerror(error),
			error == EACCES || error == ENOEXEC
				? "; expected an executable file (chmod +x) for this machine"
				: "");
		return RUN_NOT_EXECUTABLE;
	}
	if (!strchr(program, '/'))
		fprintf(stderr,
			"tutti-run: \"%s\" is in no directory of PATH: expected a program, or a "
			"path such "
			"as ./%s\n",
			program, program);
	else if (access(program, F_OK) == 0)
		fprintf(stderr,
			"tutti-run: \"%s\" is there, but not the interpreter its first line "
			"names\n",
			program);
	else
		fprintf(stderr,
			"tutti-run: \"%s\" does not exist: expected the path of a program\n",
			program);
	return RUN_NOT_FOUND;
}

/* Wait until the process has become the program (the end of file) or has complained. */
static int await_exec(const struct spawn *spawn, pid_t pid, int fd)
{
	struct complaint complaint;
	ssize_t got;

	while ((got = read(fd, &complaint, sizeof(complaint))) < 0 && errno == EINTR)
		continue;
	if (got != (ssize_t)sizeof(complaint))
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	return say_not_started(spawn->options->program[0], &complaint);
}

static int say_cannot(const char *what)
{
	fprintf(stderr, "tutti-run: cannot %s: %s; fewer ranks (-n) need less\n", what,
		strerror(errno));
	return RUN_FAILED;
}

/* Fork with the environment and streams made ready; 0 or an exit status. */
static int give_birth(const struct spawn *spawn, struct birth *birth, struct process *process)
{
	int complaints[2];
	int status;

	if (pipe2(complaints, O_CLOEXEC) < 0)
		return say_cannot("make a pipe");
	birth->complaint_fd = complaints[1];
	birth->parent = getpid();
	process->pid = fork();
	if (process->pid == 0)
		become(spawn, birth);
	close(complaints[1]);
	if (process->pid < 0) {
		close(complaints[0]);
		return say_cannot("start a process");
	}
	status = await_exec(spawn, process->pid, complaints[0]);
	close(complaints[0]);
	if (status)
		return status;
	process->pidfd = proc_open(process->pid);
	if (process->pidfd >= 0 || proc_is_unknown(errno))
		return 0;
	status = say_cannot("watch a process");
	kill(-process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	return status;
}

static int start_here(struct spawn *spawn, const struct seat *seat, struct process *process)
{
	struct birth birth = { .stdin_fd = seat->rank == 0 && !seat->joins ? spawn->stdin_fd
									   : spawn->null_fd };
	int status;

	birth.env = environment_of_rank(spawn, seat);
	if (!birth.env)
		return say_cannot("make the environment of a rank");
	if (open_streams(spawn, process->streams, birth.outputs)) {
		status = give_birth(spawn, &birth, process);
		for (int i = 0; i < SPAWN_STREAMS; i++) {
			close(birth.outputs[i]);
			if (status)
				close(process->streams[i]);
		}
	} else {
		status = say_cannot("open the streams of a rank");
	}
	environment_free(birth.env);
	return status;
}

int spawn_rank(struct spawn *spawn, const struct seat *seat, struct process *process)
{
	int status;

	if (!binder_enter(&spawn->binder, seat->rank, spawn->options->ranks)) {
		fprintf(stderr, "tutti-run: cannot bind a rank (--bind none does without): %s\n",
			strerror(errno));
		return RUN_FAILED;
	}
	status = start_here(spawn, seat, process);
	binder_leave(&spawn->binder);
	return status;
}

bool spawn_init(struct spawn *spawn)
{
	spawn->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (spawn->null_fd < 0) {
		fprintf(stderr, "tutti-run: cannot open /dev/null: %s\n", strerror(errno));
		return false;
	}
	if (binder_init(&spawn->binder, spawn->options->bind))
		return true;
	close(spawn->null_fd);
	return false;
}

void spawn_hand_over(struct spawn *spawn)
{
	if (spawn->stdin_fd > STDIN_FILENO)
		close(spawn->stdin_fd);
	spawn->stdin_fd = -1;
}

void spawn_finish(struct spawn *spawn)
{
	spawn_hand_over(spawn);
	binder_finish(&spawn->binder);
	close(spawn->null_fd);
}
