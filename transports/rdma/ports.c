/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what programs are told about RDMA ports, and what they are told of RDMA where it is not
 * built. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "callback.h"
#include "device.h"
#include "log.h"

#define NOT_BUILT                                                                                  \
	"RDMA is not in this build, as the headers of libibverbs were missing or -Drdma=disabled was given"

#ifdef TT_RDMA
static const bool built = true;
#else
static const bool built = false;

TUTTI_API tutti_result_t tutti_rdma_dmabuf(const char *device)
{
	return tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "%s", NOT_BUILT);
}

TUTTI_API tutti_result_t tutti_rdma_mtu(const char *device, int port, int *bytes)
{
	return tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "%s", NOT_BUILT);
}
#endif

/* Nothing of this build would use a port. */
static void rule_out(struct rdma_survey *survey)
{
	for (int i = 0; i < survey->used; i++) {
		survey->all[i].used = false;
		snprintf(survey->all[i].why, sizeof(survey->all[i].why),
			 "cannot be used by this build, which is without RDMA");
	}
	survey->used = 0;
	snprintf(survey->why, sizeof(survey->why), "%s", NOT_BUILT);
}

static void tell(const struct rdma_found *found, tutti_rdma_port_fn_t each, void *context)
{
	tutti_rdma_port_t port = {
		.device = found->port.device,
		.port = found->port.number,
		.used = found->used,
		.why_not = found->used ? NULL : found->why,
		.speed_mbit = found->port.mbits,
		.numa_node = found->port.node,
		.gid_index = found->port.gid_index,
		.gid_kind = found->kind,
	};

	memcpy(port.gid, found->port.gid, sizeof(port.gid));
	TT_CALLBACK callback = tt_callback_begin("the function of tutti_rdma_ports()");
	each(&port, context);
	tt_callback_end(&callback);
}

TUTTI_API tutti_result_t tutti_rdma_ports(const char *sysroot, tutti_rdma_port_fn_t each,
					  void *context)
{
	struct rdma_sources from = tt_rdma_here;
	struct rdma_settings settings;
	struct rdma_survey survey;
	char sys[PATH_MAX];
	tutti_result_t result;

	if (!each)
		return tt_fail(TUTTI_ERR_INVALID, RDMA, "tutti_rdma_ports: each is NULL");
	snprintf(sys, sizeof(sys), "%s/sys", sysroot ? sysroot : "");
	from.sys = sys;
	result = tt_rdma_settings_read(&settings);
	if (result == TUTTI_OK)
		result = tt_rdma_survey_make(&from, &settings, &survey);
	if (result)
		return result;
	if (!built)
		rule_out(&survey);
	for (int i = 0; i < survey.count; i++)
		tell(&survey.all[i], each, context);
	if (survey.used == 0)
		result = tt_fail(TUTTI_ERR_UNSUPPORTED, RDMA, "no RDMA port can be used: %s",
				 survey.why);
	tt_rdma_survey_finish(&survey);
	return result;
}
