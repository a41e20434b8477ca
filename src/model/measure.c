/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the measuring of a machine: short trials on two threads, each bound to a core, which give
 * up when time is over. Of the trials of a step the shortest counts, as nothing but disturbance
 * makes one longer. */
#include "measure.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels.h"
#include "log.h"
#include "small_file.h"
#include "transport.h"

#define TRIALS	     30
#define ROUNDS	     50			       /* to and fro in a trial */
#define VECTOR_BYTES (128 * 1024)	       /* fits any second-level cache */
#define ROOM_BYTES   (2 * VECTOR_BYTES + 4096) /* for two vectors and a line of its own */
#define STREAM_BYTES (64 * 1024)
#define LIMIT_NS     25000000 /* for two threads; what one does alone cannot wait */

/* Two threads and what passes between them. */
struct pair {
	_Atomic uint32_t *turn;	 /* in a line of its own; counts hand-overs, half 0 acts on even
				  * turns. See await() */
	uint8_t *written, *read; /* vectors */
	int cpu[2];		 /* two cores, or twice the same one */
	uint64_t deadline;
	double step, byte; /* the least of half 1's trials; 0: none ended */
};

struct half {
	struct pair *pair;
	uint32_t me;
};

static void keep_least(double *least, double seconds)
{
	if (*least == 0 || seconds < *least)
		*least = seconds;
}

/* ---- two threads in turn */

/* Wait for a turn, spinning, or yielding where both halves have one core; false: too late. */
static bool await(struct pair *pair, uint32_t turn)
{
	/* acquire: pairs with the release in hand_over() */
	for (uint32_t looks = 1; atomic_load_explicit(pair->turn, memory_order_acquire) < turn;
	     looks++) {
		const bool together = pair->cpu[0] == pair->cpu[1];

		if (together)
			sched_yield();
		/* a yield may cost a whole slice of somebody else's time */
		if ((together || looks % 256 == 0) && tt_now() > pair->deadline)
			return false;
	}
	return true;
}

static void hand_over(struct pair *pair, uint32_t turn)
{
	/* release: pairs with the acquire in await() */
	atomic_store_explicit(pair->turn, turn, memory_order_release);
}

static double since(uint64_t start)
{
	return (double)(tt_now() - start) / 1e9;
}

/* ROUNDS hand-overs to the other half and back; the seconds of one, or 0. */
static double to_and_fro(const struct half *half, uint32_t *turn)
{
	const uint64_t start = tt_now();

	for (int i = 0; i < ROUNDS; i++, *turn += 2) {
		if (!await(half->pair, *turn + half->me))
			return 0;
		hand_over(half->pair, *turn + half->me + 1);
	}
	return since(start) / (2 * ROUNDS);
}

/* Half 0 writes a vector, half 1 copies it; the seconds that a byte took this half, or 0. */
static double write_and_read(const struct half *half, uint32_t *turn)
{
	struct pair *pair = half->pair;

	if (!await(pair, *turn + half->me))
		return 0;
	const uint64_t start = tt_now();
	if (half->me == 0)
		memset(pair->written, (int)*turn, VECTOR_BYTES);
	else
		memcpy(pair->read, pair->written, VECTOR_BYTES);
	const double seconds = since(start) / VECTOR_BYTES;
	hand_over(pair, *turn + half->me + 1);
	*turn += 2;
	return seconds;
}

static void *run_half(void *argument)
{
	const struct half *half = argument;
	struct pair *pair = half->pair;
	uint32_t turn = 0;

	for (int trial = 0; trial < TRIALS; trial++) {
		const double step = to_and_fro(half, &turn),
			     byte = step ? write_and_read(half, &turn) : 0;

		if (!byte || tt_now() > pair->deadline)
			break;
		if (half->me == 1) {
			keep_least(&pair->step, step);
			keep_least(&pair->byte, byte);
		}
	}
	return NULL;
}

/* A new thread may run where the one may that makes it. */
static bool start_half(const struct pair *pair, struct half *half, pthread_t *thread)
{
	cpu_set_t own, one;

	CPU_ZERO(&one);
	CPU_SET(pair->cpu[half->me], &one);
	if (sched_getaffinity(0, sizeof(own), &own) < 0 ||
	    sched_setaffinity(0, sizeof(one), &one) < 0)
		return false;
	const bool started = pthread_create(thread, NULL, run_half, half) == 0;
	sched_setaffinity(0, sizeof(own), &own);
	return started;
}

/* False: no trial ended. */
static bool run_pair(struct pair *pair)
{
	struct half halves[2] = { { pair, 0 }, { pair, 1 } };
	pthread_t threads[2];

	atomic_store_explicit(pair->turn, 0, memory_order_relaxed); /* the threads are not there */
	pair->step = pair->byte = 0;
	pair->deadline = tt_now() + LIMIT_NS;
	if (!start_half(pair, &halves[0], &threads[0]))
		return false;
	if (start_half(pair, &halves[1], &threads[1]))
		pthread_join(threads[1], NULL);
	pthread_join(threads[0], NULL);
	return pair->step > 0;
}

