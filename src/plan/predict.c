/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what collectives take on clusters that are only described: the costs of the algorithms
 * that would run there, priced as the tuner prices them. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "names.h"
#include "nearest.h"
#include "plan.h"
#include "price.h"
#include "registry.h"

#define MOST_RANKS (1 << 20) /* costs are found by passes over all of them, in less than 0.1 s */

static bool is_figure(double value)
{
	return isfinite(value) && value >= 0;
}

static bool is_path(const tutti_path_t *path)
{
	return is_figure(path->latency) && is_figure(path->overhead) && is_figure(path->byte);
}

static tutti_result_t check_cluster(const tutti_cluster_t *cluster)
{
	if (cluster->size != sizeof(*cluster))
		return tt_fail(
			TUTTI_ERR_INVALID, PLAN,
			"tutti_predict: cluster->size is %zu, expected sizeof(tutti_cluster_t), %zu",
			cluster->size, sizeof(*cluster));
	if (cluster->ranks_per_host < 1)
		return tt_fail(TUTTI_ERR_INVALID, PLAN,
			       "tutti_predict: %d ranks per host, expected 1 or more",
			       cluster->ranks_per_host);
	if (!is_path(&cluster->within) || !is_path(&cluster->between) ||
	    !is_figure(cluster->network_byte) || !is_figure(cluster->shared_byte) ||
	    !is_figure(cluster->sync) || !is_figure(cluster->reduced_byte))
		return tt_fail(
			TUTTI_ERR_INVALID, PLAN,
			"tutti_predict: a figure of the cluster is negative or not finite, expected seconds, or "
			"seconds per byte");
	return TUTTI_OK;
}

static tutti_result_t check(const tutti_cluster_t *cluster, const char *collective, int ranks,
			    double bytes, const tutti_prediction_t *out)
{
	if (!cluster || !collective || !out)
		return tt_fail(TUTTI_ERR_INVALID, PLAN,
			       "tutti_predict: cluster, collective or out is NULL");
	if (out->size != sizeof(*out))
		return tt_fail(
			TUTTI_ERR_INVALID, PLAN,
			"tutti_predict: out->size is %zu, expected sizeof(tutti_prediction_t), %zu",
			out->size, sizeof(*out));
	if (ranks < 2 || ranks > MOST_RANKS)
		return tt_fail(TUTTI_ERR_INVALID, PLAN, "tutti_predict: %d ranks, expected 2 to %d",
			       ranks, MOST_RANKS);
	if (!is_figure(bytes))
		return tt_fail(TUTTI_ERR_INVALID, PLAN,
			       "tutti_predict: %g bytes, expected 0 or more", bytes);
	return check_cluster(cluster);
}

static enum tt_collective find_collective(const char *name)
{
	int c = 0;

	while (c < TT_SEND_RECV && strcmp(tt_collective_name((enum tt_collective)c), name) != 0)
		c++;
	return (enum tt_collective)c;
}

static tutti_result_t fail_unknown(const char *name)
{
	struct tt_nearest nearest = tt_nearest_to(name, strlen(name));
	char hint[TT_NEAREST_HINT];

	for (int c = 0; c < TT_SEND_RECV; c++)
		tt_nearest_offer(&nearest, tt_collective_name((enum tt_collective)c));
	return tt_fail(TUTTI_ERR_INVALID, PLAN,
		       "tutti_predict: collective \"%s\"%s, expected one such as \"all_reduce\"",
		       name, tt_nearest_hint(&nearest, hint));
}

static struct tt_prices prices_of(const tutti_cluster_t *cluster)
{
	const tutti_path_t *near = &cluster->within, *far = &cluster->between;

	return (struct tt_prices){
		.message = { near->latency + near->overhead, far->latency + far->overhead },
		.call = { near->overhead, far->overhead },
		.gathered = { near->overhead, far->overhead },
		.byte = { near->byte, far->byte },
		.network = cluster->network_byte,
		.shared = cluster->shared_byte,
		.reduced = cluster->reduced_byte,
		.segment = TT_LINK_SEGMENT_BYTES,
		.sync = cluster->sync,
	};
}

static void predict(const struct tt_prices *price, const struct tt_group *group,
		    enum tt_collective collective, double bytes, tutti_prediction_t *out)
{
	*out = (tutti_prediction_t){ .size = sizeof(*out), .chosen = -1 };
	for (unsigned i = 0; tt_algorithms[i]; i++) {
		const struct tt_algorithm *algorithm = tt_algorithms[i];

		assert(i < TUTTI_PREDICTIONS_MAX);
		out->algorithms = i + 1;
		out->algorithm[i] = algorithm->name;
		out->seconds[i] = -1;
		if (!tt_algorithm_can(algorithm, collective) || !algorithm->fits(group, collective))
			continue;
		const struct tt_cost cost = algorithm->cost(group, collective, bytes);
		out->seconds[i] = tt_price(price, &cost, algorithm->shared);
		if (out->chosen < 0 || out->seconds[i] < out->seconds[out->chosen])
			out->chosen = (int)i;
	}
}

TUTTI_API tutti_result_t tutti_predict(const tutti_cluster_t *cluster, const char *collective,
				       int ranks, double bytes, tutti_prediction_t *out)
{
	const tutti_result_t result = check(cluster, collective, ranks, bytes, out);

	if (result)
		return result;
	const enum tt_collective found = find_collective(collective);
	if (found == TT_SEND_RECV)
		return fail_unknown(collective);
	int *const host = malloc((size_t)ranks * sizeof(*host));
	if (!host)
		return tt_fail(TUTTI_ERR_NO_MEMORY, PLAN, "no memory for the hosts of %d ranks",
			       ranks);
	for (int r = 0; r < ranks; r++)
		host[r] = r / cluster->ranks_per_host;
	const struct tt_group group = { 0, ranks, tt_collective_rooted(found) ? 0 : -1, host,
					host[ranks - 1] + 1 };
	const struct tt_prices price = prices_of(cluster);
	predict(&price, &group, found, bytes, out);
	free(host);
	return TUTTI_OK;
}
