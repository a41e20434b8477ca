/* SPDX-License-Identifier: BSD-3-Clause */
/* A dma-buf of ordinary memory, of a driver that needs no device: udmabuf, or vgem. */
#ifndef TEST_DMABUF_H
#define TEST_DMABUF_H

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#if __has_include(<drm.h>)
#include <drm.h>
#include <drm_mode.h>
#endif

static inline int udmabuf_of(int memory, size_t bytes)
{
	struct udmabuf_create wanted = { .memfd = (unsigned)memory,
					 .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = bytes };
	const int driver = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd = -1;

	if (driver >= 0 && ftruncate(memory, (off_t)bytes) == 0 &&
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
		fd = ioctl(driver, UDMABUF_CREATE, &wanted);
	if (driver >= 0)
		close(driver);
	return fd;
}

static inline int udmabuf_make(size_t bytes)
{
	const int memory = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING),
		  fd = udmabuf_of(memory, bytes);

	close(memory);
	return fd;
}

#if __has_include(<drm.h>)
#define CARDS_MAX 16

/* A picture of one row. */
static inline int vgem_of(int card, size_t bytes)
{
	char name[8] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
	struct drm_mode_create_dumb picture = { .width = (unsigned)bytes / 4,
						.height = 1,
						.bpp = 32 };
	struct drm_prime_handle given = { .flags = DRM_CLOEXEC | DRM_RDWR };

	if (ioctl(card, DRM_IOCTL_VERSION, &version) < 0 || strcmp(name, "vgem") != 0 ||
	    ioctl(card, DRM_IOCTL_MODE_CREATE_DUMB, &picture) < 0)
		return -1;
	given.handle = picture.handle;
	return ioctl(card, DRM_IOCTL_PRIME_HANDLE_TO_FD, &given) < 0 ? -1 : given.fd;
}

static inline int vgem_make(size_t bytes)
{
	char path[32];
	int fd = -1;

	for (int i = 0; i < CARDS_MAX && fd < 0; i++) {
		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		const int card = open(path, O_RDWR | O_CLOEXEC);

		if (card >= 0) {
			fd = vgem_of(card, bytes);
			close(card);
		}
	}
	return fd;
}

#else
static inline int vgem_make(size_t bytes)
{
	return -1;
}
#endif

/* -1: there is neither driver here. */
static inline int dmabuf_make(size_t bytes)
{
	const int fd = udmabuf_make(bytes);

	return fd >= 0 ? fd : vgem_make(bytes);
}

/* What others have written there is read between these. */
static inline void dmabuf_look(int fd, bool begin)
{
	struct dma_buf_sync sync = { DMA_BUF_SYNC_READ |
				     (begin ? DMA_BUF_SYNC_START : DMA_BUF_SYNC_END) };

	assert_int_equal(ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync), 0);
}

#endif
