/* SPDX-License-Identifier: BSD-3-Clause */
/* What is claimed of the stand-in, in groups: each runs, and gives how many failed. */
#ifndef DRIVER_CLAIMS_H
#define DRIVER_CLAIMS_H

int claims_on_contexts(void);
int claims_on_memory(void);
int claims_on_streams(void);
int claims_on_capture(void);
int claims_on_ranges(void);

/* In a process that has STANDIN_APART: an exit status. */
int be_apart(void);

#endif
