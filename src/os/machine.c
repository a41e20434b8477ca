/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the kernel says of itself and of a thread's namespaces. */
#include "machine.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "log.h"
#include "small_file.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

uint64_t tt_hash_text(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *text; text++) /* FNV-1a */
		h = (h ^ (uint8_t)*text) * 0x100000001b3u;
	return h;
}

/* The kernel's boot id; the host's name where there is none to be read. For want of descriptors
 * or memory it is neither, but 0 with errno: others of this machine have the id, and whoever
 * went by the name would be taken for one of another machine. */
static uint64_t read_boot(void)
{
	char id[64];
	struct utsname names;
	const int error = tt_small_file_read(BOOT_ID, id, sizeof(id));

	if (!error)
		return tt_hash_text(id);
	if (!tt_errno_is_shortage(error) && uname(&names) == 0)
		return tt_hash_text(names.nodename);
	errno = error;
	return 0;
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

void tt_machine_name(const struct tt_machine *machine, char out[TT_MACHINE_NAME])
{
	snprintf(out, TT_MACHINE_NAME, "%llx-%llx-%llx", (unsigned long long)machine->boot,
		 (unsigned long long)machine->network, (unsigned long long)machine->processes);
}

tutti_result_t tt_machine_here(struct tt_machine *out)
{
	const uint64_t boot = tt_machine_boot();

	if (!boot)
		return tt_fail_errno(COMM, "read " BOOT_ID);
	*out = (struct tt_machine){ .boot = boot,
				    .network = namespace("/proc/thread-self/ns/net"),
				    .processes = namespace("/proc/self/ns/pid") };
	return TUTTI_OK;
}
