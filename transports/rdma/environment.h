/* SPDX-License-Identifier: BSD-3-Clause */
/* What users write into environment variables about RDMA. */
#ifndef TT_RDMA_ENVIRONMENT_H
#define TT_RDMA_ENVIRONMENT_H

#include "tutti/tutti.h"

#define RDMA_DEVICE_MAX 64 /* bytes of a device's name in the kernel, with the zero */

struct rdma_settings {
	char device[RDMA_DEVICE_MAX]; /* "": any */
	int port;		      /* 0: any */
	int gid;		      /* index; -1: chosen */
	int tc;			      /* traffic class of RoCE, the DSCP in its upper six bits */
	int sl;			      /* service level */
	int timeout;		      /* an acknowledgement is waited for 4.096 µs × 2^timeout */
	int retry;		      /* what is not acknowledged is sent again so often */
};

/* TUTTI_RDMA_DEVICE, _PORT, _GID, _TC, _SL, _TIMEOUT and _RETRY; what is not set has its
 * default. */
tutti_result_t tt_rdma_settings_read(struct rdma_settings *out);

#endif
