/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements of tutti-bench for Gloo over TCP on the loopback interface, its only transport
 * for host memory here. Starts its own ranks, which meet in a directory that is removed in the end.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gloo/algorithm.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include "backend.h"
#include "local.h"
#include "options.h"
#include "output.h"
#include "pattern.h"
#include "start.h"
#include "sweep.h"

namespace
{

using Reduce = void (*)(void *, const void *, const void *, size_t);
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

struct Gloo {
	const bench_options *options = nullptr;
	std::shared_ptr<gloo::Context> context;
	/* algorithms of the older kind are made for a buffer, before they are timed */
	std::map<void *, std::unique_ptr<gloo::Algorithm>> made;
	size_t made_count = 0;
	Buffer window[BENCH_WINDOW];
};

template <typename T> Reduce reduction(int op)
{
	switch (op) {
	case TUTTI_SUM: return gloo::sum<T>;
	case TUTTI_PROD: return gloo::product<T>;
	case TUTTI_MIN: return gloo::min<T>;
	case TUTTI_MAX: return gloo::max<T>;
	default: return nullptr;
	}
}

Reduce reduction_of(const bench_call *c)
{
	switch (c->dtype) {
	case TUTTI_INT8: return reduction<int8_t>(c->op);
	case TUTTI_UINT8: return reduction<uint8_t>(c->op);
	case TUTTI_INT32: return reduction<int32_t>(c->op);
	case TUTTI_INT64: return reduction<int64_t>(c->op);
	case TUTTI_UINT64: return reduction<uint64_t>(c->op);
	case TUTTI_FLOAT32: return reduction<float>(c->op);
	case TUTTI_FLOAT64: return reduction<double>(c->op);
	default: return nullptr;
	}
}

Gloo &of(bench_backend *backend)
{
	return *static_cast<Gloo *>(backend->context);
}

bool named(const Gloo &g, const char *algorithm)
{
	return g.options->algorithm && strcmp(g.options->algorithm, algorithm) == 0;
}

bool supports(bench_backend *, const bench_call *c)
{
	switch (c->kind) {
	case BENCH_REDUCE_SCATTER:
	case BENCH_SCAN:
	case BENCH_EXSCAN: return false;
	case BENCH_ALL_TO_ALL: return !c->inplace;
	default: return c->op == BENCH_NO_OP || reduction_of(c) != nullptr;
	}
}

/* An option object is handed bytes or, for its reduction to count elements, numbers of their size.
 */
template <typename O, typename T> void set_reduction(O &options, const bench_call *c)
{
	if (!c->inplace)
		options.setInput(static_cast<T *>(const_cast<void *>(c->send)), c->count);
	options.setOutput(static_cast<T *>(c->recv), c->count);
	options.setReduceFunction(reduction_of(c));
}

template <typename O> void set_reduction(O &options, const bench_call *c)
{
	switch (bench_type_size(c->dtype)) {
	case 1: return set_reduction<O, uint8_t>(options, c);
	case 4: return set_reduction<O, uint32_t>(options, c);
	default: return set_reduction<O, uint64_t>(options, c);
	}
}

void halving_doubling(Gloo &g, const bench_call *c)
{
	if (c->dtype != TUTTI_FLOAT32 || c->op != TUTTI_SUM)
		throw std::runtime_error("halving_doubling is only measured for float32 sums");
	if (g.made_count != c->count) {
		g.made.clear();
		g.made_count = c->count;
	}
	auto &algorithm = g.made[c->recv];

	if (!algorithm) {
		const std::vector<float *> pointers{ static_cast<float *>(c->recv) };

		algorithm.reset(new gloo::AllreduceHalvingDoubling<float>(g.context, pointers,
									  (int)c->count));
	}
	if (!c->inplace)
		memcpy(c->recv, c->send, c->count * sizeof(float));
	algorithm->run();
}

void all_reduce(Gloo &g, const bench_call *c)
{
	gloo::AllreduceOptions options(g.context);

	if (named(g, "halving_doubling"))
		return halving_doubling(g, c);
	if (named(g, "bcube"))
		options.setAlgorithm(gloo::AllreduceOptions::Algorithm::BCUBE);
	else if (named(g, "ring"))
		options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
	set_reduction(options, c);
	gloo::allreduce(options);
}

void rooted(Gloo &g, const bench_call *c, uint8_t *send, uint8_t *recv, size_t block)
{
	const bool root = g.context->rank == c->root;
	const size_t size = (size_t)g.context->size;

	if (c->kind == BENCH_BROADCAST) {
		gloo::BroadcastOptions options(g.context);

		if (root && !c->inplace)
			options.setInput(send, block);
		options.setOutput(recv, block);
		options.setRoot(c->root);
		gloo::broadcast(options);
	} else if (c->kind == BENCH_REDUCE) {
		gloo::ReduceOptions options(g.context);

		set_reduction(options, c);
		options.setRoot(c->root);
		gloo::reduce(options);
	} else if (c->kind == BENCH_GATHER) {
		gloo::GatherOptions options(g.context);

		options.setInput(send, block);
		if (root)
			options.setOutput(recv, size * block);
		options.setRoot(c->root);
		gloo::gather(options);
	} else {
		gloo::ScatterOptions options(g.context);
		std::vector<uint8_t *> blocks;

		for (size_t r = 0; root && r < size; r++)
			blocks.push_back(send + r * block);
		if (root)
			options.setInputs(blocks, block);
		options.setOutput(recv, block);
		options.setRoot(c->root);
		gloo::scatter(options);
	}
}

void pair(Gloo &g, const bench_call *c, uint8_t *send, uint8_t *recv, size_t bytes)
{
	const int rank = g.context->rank;
	const uint64_t slot = (uint64_t)c->caller;

	if (rank > 1)
		return;
	const auto out = g.context->createUnboundBuffer(send, bytes);
	const auto in = g.context->createUnboundBuffer(recv, bytes);

	if (rank == 0) {
		out->send(1, slot);
		out->waitSend();
	}
	in->recv(1 - rank, slot);
	in->waitRecv();
	if (rank == 1) {
		out->send(0, slot);
		out->waitSend();
	}
}

void window(Gloo &g, const bench_call *c, uint8_t *send, uint8_t *recv, size_t bytes)
{
	const int rank = g.context->rank;
	char answer = 0;

	if (rank > 1)
		return;
	Buffer &mine = g.window[c->index];

	mine = g.context->createUnboundBuffer(rank == 0 ? send : recv, bytes);
	if (rank == 0)
		mine->send(1, 0);
	else
		mine->recv(0, 0);
	if (!c->last)
		return;
	for (unsigned i = 0; i <= c->index; i++)
		rank == 0 ? g.window[i]->waitSend() : g.window[i]->waitRecv();
	const auto back = g.context->createUnboundBuffer(&answer, 1);

	if (rank == 0) {
		back->recv(1, 1);
		back->waitRecv();
	} else {
		back->send(0, 1);
		back->waitSend();
	}
}

void run_call(Gloo &g, const bench_call *c)
{
	uint8_t *send = static_cast<uint8_t *>(const_cast<void *>(c->send));
	uint8_t *recv = static_cast<uint8_t *>(c->recv);
	const size_t block = c->count * bench_type_size(c->dtype);
	const size_t all = block * (size_t)g.context->size;

	if (c->kind == BENCH_ALL_REDUCE) {
		all_reduce(g, c);
	} else if (c->kind == BENCH_ALL_GATHER) {
		gloo::AllgatherOptions options(g.context);

		options.setInput(send, block);
		options.setOutput(recv, all);
		gloo::allgather(options);
	} else if (c->kind == BENCH_ALL_TO_ALL) {
		gloo::AlltoallOptions options(g.context);

		options.setInput(send, all);
		options.setOutput(recv, all);
		gloo::alltoall(options);
	} else if (c->kind == BENCH_BARRIER) {
		gloo::BarrierOptions options(g.context);

		gloo::barrier(options);
	} else if (c->kind == BENCH_LATENCY) {
		pair(g, c, send, recv, block);
	} else if (c->kind == BENCH_BANDWIDTH) {
		window(g, c, send, recv, block);
	} else {
		rooted(g, c, send, recv, block);
	}
}

/* The loop of measurements is C: no exception may pass it. */
template <typename F> int caught(F function)
{
	try {
		function();
		return 0;
	} catch (const std::exception &e) {
		fprintf(stderr, "Gloo: %s\n", e.what());
		return -1;
	}
}

int run(bench_backend *backend, const bench_call *call)
{
	return caught([&] { run_call(of(backend), call); });
}

int barrier(bench_backend *backend)
{
	return caught([&] {
		gloo::BarrierOptions options(of(backend).context);

		gloo::barrier(options);
	});
}

int combine(bench_backend *backend, double *values, size_t count, bench_combine how)
{
	return caught([&] {
		gloo::AllreduceOptions options(of(backend).context);

		options.setOutput(values, count);
		options.setReduceFunction(
			reduction<double>(how == BENCH_MAX ? TUTTI_MAX : TUTTI_SUM));
		gloo::allreduce(options);
	});
}

void describe(bench_backend *backend, const bench_call *, const char **transport, const char **algorithm)
{
	const char *asked = of(backend).options->algorithm;

	*transport = "tcp";
	*algorithm = asked ? asked : "default";
}

void join(Gloo &g, int rank, int size)
{
	gloo::transport::tcp::attr attr("127.0.0.1");
	auto device = gloo::transport::tcp::CreateDevice(attr);
	gloo::rendezvous::FileStore store(getenv("TUTTI_STORE"));
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);

