/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of /proc/self/maps: "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0   [heap]"
 *
 * No fork() falls into a look, as the child would keep its descriptor. By a lock of its own: who
 * holds that of fork.h may be waiting for the thread that is told of changes (monitor.h), which
 * looks, too. */
#include "mappings.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#define HUGE_PATH "/anon_hugepage" /* what the kernel calls those of MAP_HUGETLB */

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

struct reader {
	int fd;
	char buffer[4096];
	ssize_t filled, at;
};

/* The next character, '\0' at the end. */
static char next(struct reader *r)
{
	if (r->at == r->filled) {
		r->filled = read(r->fd, r->buffer, sizeof(r->buffer));
		r->at = 0;
	}
	return r->filled > 0 ? r->buffer[r->at++] : '\0';
}

/* A hexadecimal number and the character behind it. */
static uint64_t number(struct reader *r)
{
	uint64_t value = 0;

	for (char c = next(r);; c = next(r)) {
		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return value;
	}
}

/* The rest of a line from `c` on: is it a path that begins like this? */
static bool read_path(struct reader *r, char c, const char *path)
{
	while (c != '\n' && c != '\0' && c != '/')
		c = next(r);
	for (; *path && c == *path; path++)
		c = next(r);
	while (c != '\n' && c != '\0')
		c = next(r);
	return *path == '\0';
}

static enum rdma_memory kind_of(const char rights[5], bool file, bool huge)
{
	if (rights[3] != 'p')
		return RDMA_SHARED;
	if (file)
		return huge ? RDMA_HUGE_PAGES : RDMA_OF_FILE;
	return rights[1] == 'w' ? RDMA_PLAIN : RDMA_CONSTANT;
}

static bool read_mapping(struct reader *r, struct rdma_mapping *out)
{
	char rights[5], c;

	out->begin = (uintptr_t)number(r);
	out->end = (uintptr_t)number(r);
	for (int i = 0; i < 5; i++)
		rights[i] = next(r);
	number(r);				 /* offset */
	number(r), number(r);			 /* device */
	for (c = next(r); c == '0'; c = next(r)) /* inode: 0 is none */
		;
	const bool file = c >= '1' && c <= '9', huge = read_path(r, c, HUGE_PATH);

	out->kind = kind_of(rights, file, huge);
	return out->end > 0;
}

static bool look(uintptr_t begin, uintptr_t end,
		 bool (*each)(const struct rdma_mapping *mapping, void *context), void *context)
{
	struct reader reader = { .fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC) };
	struct rdma_mapping mapping;

	if (reader.fd < 0)
		return false;
	while (read_mapping(&reader, &mapping) && mapping.begin < end)
		if (mapping.end > begin && !each(&mapping, context))
			break;
	close(reader.fd);
	return true;
}

bool tt_rdma_mappings(uintptr_t begin, uintptr_t end,
		      bool (*each)(const struct rdma_mapping *mapping, void *context),
		      void *context)
{
	pthread_mutex_lock(&looking);
	const bool checked = look(begin, end, each, context);

	pthread_mutex_unlock(&looking);
	return checked;
}

static void hold(void)
{
	pthread_mutex_lock(&looking);
}

static void let_go(void)
{
	pthread_mutex_unlock(&looking);
}

__attribute__((constructor)) static void mind_forks(void)
{
	pthread_atfork(hold, let_go, let_go); /* the child goes on in the thread that holds it */
}
