/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the files of this process's arenas, and its lock on each, by which others see that it lives.
 *
 * The kernel frees a process's record locks (fcntl(2), F_SETLK) when the process ends or executes
 * a program. A child that has copies of the descriptors does not have the locks. Closing any of its
 * descriptors of a file costs a process all of its locks on the file. So ranks that are threads of
 * one process share one descriptor of their arena, which is closed with the last of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena_file.h"
#include "fork.h"

struct arena_file {
	struct arena_file *next;
	uint32_t forks; /* a child has its parent's list, and none of the descriptors in it */
	dev_t device;
	ino_t inode;
	int fd;
	int users;
};

static struct arena_file *first; /* under tt_fd_hold() */

/* Of each process its own; a lock needs no byte in the file. */
static struct flock byte_of(int pid)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1
	};
}

static struct arena_file *find(const struct stat *info)
{
	struct arena_file *file = first;

	while (file && (file->forks != tt_forks || file->device != info->st_dev ||
			file->inode != info->st_ino))
		file = file->next;
	return file;
}

static struct arena_file *add(int fd, const struct stat *info)
{
	struct arena_file *file = malloc(sizeof(*file));

	if (!file)
		return NULL;
	*file = (struct arena_file){ first, tt_forks, info->st_dev, info->st_ino, fd, 0 };
	first = file;
	return file;
}

/* Under tt_fd_hold(). The process's descriptor of the file; -1 with errno, and `fd` is closed. */
static int share(int fd)
{
	struct arena_file *file = NULL;
	struct stat info;

	if (fstat(fd, &info) == 0) {
		file = find(&info);
		if (!file)
			file = add(fd, &info);
	}
	if (!file || file->fd != fd) {
		tt_fd_forget(fd);
		close(fd);
	}
	if (!file)
		return -1;
	file->users++;
	return file->fd;
}

int shm_file_take(int fd)
{
	struct flock lock = byte_of((int)getpid());

	tt_fd_hold();
	const int shared = share(fd);
	tt_fd_let_go();
	if (shared >= 0 && fcntl(shared, F_SETLK, &lock) < 0) {
		shm_file_drop(shared);
		return -1;
	}
	return shared;
}

void shm_file_drop(int fd)
{
	const int saved = errno;
	struct arena_file **at = &first, *file;

	tt_fd_hold();
	while ((*at)->forks != tt_forks || (*at)->fd != fd)
		at = &(*at)->next;
	file = *at;
	if (--file->users == 0) {
		*at = file->next;
		tt_fd_forget(fd);
		close(fd);
		free(file);
	}
	tt_fd_let_go();
	errno = saved;
}

bool shm_file_is_held(int fd, int pid)
{
	struct flock lock = byte_of(pid);

	return fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}