	context->setTimeout(std::chrono::seconds(60));
	context->connectFullMesh(store, device);
	g.context = context;
}

int measure(const bench_options *options, int rank, int size)
{
	const bench_start begun = bench_start_begin();
	Gloo g;
	bench_backend backend = {};

	g.options = options;
	if (caught([&] { join(g, rank, size); }) < 0)
		return 1;
	backend.library = "gloo";
	backend.rank = rank;
	backend.size = size;
	backend.context = &g;
	backend.supports = supports;
	backend.run = run;
	backend.barrier = barrier;
	backend.combine = combine;
	backend.describe = describe;
	return (options->kind == BENCH_INIT ? bench_start_end(&begun, &backend, options) : bench_sweep(&backend, options)) != 0;
}

void remove_directory(const char *path)
{
	DIR *dir = opendir(path);

	if (!dir)
		return;
	while (const dirent *entry = readdir(dir)) {
		if (entry->d_name[0] != '.')
			unlink((std::string(path) + "/" + entry->d_name).c_str());
	}
	closedir(dir);
	rmdir(path);
}

int start(const bench_options *options, char **argv)
{
	const int ranks = options->ranks > 0 ? options->ranks : 2;
	char store[] = "/tmp/tutti-peer-gloo-XXXXXX";

	if (!bench_options_fit(options, ranks)) {
		bench_options_complain();
		return 2;
	}
	if (!mkdtemp(store)) {
		perror("make a directory for the ranks to meet in");
		return 1;
	}
	const int status = bench_run_local(ranks, argv, store);

	remove_directory(store);
	return status;
}

} // namespace

int main(int argc, char **argv)
{
	bench_options options;

	output_begin(1);
	const bench_parsed parsed = bench_options_parse(argc, argv, &options);
	const char *rank = getenv("TUTTI_RANK"), *size = getenv("TUTTI_SIZE");

	if (parsed != BENCH_PARSED)
		return bench_options_end(parsed, nullptr);
	if (!rank || !size)
		return options.kind == BENCH_INIT ? bench_start_repeat(&options, argv, "gloo", start) : start(&options, argv);
	return measure(&options, atoi(rank), atoi(size));
}
