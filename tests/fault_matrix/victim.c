/* SPDX-License-Identifier: BSD-3-Clause */
#include "victim.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../held.h"
#include "harness.h"
#include "network.h"

#define DESCRIPTORS_MAX 1024
#define STACK_BYTES	(512u << 10)
#define ANSWERED                                                                                   \
	2 /* messages to the store of which the last has an answer when another is said: hello, a
	   * question … */
#define ATTENDS 5 /* … a wait for rank 0, and what the rank attends */

/* A block of the memory that is kept from everybody else. */
struct block {
	struct block *next;
};

static struct {
	const struct scene *scene;
	int rank;
	bool is_one;
	struct block *blocks;
	int fillers[DESCRIPTORS_MAX], nfillers;
	struct rlimit memory, descriptors; /* as they were */
} victim;

static _Thread_local bool counting;
static _Thread_local unsigned calls, calls_until;

/* Memory that is full must not end the process by a stack that cannot grow. */
static void grow_stack(void)
{
	volatile char capacity[STACK_BYTES];

	for (size_t i = 0; i < sizeof(capacity); i += 4096)
		capacity[i] = 1;
}

void victim_prepare(const struct scene *s, int rank)
{
	victim.scene = s;
	victim.rank = rank;
	victim.is_one = !s->rehearsal && case_victims(&s->c) >> rank & 1;
	if (victim.is_one)
		grow_stack();
}

bool victim_is_one(void)
{
	return victim.is_one;
}

static struct report *report(void)
{
	return &victim.scene->stage->report[victim.rank];
}

bool victim_has_fault(void)
{
	return atomic_load(&report()->fault_at) != 0;
}

/* ---- connections */

/* Both ways of ending one under its owner: with an end of the stream, or with a reset. As if
 * from outside: a sanitizer need not know that another thread may be using it. */
static void close_connection(int fd, bool reset)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage there;
	socklen_t n = sizeof(there);

	if (getpeername(fd, (struct sockaddr *)&there, &n) < 0)
		return;
	if (!reset || there.ss_family == AF_UNIX ||
	    syscall(SYS_connect, fd, &nobody, sizeof(nobody)) < 0)
		syscall(SYS_shutdown, fd, SHUT_RDWR);
}

static void close_connections(void)
{
	const bool reset = case_random(&victim.scene->c, victim.scene->seed, 1) & 1;

	for (int fd = 3; fd < DESCRIPTORS_MAX; fd++)
		close_connection(fd, reset);
}

static uint16_t port_of(const struct sockaddr_storage *at)
{
	return at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
					 : ((const struct sockaddr_in *)at)->sin_port;
}

/* Is it one with another rank? Between which ports? */
static bool is_link(int fd, uint16_t *here, uint16_t *there)
{
	struct sockaddr_storage own, peer;
	socklen_t own_length = sizeof(own), peer_length = sizeof(peer);

	if (getsockname(fd, (struct sockaddr *)&own, &own_length) < 0 || own.ss_family == AF_UNIX ||
	    getpeername(fd, (struct sockaddr *)&peer, &peer_length) < 0)
		return false;
	*here = port_of(&own);
	*there = port_of(&peer);
	return true;
}

void victim_list_links(void)
{
	struct report *r = report();
	uint16_t there;

	for (int fd = 3; fd < DESCRIPTORS_MAX && r->links < LINKS_MAX; fd++)
		r->links += is_link(fd, &r->ports[r->links], &there);
}

static bool is_at(int rank, uint16_t port)
{
	const struct report *r = &victim.scene->stage->report[rank];

	for (int i = 0; i < r->links; i++)
		if (r->ports[i] == port)
			return true;
	return false;
}

static void cut_link(void)
{
	int left = (int)(case_random(&victim.scene->c, victim.scene->seed, 1) %
			 (uint64_t)report()->links);
	uint16_t here, there;

	for (int fd = 3; fd < DESCRIPTORS_MAX; fd++) {
		if (!is_link(fd, &here, &there) || left-- > 0)
			continue;
		for (int rank = 0; rank < RANKS_MAX; rank++)
			if (rank != victim.rank && is_at(rank, there))
				report()->cut_off = rank;
		close_connection(fd, true); /* shut down alone, it still delivers what comes */
		return;
	}
}

