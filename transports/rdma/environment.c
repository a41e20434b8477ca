/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the grammar of the settings and their defaults. Numbers are digits alone: the C library's
 * functions would take blanks and signs as well. */
#include "environment.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

struct number {
	const char *name;
	size_t at; /* in struct rdma_settings */
	int least, most, otherwise;
	const char *expected;
};

/* A timeout of 0 would be none, and a peer that is gone never noticed; to soft-RoCE 7 retries are
 * endless ones. GIDs are told to devices in 8 bits. */
static const struct number numbers[] = {
	{ "TUTTI_RDMA_PORT", offsetof(struct rdma_settings, port), 1, 255, 0,
	  "the number of a port, from 1 to 255; leave it unset for any" },
	{ "TUTTI_RDMA_GID", offsetof(struct rdma_settings, gid), 0, 255, -1,
	  "the index of a GID, from 0 to 255; leave it unset and one is chosen" },
	{ "TUTTI_RDMA_TC", offsetof(struct rdma_settings, tc), 0, 255, 0,
	  "a traffic class, from 0 to 255: four times the DSCP that the network treats as wanted" },
	{ "TUTTI_RDMA_SL", offsetof(struct rdma_settings, sl), 0, 15, 0,
	  "a service level, from 0 to 15" },
	{ "TUTTI_RDMA_TIMEOUT", offsetof(struct rdma_settings, timeout), 1, 31, 16,
	  "from 1 to 31: what is not acknowledged within 4.096 us x 2^TUTTI_RDMA_TIMEOUT is sent again" },
	{ "TUTTI_RDMA_RETRY", offsetof(struct rdma_settings, retry), 0, 7, 6,
	  "from 0 to 7: how often to send again what is not acknowledged" },
};

static const char *value_of(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

static bool is_number(const char *text, int least, int most, int *out)
{
	int value = 0;

	for (; *text >= '0' && *text <= '9' && value <= most; text++)
		value = 10 * value + (*text - '0');
	*out = value;
	return !*text && value >= least && value <= most;
}

static tutti_result_t read_number(const struct number *n, struct rdma_settings *out)
{
	int *const value = (int *)((char *)out + n->at);
	const char *text = value_of(n->name);

	*value = n->otherwise;
	if (text && !is_number(text, n->least, n->most, value))
		return tt_fail(TUTTI_ERR_INVALID, RDMA, "%s is \"%s\": expected %s", n->name, text,
			       n->expected);
	return TUTTI_OK;
}

/* It becomes part of a path. */
static tutti_result_t read_device(struct rdma_settings *out)
{
	const char *text = value_of("TUTTI_RDMA_DEVICE");
	const size_t length = text ? strlen(text) : 0;

	if (length >= sizeof(out->device) || (length && (strchr(text, '/') || *text == '.')))
		return tt_fail(
			TUTTI_ERR_INVALID, RDMA,
			"TUTTI_RDMA_DEVICE is \"%s\": expected the name of a device as /sys/class/infiniband lists "
			"it, such as mlx5_0; leave it unset for any",
			text);
	memcpy(out->device, length ? text : "", length + 1);
	return TUTTI_OK;
}

tutti_result_t tt_rdma_settings_read(struct rdma_settings *out)
{
	struct rdma_settings read;
	tutti_result_t result = read_device(&read);

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && result == TUTTI_OK; i++)
		result = read_number(&numbers[i], &read);
	if (result == TUTTI_OK)
		*out = read;
	return result;
}
