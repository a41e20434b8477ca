/* SPDX-License-Identifier: BSD-3-Clause */
/* What is claimed of the stand-in, in groups: each runs, and gives how many failed. */
#ifndef DRIVER_CLAIMS_H
#define DRIVER_CLAIMS_H

int claims_on_contexts(void);
int claims_on_memory(void);
int claims_on_streams(void);
int claims_on_events(void);
int claims_on_capture(void);
int claims_on_ranges(void);
int claims_on_processes(void);
int claims_on_kernels(void);
int claims_on_failures(void);

/* What this program is run again for, in place of its claims: exit statuses. */
int be_peer(const char *text);
int be_owner(void);
int be_apart(void);

#endif
