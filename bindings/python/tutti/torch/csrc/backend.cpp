// SPDX-License-Identifier: BSD-3-Clause
#include "backend.h"

#include <algorithm>

#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "call.h"
#include "callers.h"
#include "errors.h"
#include "lists.h"
#include "streams.h"
#include "versions.h"

namespace tutti_torch
{

namespace
{

using c10d::OpType;

// However short the deadline of operations: a busy host takes its time to make a communicator.
constexpr std::chrono::milliseconds LEAST_TO_MEET(30000);

// The checks of c10d's own backends report through such a function.
auto refuse(const char *title)
{
	return [title](const std::string &message) {
		C10_THROW_ERROR(ValueError, std::string(title) + ": " + message);
	};
}

void check_same_type(const char *title, const at::Tensor &a, const at::Tensor &b)
{
	TORCH_CHECK_VALUE(a.scalar_type() == b.scalar_type(), title,
			  ": tensors of one call must have one type, found ", a.scalar_type(),
			  " and ", b.scalar_type());
}

// `large` is to be `times` as large as `small`.
void check_multiple(const char *title, const at::Tensor &large, const at::Tensor &small, int times,
		    const char *names)
{
	check_same_type(title, large, small);
	TORCH_CHECK_VALUE(large.numel() == small.numel() * times, title, ": ", names, ": found ",
			  large.numel(), " and ", small.numel(), " elements in a group of ", times,
			  " ranks, expected ", small.numel() * times, " and ", small.numel());
}

bool same_sizes(const Tensors &tensors)
{
	return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor &tensor) {
		return tensor.numel() == tensors[0].numel();
	});
}

void check_one_type(const char *title, const Tensors &tensors, const at::Tensor &like)
{
	for (size_t i = 0; i < tensors.size(); i++)
		c10d::assertTypeMatch(refuse(title), like.options(), tensors, i);
}

std::vector<size_t> counts_of(const Tensors &tensors, size_t each)
{
	std::vector<size_t> counts;

	for (const auto &tensor : tensors)
		counts.push_back(size_t(tensor.numel()) * each);
	return counts;
}

} // namespace

TuttiBackend::TuttiBackend(const StorePtr &store, int rank, int size, const OptionsPtr &options)
    : c10d::Backend(rank, size), options_(options), timeout_(options->timeout),
      made_with_(std::max(timeout_, LEAST_TO_MEET)),
      comm_(std::make_shared<Comm>(store, rank, size, *options, made_with_)),
      monitored_(comm_->store(), rank, size)
{
	Comm::add_open(comm_);
	init();
}

TuttiBackend::~TuttiBackend()
{
	shutdown();
}

c10::intrusive_ptr<c10d::Backend::Options> TuttiBackend::getBackendOptions()
{
	return options_;
}

void TuttiBackend::setTimeout(std::chrono::milliseconds timeout)
{
	timeout_ = timeout;
	options_->timeout = timeout;
}

ErrorType TuttiBackend::getError()
{
	int rank;

	switch (comm_->error(&rank)) {
	case TUTTI_OK: return ErrorType::SUCCESS;
	case TUTTI_ERR_TIMEOUT: return ErrorType::TIMEOUT;
	case TUTTI_ERR_PEER_LOST: return ErrorType::REMOTE_ERROR;
	default: return ErrorType::COMM_ERROR;
	}
}

// Through the store, by the members alone: a rank outside them need not call.
c10::intrusive_ptr<c10d::Backend> TuttiBackend::split(
	const StorePtr &store, const std::vector<int> &ranks,
	const c10::intrusive_ptr<c10d::Backend::Options> &options)
{
	const auto mine = std::find(ranks.begin(), ranks.end(), getRank());

	if (mine == ranks.end())
		return nullptr;
	auto own = c10::dynamic_intrusive_pointer_cast<TuttiOptions>(options);

	if (!own) {
		own = c10::make_intrusive<TuttiOptions>(*options_);
		if (options) {
			own->timeout = options->timeout;
			copy_group<c10d::Backend::Options>(*own, *options);
		}
	}
	auto prefixed = c10::make_intrusive<c10d::PrefixStore>("split/" + group_name(*own), store);

	return c10::make_intrusive<TuttiBackend>(prefixed, int(mine - ranks.begin()),
						 int(ranks.size()), own);
}

void TuttiBackend::abort()
{
	comm_->abort("the process group was aborted by rank " + std::to_string(getRank()));
}

void TuttiBackend::shutdown()
{
	comm_->close();
}