/* ---- memory */

/* No more from the kernel, and all that the allocator still has. */
static void fill_memory(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_AS, &victim.memory);
	limit = victim.memory;
	limit.rlim_cur = bytes_held(HELD_ADDRESSES);
	setrlimit(RLIMIT_AS, &limit);
	for (size_t size = 1u << 20; size >= sizeof(struct block); size /= 2)
		for (struct block *block; (block = malloc(size));) {
			block->next = victim.blocks;
			victim.blocks = block;
		}
}

static void free_memory(void)
{
	setrlimit(RLIMIT_AS, &victim.memory);
	while (victim.blocks) {
		struct block *block = victim.blocks;

		victim.blocks = block->next;
		free(block);
	}
}

/* ---- descriptors */

static void fill_descriptors(void)
{
	struct rlimit limit;
	int top = 2, fd;

	for (int i = 0; i < DESCRIPTORS_MAX; i++)
		if (fcntl(i, F_GETFD) >= 0)
			top = i;
	getrlimit(RLIMIT_NOFILE, &victim.descriptors);
	limit = victim.descriptors;
	limit.rlim_cur = (rlim_t)top + 1;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (victim.nfillers < DESCRIPTORS_MAX && (fd = fcntl(2, F_DUPFD_CLOEXEC, 3)) >= 0)
		victim.fillers[victim.nfillers++] = fd;
}

static void free_descriptors(void)
{
	setrlimit(RLIMIT_NOFILE, &victim.descriptors);
	while (victim.nfillers)
		close(victim.fillers[--victim.nfillers]);
}

/* ---- what the store knows */

static bool has_attended(void)
{
	bool known = atomic_load(&report()->messages) > ATTENDS;

	const bool hosts = victim.rank == 0 && !phases[victim.scene->c.phase].served;

	for (int rank = 0; rank < case_members(&victim.scene->c) && hosts; rank++)
		known &= atomic_load(&victim.scene->stage->report[rank].messages) > ANSWERED;
	return known;
}

void victim_message_is_said(void)
{
	if (victim.scene)
		atomic_fetch_add(&report()->messages, 1);
}

/* ---- all of them */

static void stop(void)
{
	raise(SIGSTOP);
	atomic_store(&report()->continued, true);
}

void victim_fault(void)
{
	if (victim_has_fault())
		return;
	report()->attended = has_attended();
	atomic_store(&report()->fault_at, seconds_now());
	switch ((enum fault)victim.scene->c.fault) {
	case FAULT_KILL: raise(SIGKILL); break;
	case FAULT_STOP: stop(); break;
	case FAULT_EXIT: exit(0);
	case FAULT_CLOSED: close_connections(); break;
	case FAULT_CUT: cut_link(); break;
	case FAULT_UNPLUGGED: network_unplug(); break;
	case FAULT_MEMORY: fill_memory(); break;
	case FAULT_DESCRIPTORS: fill_descriptors(); break;
	case FAULT_LEAVE:
	case FAULT_ABORT: /* the player's, who has the communicator */
	case FAULT_COUNT: break;
	}
}

void victim_relieve(void)
{
	if (!victim.is_one || !victim_has_fault())
		return;
	if (victim.scene->c.fault == FAULT_MEMORY)
		free_memory();
	if (victim.scene->c.fault == FAULT_DESCRIPTORS)
		free_descriptors();
}

/* ---- at a call of the system */

void victim_count_calls(unsigned at)
{
	calls = 0;
	calls_until = at;
	counting = true;
}

unsigned victim_stop_counting(void)
{
	counting = false;
	return calls;
}

void victim_call_is_made(void)
{
	if (!counting || ++calls != calls_until)
		return;
	counting = false; /* what the fault itself calls does not count */
	victim_fault();
}
