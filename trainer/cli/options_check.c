/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: which options go together. */
#include "options_table.h"

#include <float.h>
#include <string.h>

bool is_async(const struct options *o)
{
	return o->sync == &sync_async;
}

bool has_servers(const struct options *o)
{
	return o->sync == &sync_ps || is_async(o);
}

bool is_local(const struct options *o)
{
	return o->sync == &sync_local;
}

bool reads_csv(const struct options *o)
{
	return !o->source.labels && !synthetic_is(o->source.path);
}

bool saves(const struct options *o)
{
	return o->save != NULL;
}

bool is_cut(const struct options *o)
{
	return o->parallel.pipeline || o->parallel.tensor;
}

bool has_momentum(const struct options *o)
{
	return o->optimizer->momentum >= 0;
}

bool has_squares(const struct options *o)
{
	return o->optimizer->squares;
}

bool is_lars(const struct options *o)
{
	return strcmp(o->optimizer->name, "lars") == 0;
}

bool has_one_source(const struct options *o)
{
	return o->source.test_path == NULL;
}

bool has_own_batch(const struct options *o)
{
	return o->batch_per_rank == 0;
}

/* What only one way to train, or only the host, can do. */
static bool check_together(const struct options *o)
{
	const bool on_gpu = o->device == DEVICE_CUDA;
	const char *which = NULL;

	if (on_gpu && o->numbers != &numbers_f64)
		which = o->numbers == &numbers_f32 ? "--dtype f32" : "--dtype bf16";
	else if (on_gpu && o->sync != &sync_all_reduce)
		which = "another --sync than allreduce";
	else if (on_gpu && o->optimizer != &optimizer_momentum)
		which = "another --optimizer than momentum";
	else if (on_gpu && o->clip > 0)
		which = "--clip";
	else if (on_gpu && o->accumulate > 1)
		which = "--accumulate";
	else if (on_gpu && (o->shares.count || o->shares.by_themselves || o->shares.slow_count))
		which = "--shares or --slow";
	else if (on_gpu && o->predict)
		which = "--predict";
	if (which)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"found --device cuda and %s, which only the host can do; leave one out",
			which);
	if (o->numbers->size < sizeof(double) && o->epsilon < FLT_MIN)
		return why_set(
			TUTTI_ERR_INVALID,
			"--epsilon: found %g with --dtype %s, expected at least %g, the least that "
			"it has",
			o->epsilon, o->numbers->name, (double)FLT_MIN);
	if (is_async(o) && !o->optimizer->takes_parts)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"found --optimizer %s with --sync async, whose updates are parts of a batch; "
			"expected sgd, momentum or adagrad",
			o->optimizer->name);
	if (is_async(o) && (o->shares.count || o->shares.by_themselves))
		return why_set(TUTTI_ERR_UNSUPPORTED,
			       "found --shares with --sync async, where each worker takes as many "
			       "batches as it can; leave it out");
	if (o->servers > 1 && o->optimizer->trust)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"found --optimizer %s with --servers %u, who see parts of layers each; leave "
			"--servers out",
			o->optimizer->name, o->servers);
	if (o->servers > 0 && o->clip > 0)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"found --clip and --sync %s, whose servers see a part of the gradients "
			"each; leave one out",
			o->sync->name);
	const char *unsharded = on_gpu		 ? "--device cuda"
				: is_cut(o)	 ? "--parallel"
				: has_servers(o) ? "--sync ps or async"
				: o->predict	 ? "--predict"
						 : NULL;

	if (o->shard && unsharded)
		return why_set(TUTTI_ERR_UNSUPPORTED,
			       "found --shard and %s, which needs all samples; leave one out",
			       unsharded);
	if (o->save && o->outer.momentum > 0)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"found --save and --outer with a momentum, which no checkpoint has; leave "
			"one out");
	return true;
}

/* What a model that is cut in pieces cannot do. */
static bool check_cut(const struct options *o)
{
	const char *which = NULL;

	if (!is_cut(o))
		return true;
	if (o->device == DEVICE_CUDA)
		which = "--device cuda";
	else if (has_servers(o))
		which = "--sync ps or async";
	else if (o->parallel.tensor && o->numbers == &numbers_bf16)
		which = "tensor and --dtype bf16";
	else if (o->accumulate > 1)
		which = "--accumulate, for which --micro stands";
	else if (o->shares.by_themselves)
		which = "--shares auto";
	else if (o->clip > 0 && is_local(o))
		which = "--clip with --sync local";
	else if (o->predict)
		which = "--predict (give it with --save and --resume, without --parallel)";
	return !which ||
	       why_set(TUTTI_ERR_UNSUPPORTED,
		       "found --parallel and %s, which cannot be had together; leave one out",
		       which);
}

static void fill_in(struct options *o)
{
	if (has_servers(o) && o->servers == 0)
		o->servers = 1;
	if (o->rate < 0)
		o->rate = o->optimizer->rate;
	if (o->momentum < 0)
		o->momentum = o->optimizer->momentum < 0 ? 0 : o->optimizer->momentum;
	if (o->scaling < 0) /* no batch is so large that the linear rule holds for all samples */
		o->scaling = o->batch == 0 && o->optimizer->scaling == SCALE_LINEAR
				     ? SCALE_SQRT
				     : (int)o->optimizer->scaling;
	if (!o->numbers)
		o->numbers = o->device == DEVICE_CUDA ? &numbers_f64 : &numbers_f32;
}

bool options_check(struct options *o)
{
	fill_in(o);
	return check_together(o) && check_cut(o);
}