// All ranks call: init_process_group() was given a device_id.
void TuttiBackend::eagerConnectSingleDevice(at::Device device)
{
	const Comm::Use use(*comm_);

	if (!device.is_cpu())
		comm_->bind(device, true);
}

std::chrono::milliseconds TuttiBackend::timeout_of(std::chrono::milliseconds asked) const
{
	return asked == c10d::kUnsetTimeout || asked == kNoTimeout ? timeout_ : asked;
}

void TuttiBackend::describe_call(tutti_comm_t comm, std::chrono::milliseconds timeout)
{
	if (C10_LIKELY(timeout == made_with_ && !options_->callers))
		return;
	const std::string caller = options_->callers ? python_caller() : "";
	tutti_call_t call = TUTTI_CALL_INIT;

	call.timeout_s = std::chrono::duration<double>(timeout).count();
	call.caller = caller.empty() ? nullptr : caller.c_str();
	check(comm, tutti_next_call(comm, &call));
}

// An asynchronous operation on a GPU is beside what the program puts on the current stream meanwhile.
c10::Stream TuttiBackend::side_stream(c10::Device device)
{
	std::lock_guard<std::mutex> lock(side_mutex_);

	if (!side_stream_)
		side_stream_ = stream_of_pool(device);
	return *side_stream_;
}

tutti_result_t TuttiBackend::start_group(const Place &at, const Start &first,
					 const std::vector<Start> &others)
{
	const Place collected{ at.comm, nullptr, at.stream };
	const tutti_result_t result = tutti_group_begin(at.comm);

	if (result < 0)
		return result;
	first(collected); // group_end() tells of a call that was invalid
	for (const auto &start : others)
		start(collected);
	return tutti_group_end(at.comm, at.request);
}

// ---- groups

