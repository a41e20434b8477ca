/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the kernel says of itself and of a thread's namespaces. */
#include "machine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>

uint64_t tt_hash_text(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *text; text++) /* FNV-1a */
		h = (h ^ (uint8_t)*text) * 0x100000001b3u;
	return h;
}

/* The kernel's boot id; the host's name where there is none to be read. */
static uint64_t read_boot(void)
{
	char id[64] = "";
	struct utsname names;
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file) {
		if (!fgets(id, sizeof(id), file))
			id[0] = 0;
		fclose(file);
	}
	if (id[0])
		return tt_hash_text(id);
	return uname(&names) == 0 ? tt_hash_text(names.nodename) : 0;
}

/* Does not change, and takes as long to read as all else of this file. */
uint64_t tt_machine_boot(void)
{
	static _Atomic uint64_t known; /* relaxed: whoever reads it twice gets the same */
	uint64_t id = atomic_load_explicit(&known, memory_order_relaxed);

	if (!id) {
		id = read_boot();
		atomic_store_explicit(&known, id, memory_order_relaxed);
	}
	return id;
}

static uint64_t namespace(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

struct tt_machine tt_machine_here(void)
{
	return (struct tt_machine){ .boot = tt_machine_boot(),
				    .network = namespace("/proc/thread-self/ns/net"),
				    .processes = namespace("/proc/self/ns/pid") };
}