int tt_measure_cpus(cpu_set_t *cpus)
{
	cpu_set_t own, all;

	memset(&all, 0xff, sizeof(all));
	if (sched_getaffinity(0, sizeof(own), &own) < 0)
		return 0;
	/* the kernel cuts this down to what the process may ever use */
	sched_setaffinity(0, sizeof(all), &all);
	const bool known = sched_getaffinity(0, sizeof(*cpus), cpus) == 0;
	sched_setaffinity(0, sizeof(own), &own);
	return known ? CPU_COUNT(cpus) : 0;
}

/* The lowest of the processors that are threads of the same core. */
static int core_of(int cpu)
{
	char path[80], line[16];
	int lowest;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
		 cpu);
	return tt_small_file_read(path, line, sizeof(line)) == 0 && sscanf(line, "%d", &lowest) == 1
		       ? lowest
		       : cpu;
}

/* Processors of two cores; how many there are. */
static int find_cores(int cpus[2])
{
	cpu_set_t set;
	int found = 0;

	if (tt_measure_cpus(&set) == 0)
		return 0;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &set) && (found == 0 || core_of(cpu) != core_of(cpus[0])))
			cpus[found++] = cpu;
	return found;
}

static bool measure_threads(struct tt_model *model, uint8_t *vectors)
{
	struct pair pair = {
		.turn = (_Atomic uint32_t *)(vectors + 2 * VECTOR_BYTES),
		.written = vectors,
		.read = vectors + VECTOR_BYTES,
	};
	const int cores = find_cores(pair.cpu);

	if (cores == 0)
		return false;
	if (cores == 2) {
		if (!run_pair(&pair))
			return false;
		model->line = pair.step;
		model->copy = pair.byte;
	}
	pair.cpu[1] = pair.cpu[0];
	if (!run_pair(&pair))
		return false;
	model->handover = pair.step;
	return true;
}

/* ---- one thread */

static void measure_reduce(struct tt_model *model, uint8_t *vectors)
{
	tt_reduce_fn *const sum = tt_kernels()->reduce[TUTTI_SUM][TUTTI_FLOAT32];
	const void *const sources[2] = { vectors, vectors + VECTOR_BYTES };
	double least = 0;

	memset(vectors, 0, 2 * VECTOR_BYTES);
	for (int trial = 0; trial < TRIALS; trial++) {
		const uint64_t start = tt_now();

		sum(vectors, sources, 2, VECTOR_BYTES / sizeof(float));
		keep_least(&least, since(start) / VECTOR_BYTES);
	}
	model->reduce = least;
}

/* Two connected sockets on the loopback interface; false where there is none. */
static bool connect_loopback(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	const struct timeval limit = { .tv_usec = LIMIT_NS / 1000 };
	const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ends[1] = -1;
	/* a packet filter may swallow what it likes; the accepted socket inherits the listener's
	 * limit */
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0 &&
	    getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
	    connect(ends[0], (struct sockaddr *)&address, length) == 0)
		ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	if (ends[1] < 0) {
		close(ends[0]);
		return false;
	}
	setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return true;
}

/* The least seconds of a send and the receive of its bytes; 0: it failed. */
static double send_and_receive(const int ends[2], uint8_t *bytes, size_t length)
{
	double least = 0;

	for (int trial = 0; trial < TRIALS; trial++) {
		const uint64_t start = tt_now();

		if (send(ends[0], bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)length ||
		    recv(ends[1], bytes, length, MSG_WAITALL) != (ssize_t)length)
			return 0;
		keep_least(&least, since(start));
	}
	return least;
}

static bool measure_tcp(struct tt_model *model, uint8_t *bytes)
{
	int ends[2];

	if (!connect_loopback(ends))
		return false;
	const double brief = send_and_receive(ends, bytes, 8);
	const double lengthy = brief ? send_and_receive(ends, bytes, STREAM_BYTES) : 0;
	if (lengthy > brief) {
		model->message = brief;
		model->stream = (lengthy - brief) / STREAM_BYTES;
	}
	close(ends[0]);
	close(ends[1]);
	return lengthy > brief;
}

bool tt_measure(struct tt_model *model)
{
	uint8_t *vectors = aligned_alloc(4096, ROOM_BYTES);
	sigset_t all, before;

	if (!vectors)
		return false;
	memset(vectors, 0, ROOM_BYTES);
	/* the program's signals are for its own threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const bool threads = measure_threads(model, vectors), tcp = measure_tcp(model, vectors);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	measure_reduce(model, vectors);
	free(vectors);
	return threads && tcp;
}