bool TuttiBackend::coalescing() const
{
	return coalescing_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void TuttiBackend::startCoalescing()
{
	collected_.clear();
	coalesced_.reset();
	coalescing_ = std::this_thread::get_id();
}

// PyTorch does not end a group in which a call was refused. What comes next is no part of it.
void TuttiBackend::drop_group()
{
	const auto work = std::move(coalesced_);

	coalescing_ = std::thread::id();
	coalesced_.reset();
	collected_.clear();
	if (work)
		work->fail(std::current_exception());
}

// A work: also of a group of nothing.
TuttiBackend::WorkPtr TuttiBackend::endCoalescing()
{
	TORCH_CHECK(coalescing(),
		    "tutti: endCoalescing() without startCoalescing() in this thread");
	coalescing_ = std::thread::id();
	auto work = std::move(coalesced_);
	const auto parts = std::move(collected_);

	coalesced_.reset();
	collected_.clear();
	if (!work)
		work = Call::make_work(*this, OpType::COALESCED, "tutti:coalesced", {}, {},
				       timeout_, std::nullopt);
	const c10::OptionalStreamGuard guard(work->stream());

	try {
		const Comm::Use use(*comm_);

		describe_call(use.get(), timeout_);
		work->run(
			use.get(),
			[&parts](const Place &at) {
				return parts.empty()
					       ? TUTTI_OK
					       : start_group(at, parts[0],
							     { parts.begin() + 1, parts.end() });
			},
			false);
	} catch (...) {
		work->fail(std::current_exception());
		throw;
	}
	return work;
}

// ---- collectives

TuttiBackend::WorkPtr TuttiBackend::broadcast(Tensors &tensors,
					      const c10d::BroadcastOptions &options)
{
	const char *title = "tutti:broadcast";

	c10d::assertSingleElement(refuse(title), tensors);
	c10d::assertRootRank(refuse(title), options.rootRank, getSize());
	Call call(*this, OpType::BROADCAST, title, tensors, tensors, options.timeout,
		  is_async(options));
	const Buffer all = call.inout(tensors[0]);

	call.add([all, root = int(options.rootRank)](const Place &at) {
		return at.call<tutti_broadcast, tutti_cuda_broadcast>(all.data, all.data, all.count,
								      all.dtype, root);
	});
	return call.work();
}

void TuttiBackend::all_reduce(Call &call, const at::Tensor &tensor, const c10d::ReduceOp &op)
{
	const tutti_op_t number = reduced_as(tensor.scalar_type(), op).op;

	if (C10_UNLIKELY(op.op_ == c10d::ReduceOp::PREMUL_SUM)) {
		const c10::InferenceMode no_grad; // as if the library wrote it

		tensor.copy_(premultiplied(tensor, op));
	}
	const Buffer all = call.inout(tensor);

	call.add([all, number](const Place &at) {
		return at.call<tutti_all_reduce, tutti_cuda_all_reduce>(
			all.data, all.data, all.count, all.dtype, number);
	});
}

TuttiBackend::WorkPtr TuttiBackend::allreduce(Tensors &tensors,
					      const c10d::AllreduceOptions &options)
{
	const char *title = "tutti:all_reduce";

	c10d::assertSingleElement(refuse(title), tensors);
	if (tensors[0].is_sparse())
		return allreduce_sparse(tensors, options);
	Call call(*this, OpType::ALLREDUCE, title, tensors, tensors, options.timeout,
		  is_async(options));

	all_reduce(call, tensors[0], options.reduceOp);
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::allreduce_coalesced(
	Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
	const char *title = "tutti:all_reduce";

	c10d::assertNonEmpty(refuse(title), tensors);
	c10d::assertLayoutMatch(refuse(title), tensors);
	check_one_type(title, tensors, tensors[0]);
	Call call(*this, OpType::ALLREDUCE_COALESCED, title, tensors, tensors, options.timeout,
		  is_async(options));

	for (const auto &tensor : tensors)
		all_reduce(call, tensor, options.reduceOp);
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
	const char *title = "tutti:reduce";
	const int root = int(options.rootRank);

	c10d::assertSingleElement(refuse(title), tensors);
	c10d::assertRootRank(refuse(title), options.rootRank, getSize());
	Call call(*this, OpType::REDUCE, title, tensors, tensors, options.timeout,
		  is_async(options));
	const tutti_op_t op = reduced_as(tensors[0].scalar_type(), options.reduceOp).op;
	const auto factored = premultiplied(tensors[0], options.reduceOp);
	const Buffer send = call.input(factored);
	const Buffer recv = root == getRank() ? call.inout(tensors[0]) : Buffer{};
	const bool in_place = factored.is_same(tensors[0]);

	call.state().keep(factored);
	call.add([=](const Place &at) {
		const void *from = in_place && recv.data ? recv.data : send.data;

		return at.call<tutti_reduce, tutti_cuda_reduce>(from, recv.data, send.count,
								send.dtype, op, root);
	});
	return call.work();
}

namespace
{

auto gathering(Buffer send, Buffer recv)
{
	return [send, recv](const Place &at) {
		return at.call<tutti_all_gather, tutti_cuda_all_gather>(send.data, recv.data,
									send.count, send.dtype);
	};
}

} // namespace

void TuttiBackend::all_gather(Call &call, const at::Tensor &output, const at::Tensor &input)
{
	const Buffer send = call.input(input);

	call.add(gathering(send, call.output(output)));
}

// Ranks may have tensors of different sizes, which all know.
void TuttiBackend::all_gather_list(Call &call, const Tensors &outputs, const at::Tensor &input)
{
	const Buffer send = call.input(input), recv = call.outputs(outputs);

	if (same_sizes(outputs)) {
		call.add(gathering(send, recv));
		return;
	}
	call.add([send, recv, counts = counts_of(outputs, send.each)](const Place &at) {
		return at.call<tutti_all_gather_v, tutti_cuda_all_gather_v>(
			send.data, recv.data, counts.data(), nullptr, send.dtype);
	});
}

void TuttiBackend::check_gathered(const char *title, const Tensors &outputs,
				  const at::Tensor &input) const
{
	check_one_type(title, outputs, input);
	c10d::assertSizesMatch(refuse(title), input.sizes(), outputs, size_t(getRank()));
}

TuttiBackend::WorkPtr TuttiBackend::allgather(TensorLists &outputs, Tensors &inputs,
					      const c10d::AllgatherOptions &options)
{
	const char *title = "tutti:all_gather";

	c10d::assertSingleElementInput(refuse(title), inputs);
	check_ranks_list(title, outputs, getSize(), "output");
	check_gathered(title, outputs[0], inputs[0]);
	Call call(*this, OpType::ALLGATHER, title, inputs, outputs[0], options.timeout,
		  is_async(options));

	all_gather_list(call, outputs[0], inputs[0]);
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::_allgather_base(at::Tensor &output, at::Tensor &input,
						    const c10d::AllgatherOptions &options)
{
	const char *title = "tutti:all_gather";

	check_multiple(title, output, input, getSize(), "output and input");
	Call call(*this, OpType::_ALLGATHER_BASE, title, { input }, { output }, options.timeout,
		  is_async(options));

	all_gather(call, output, input);
	return call.work();
}

// outputs[rank][i] receives the i-th input of that rank.
TuttiBackend::WorkPtr TuttiBackend::allgather_coalesced(TensorLists &outputs, Tensors &inputs,
							const c10d::AllgatherOptions &options)
{
	const char *title = "tutti:all_gather";
	Tensors all;

	c10d::assertNonEmpty(refuse(title), inputs);
	check_lists(title, outputs, inputs.size(), getSize());
	for (const auto &list : outputs)
		all.insert(all.end(), list.begin(), list.end());
	Call call(*this, OpType::ALLGATHER_COALESCED, title, inputs, all, options.timeout,
		  is_async(options));

	for (size_t i = 0; i < inputs.size(); i++) {
		Tensors each;

		for (const auto &list : outputs)
			each.push_back(list[i]);
		check_gathered(title, each, inputs[i]);
		all_gather_list(call, each, inputs[i]);
	}
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::allgather_into_tensor_coalesced(
	Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
	const char *title = "tutti:all_gather";

	c10d::assertNonEmpty(refuse(title), inputs);
	TORCH_CHECK_VALUE(outputs.size() == inputs.size(), title, ": found ", outputs.size(),
			  " outputs and ", inputs.size(), " inputs, expected as many");
	for (size_t i = 0; i < inputs.size(); i++)
		check_multiple(title, outputs[i], inputs[i], getSize(), "output and input");
	Call call(*this, all_gather_tensors_type(), title, inputs, outputs, options.timeout,
		  is_async(options));

	for (size_t i = 0; i < inputs.size(); i++)
		all_gather(call, outputs[i], inputs[i]);
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::gather(TensorLists &outputs, Tensors &inputs,
					   const c10d::GatherOptions &options)
{
	const char *title = "tutti:gather";
	const int root = int(options.rootRank);
	const bool receives = root == getRank();

	c10d::assertRootRank(refuse(title), options.rootRank, getSize());
	c10d::assertSingleElementInput(refuse(title), inputs);
	if (receives) {
		check_ranks_list(title, outputs, getSize(), "output");
		c10d::assertTypeAndSizesMatch(refuse(title), outputs[0], inputs[0].options(),
					      inputs[0].sizes());
	} else {
		check_no_list(title, outputs, "output");
	}
	Call call(*this, OpType::GATHER, title, inputs, receives ? outputs[0] : Tensors{},
		  options.timeout, is_async(options));
	const Buffer send = call.input(inputs[0]);
	const Buffer recv = receives ? call.outputs(outputs[0]) : Buffer{};

	call.add([send, recv, root](const Place &at) {
		return at.call<tutti_gather, tutti_cuda_gather>(send.data, recv.data, send.count,
								send.dtype, root);
	});
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::gather_into_tensor(at::Tensor &output, at::Tensor &input,
						       const c10d::GatherOptions &options)
{
	const char *title = "tutti:gather";
	const int root = int(options.rootRank);
	const bool receives = root == getRank();

	c10d::assertRootRank(refuse(title), options.rootRank, getSize());
	if (receives)
		check_multiple(title, output, input, getSize(), "output and input");
	Call call(*this, OpType::GATHER, title, { input }, receives ? Tensors{ output } : Tensors{},
		  options.timeout, is_async(options));
	const Buffer send = call.input(input);
	const Buffer recv = receives ? call.output(output) : Buffer{};

	call.add([send, recv, root](const Place &at) {
		return at.call<tutti_gather, tutti_cuda_gather>(send.data, recv.data, send.count,
								send.dtype, root);
	});
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::scatter(Tensors &outputs, TensorLists &inputs,
					    const c10d::ScatterOptions &options)
{
	const char *title = "tutti:scatter";
	const int root = int(options.rootRank);
	const bool sends = root == getRank();

	c10d::assertRootRank(refuse(title), options.rootRank, getSize());
	c10d::assertSingleElementOutput(refuse(title), outputs);
	if (sends) {
		check_ranks_list(title, inputs, getSize(), "input");
		c10d::assertTypeAndSizesMatch(refuse(title), inputs[0], outputs[0].options(),
					      outputs[0].sizes());
	} else {
		check_no_list(title, inputs, "input");
	}
	Call call(*this, OpType::SCATTER, title, sends ? inputs[0] : Tensors{}, outputs,
		  options.timeout, is_async(options));
	const Buffer recv = call.output(outputs[0]);
	const Buffer send = sends ? call.inputs(inputs[0]) : Buffer{};

	call.add([send, recv, root](const Place &at) {
		return at.call<tutti_scatter, tutti_cuda_scatter>(send.data, recv.data, recv.count,
								  recv.dtype, root);
	});
	return call.work();
}

void TuttiBackend::reduce_scatter_blocks(Call &call, const at::Tensor &output,
					 const at::Tensor &input, const c10d::ReduceOp &op)
{
	const tutti_op_t number = reduced_as(input.scalar_type(), op).op;
	const auto factored = premultiplied(input, op);
	const Buffer send = call.input(factored), recv = call.output(output);

	call.state().keep(factored);
	call.add([send, recv, number](const Place &at) {
		return at.call<tutti_reduce_scatter, tutti_cuda_reduce_scatter>(
			send.data, recv.data, recv.count, recv.dtype, number);
	});
}

// Blocks may differ in size, which all ranks know.
TuttiBackend::WorkPtr TuttiBackend::reduce_scatter(Tensors &outputs, TensorLists &inputs,
						   const c10d::ReduceScatterOptions &options)
{
	const char *title = "tutti:reduce_scatter";

	c10d::assertSingleElementOutput(refuse(title), outputs);
	check_ranks_list(title, inputs, getSize(), "input");
	check_one_type(title, inputs[0], outputs[0]);
	c10d::assertSizesMatch(refuse(title), outputs[0].sizes(), inputs[0], size_t(getRank()));
	Call call(*this, OpType::REDUCE_SCATTER, title, inputs[0], outputs, options.timeout,
		  is_async(options));
	const tutti_op_t op = reduced_as(outputs[0].scalar_type(), options.reduceOp).op;
	Tensors blocks;

	for (const auto &tensor : inputs[0])
		blocks.push_back(premultiplied(tensor, options.reduceOp));
	for (const auto &tensor : blocks)
		call.state().keep(tensor);
	const Buffer send = call.inputs(blocks), recv = call.output(outputs[0]);

	call.add([=, counts = counts_of(blocks, recv.each)](const Place &at) {
		return at.call<tutti_reduce_scatter_v, tutti_cuda_reduce_scatter_v>(
			send.data, recv.data, counts.data(), recv.dtype, op);
	});
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
							 const c10d::ReduceScatterOptions &options)
{
	const char *title = "tutti:reduce_scatter";

	check_multiple(title, input, output, getSize(), "input and output");
	Call call(*this, OpType::_REDUCE_SCATTER_BASE, title, { input }, { output },
		  options.timeout, is_async(options));

	reduce_scatter_blocks(call, output, input, options.reduceOp);
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::reduce_scatter_tensor_coalesced(
	Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options)
{
	const char *title = "tutti:reduce_scatter";

	c10d::assertNonEmpty(refuse(title), inputs);
	TORCH_CHECK_VALUE(outputs.size() == inputs.size(), title, ": found ", outputs.size(),
			  " outputs and ", inputs.size(), " inputs, expected as many");
	for (size_t i = 0; i < inputs.size(); i++)
		check_multiple(title, inputs[i], outputs[i], getSize(), "input and output");
	Call call(*this, reduce_scatter_tensors_type(), title, inputs, outputs, options.timeout,
		  is_async(options));

	for (size_t i = 0; i < inputs.size(); i++)
		reduce_scatter_blocks(call, outputs[i], inputs[i], options.reduceOp);
	return call.work();
}

// ---- all to all

namespace
{

// Elements for each rank, of splits of the first dimension; none given: equal ones.
std::vector<size_t> split_counts(const at::Tensor &tensor, const std::vector<int64_t> &splits,
				 int size, size_t each)
{
	const size_t rows = tensor.dim() ? size_t(tensor.size(0)) : 1;
	const size_t row = rows ? size_t(tensor.numel()) / rows * each : 0;
	std::vector<size_t> counts;

	c10d::checkSplitSizes(splits, tensor, size);
	for (int i = 0; i < size; i++)
		counts.push_back((splits.empty() ? rows / size : size_t(splits[i])) * row);
	return counts;
}

auto exchange(Buffer send, std::vector<size_t> from, Buffer recv, std::vector<size_t> to)
{
	return [send, recv, from = std::move(from), to = std::move(to)](const Place &at) {
		return at.call<tutti_all_to_all_v, tutti_cuda_all_to_all_v>(
			send.data, from.data(), nullptr, recv.data, to.data(), nullptr, send.dtype);
	};
}

} // namespace

// Always with counts: some ranks may give splits where others leave equal ones out.
TuttiBackend::WorkPtr TuttiBackend::alltoall_base(at::Tensor &output, at::Tensor &input,
						  std::vector<int64_t> &output_splits,
						  std::vector<int64_t> &input_splits,
						  const c10d::AllToAllOptions &options)
{
	const char *title = "tutti:all_to_all";

	check_same_type(title, output, input);
	Call call(*this, OpType::ALLTOALL_BASE, title, { input }, { output }, options.timeout,
		  is_async(options));
	const Buffer send = call.input(input), recv = call.output(output);

	call.add(exchange(send, split_counts(input, input_splits, getSize(), send.each), recv,
			  split_counts(output, output_splits, getSize(), recv.each)));
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::alltoall(Tensors &outputs, Tensors &inputs,
					     const c10d::AllToAllOptions &options)
{
	const char *title = "tutti:all_to_all";

	check_tensor_for_each(title, inputs, getSize(), "input");
	check_tensor_for_each(title, outputs, getSize(), "output");
	check_one_type(title, inputs, inputs[0]);
	check_one_type(title, outputs, inputs[0]);
	Call call(*this, OpType::ALLTOALL, title, inputs, outputs, options.timeout,
		  is_async(options));
	const Buffer send = call.inputs(inputs), recv = call.outputs(outputs);

	call.add(exchange(send, counts_of(inputs, send.each), recv, counts_of(outputs, recv.each)));
	return call.work();
}

// ---- messages

TuttiBackend::WorkPtr TuttiBackend::send(Tensors &tensors, int peer, int tag)
{
	const char *title = "tutti:send";

	c10d::assertSingleElement(refuse(title), tensors);
	Call call(*this, OpType::SEND, title, tensors, tensors, c10d::kUnsetTimeout, true, tag);
	const Buffer all = call.input(tensors[0]);

	call.add([all, peer, tag](const Place &at) {
		return at.stream ? tutti_cuda_send(at.comm, all.data, all.count, all.dtype, peer,
						   *at.stream)
				 : tutti_send_tagged(at.comm, all.data, all.count, all.dtype, peer,
						     tag, at.request);
	});
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::receive(OpType type, Tensors &tensors, int peer, int tag)
{
	const char *title = type == OpType::RECV ? "tutti:recv" : "tutti:recvAnySource";

	c10d::assertSingleElement(refuse(title), tensors);
	Call call(*this, type, title, tensors, tensors, c10d::kUnsetTimeout, true, tag);
	tutti_message_t *message = type == OpType::RECV ? nullptr : call.message();
	// a message from any rank may be shorter, and what is behind it stays
	const Buffer all = message ? call.inout(tensors[0]) : call.output(tensors[0]);

	TORCH_CHECK_VALUE(
		peer != TUTTI_ANY_PEER || !call.state().stream(), title,
		": a tensor on a GPU comes from any rank only with a tag other than 0, at "
		"both ends; or name the rank");
	call.state().from(peer);
	call.add([all, peer, tag, message](const Place &at) {
		return at.stream ? tutti_cuda_recv(at.comm, all.data, all.count, all.dtype, peer,
						   *at.stream)
				 : tutti_recv_tagged(at.comm, all.data, all.count, all.dtype, peer,
						     tag, message, at.request);
	});
	return call.work();
}

TuttiBackend::WorkPtr TuttiBackend::recv(Tensors &tensors, int peer, int tag)
{
	return receive(OpType::RECV, tensors, peer, tag);
}

TuttiBackend::WorkPtr TuttiBackend::recvAnysource(Tensors &tensors, int tag)
{
	return receive(OpType::RECVANYSOURCE, tensors, TUTTI_ANY_PEER, tag);
}

// ---- barriers

// On a GPU the barrier comes when the current stream has come to it.
TuttiBackend::WorkPtr TuttiBackend::barrier(const c10d::BarrierOptions &options)
{
	if (options.device && !options.device->is_cpu())
		current_stream(*options.device).synchronize();
	Call call(*this, OpType::BARRIER, "tutti:barrier", {}, {}, options.timeout,
		  is_async(options));

	call.add([](const Place &at) { return tutti_barrier(at.comm, at.request); });
	return call.work();
}

void TuttiBackend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks)
{
	const bool unset = options.timeout == c10d::kUnsetTimeout;

	monitored_.wait(unset ? timeout_ : options.timeout, wait_all_ranks);
}

} // namespace tutti_torch
