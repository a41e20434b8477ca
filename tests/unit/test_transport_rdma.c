/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on RDMA, where this machine has a device: tests/rdma has
 * hosts with one. The kernel is asked whether anything of a device is left afterwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter.h"
#include "rdma.h"
#include "registration.h"
#include "test_rdma_claims.h"
#include "test_rdma_held.h"
#include "test_rdma_port.h"

static const char *device;
static struct rdma_adapter *kept;
static pid_t reaper;

/* The device stays open in between: closing it would give back what had been forgotten. */
static void held(char *out, size_t capacity)
{
	if (reaper != getpid() && tt_rdma_adapter_get(device, &kept)) {
		fprintf(stderr, "%s\n", tt_thread_error());
		abort();
	}
	reaper = getpid();
	/* callers' memory may stay registered as long as the device is open, if nobody uses it
	 * any more */
	tt_rdma_registrations_close(kept);
	tt_rdma_registrations_open(kept);
	rdma_held(out, capacity);
}

/* Of the kernel's word, without which no leak would have been noticed. */
static int expect(const char *what, const char *expected)
{
	char found[256];

	rdma_held(found, sizeof(found));
	if (strcmp(found, expected) == 0)
		return 0;
	fprintf(stderr, "of %s the kernel tells \"%s\", expected \"%s\"\n", what, found, expected);
	return 1;
}

int main(void)
{
	static const struct suite_claim *const own[] = { rdma_claims, NULL };
	const struct suite_options options = { .threads = true, .processes = true, .held = held };
	struct rdma_port port;
	const int none = find_port(&port);

	if (none)
		return none;
	device = port.device;
	int failed = transport_suite_run(&tt_transport_rdma, &options);
	failed += suite_run_claims(own, &tt_transport_rdma, &options);
	failed += expect("an open device", "1 contexts, 1 protection domains");
	tt_rdma_adapter_put(kept);
	return failed + expect("a closed device", "nothing");
}
