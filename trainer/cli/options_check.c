/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: which options go together. */
#include "options_table.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEEDS(option, met, other)                                                                  \
	option_said(o, option) && !(met), "found --" option " without " other                      \
					  ", where it does nothing; add that, or leave it out"
#define ONE_OF(option, other)                                                                      \
	option_said(o, option) && option_said(o, other),                                           \
		"found --" option " and --" other ", of which one is enough; leave one out"
#define ON_GPU(met, what)                                                                          \
	cuda && (met), "found --device cuda and " what ", which only the host can do; leave one out"
#define SHARDED(met, what)                                                                         \
	o->shard && (met), "found --shard and " what ", which needs all samples; leave one out"
#define IN_PIECES(met, what)                                                                       \
	cut && (met), "found --parallel and " what ", which cannot be had together; leave one out"
#define WITH_SERVERS "whose servers see a part of the gradients each; leave one out"
#define AS_WELL	     " and --store as well; give all, or none to run alone"

static void fill_in(struct options *o)
{
	const struct optimizer *by = o->optimizer;

	if (o->servers == 0 && (o->sync == &sync_ps || o->sync == &sync_async))
		o->servers = 1;
	if (o->rate < 0)
		o->rate = by->rate;
	if (o->rule.momentum < 0)
		o->rule.momentum = fmax(by->momentum, 0);
	if (o->scaling < 0) /* no batch is so large that the linear rule holds for all samples */
		o->scaling = o->batch == 0 && by->scaling == SCALE_LINEAR ? SCALE_SQRT
									  : (int)by->scaling;
}

bool options_check(struct options *o)
{
	fill_in(o);
	const struct optimizer *optimizer = o->optimizer;
	const bool cuda = o->engine == &engine_cuda,
		   stages = o->parallel.pipeline && o->parallel.stages != 1,
		   cut = o->parallel.pipeline || o->parallel.tensor, async = o->sync == &sync_async,
		   buckets = o->sync == &sync_all_reduce || o->sync == &sync_zero1,
		   servers = async || o->sync == &sync_ps, local = o->sync == &sync_local,
		   clips = o->clip > 0, csv = !o->source.labels && !synthetic_is(o->source.path),
		   bf16 = o->numbers == &numbers_bf16, lars = strcmp(optimizer->name, "lars") == 0,
		   means = optimizer->by == MOVE_ADAM,
		   shares = o->shares.count || o->shares.by_themselves;
	const struct {
		bool broken;
		const char *found; /* a format, of the optimiser's name, and --servers */
	} clashes[] = {
		{ NEEDS("label-column", csv, "a CSV file") },
		{ ONE_OF("test-fraction", "test-data") },
		{ ONE_OF("batch", "batch-per-rank") },
		{ NEEDS("momentum", optimizer->momentum >= 0, "an --optimizer that has it") },
		{ NEEDS("beta2", means, "--optimizer adam, adamw or lamb") },
		{ NEEDS("epsilon", means, "--optimizer adam, adamw or lamb") },
		{ NEEDS("trust", lars, "--optimizer lars") },
		{ NEEDS("servers", servers, "--sync ps or async") },
		{ NEEDS("staleness", async, "--sync async") },
		{ NEEDS("every", local, "--sync local") },
		{ NEEDS("outer", local, "--sync local") },
		{ NEEDS("order", stages, "--parallel pipeline, of two stages at least") },
		{ NEEDS("bucket", buckets, "--sync allreduce or zero1") },
		{ NEEDS("every-epochs", o->save, "--save FILE") },
		{ NEEDS("resume", o->save, "--save FILE") },
		/* the library would speak of a launcher that has set one of them */
		{ option_said(o, "rank") && !getenv("TUTTI_SIZE"),
		  "found --rank, expected --size" AS_WELL },
		{ option_said(o, "size") && !getenv("TUTTI_RANK"),
		  "found --size, expected --rank" AS_WELL },
		{ option_said(o, "rank") && !getenv("TUTTI_STORE"),
		  "found --rank and --size, expected --store as well; give all, or none to run "
		  "alone" },
		{ option_said(o, "store") && !getenv("TUTTI_RANK"),
		  "found --store, expected --rank and --size as well; give all, or none to run "
		  "alone" },
		{ ON_GPU(bf16, "--dtype bf16") },
		{ ON_GPU(o->sync != &sync_all_reduce, "another --sync than allreduce") },
		{ ON_GPU(optimizer->trust, "--optimizer lars or lamb") },
		{ ON_GPU(clips, "--clip") },
		{ ON_GPU(shares || o->shares.slow_count, "--shares or --slow") },
		{ o->numbers->size < sizeof(double) && o->rule.epsilon < FLT_MIN,
		  "found --epsilon below 1.17549e-38 with --dtype f32 or bf16, which have no "
		  "smaller number; give more, or --dtype f64" },
		{ async && !optimizer->takes_parts,
		  "found --optimizer %s with --sync async, whose updates are parts of a "
		  "batch; expected sgd, momentum or adagrad" },
		{ async && shares,
		  "found --shares with --sync async, where each worker takes as many batches as "
		  "it can; leave it out" },
		{ o->servers > 1 && optimizer->trust,
		  "found --optimizer %s with --servers %s, who see parts of layers each; leave "
		  "--servers out" },
		{ o->sync == &sync_ps && clips, "found --clip and --sync ps, " WITH_SERVERS },
		{ async && clips, "found --clip and --sync async, " WITH_SERVERS },
		{ SHARDED(cuda, "--device cuda") },
		{ SHARDED(cut, "--parallel") },
		{ SHARDED(servers, "--sync ps or async") },
		{ SHARDED(o->predict, "--predict") },
		{ o->save && o->outer.momentum > 0,
		  "found --save and --outer with a momentum, which no checkpoint has; leave one out" },
		{ IN_PIECES(cuda, "--device cuda") },
		{ IN_PIECES(servers, "--sync ps or async") },
		{ IN_PIECES(o->parallel.tensor && bf16, "tensor and --dtype bf16") },
		{ IN_PIECES(o->shares.by_themselves, "--shares auto") },
		{ IN_PIECES(clips && local, "--clip with --sync local") },
		{ IN_PIECES(o->predict,
			    "--predict (give it with --save and --resume, without --parallel)") },
	};

	for (size_t i = 0; i < sizeof(clashes) / sizeof(clashes[0]); i++)
		if (clashes[i].broken)
			return why_invalid(clashes[i].found, optimizer->name,
					   option_said(o, "servers"));
	return true;
}
