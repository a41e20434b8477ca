// SPDX-License-Identifier: BSD-3-Clause
#include "call.h"

#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "errors.h"

namespace tutti_torch
{

namespace
{

void check_tensor(const char *title, const at::Tensor &tensor)
{
	TORCH_CHECK_VALUE(tensor.defined(), title, ": a tensor is undefined");
	TORCH_CHECK(tensor.layout() == at::kStrided, title, ": only supports dense tensors, found ",
		    tensor.layout(), "; call to_dense() first, or send indices() and values()");
	TORCH_CHECK(tensor.device().is_cpu() || tensor.device().is_cuda(), title,
		    ": only supports CPU and CUDA tensors, found one on ", tensor.device());
}

// Tutti does not wait for streams: what writes the inputs, or reads the outputs, must have ended.
void wait_for_stream(const at::Tensor &tensor)
{
	const c10::impl::VirtualGuardImpl guard(tensor.device().type());

	guard.getStream(tensor.device()).synchronize();
}

void check_tensors(const char *title, const TuttiBackend::Tensors &tensors)
{
	for (const auto &tensor : tensors)
		check_tensor(title, tensor);
	if (C10_UNLIKELY(!tensors.empty() && tensors[0].device().is_cuda()))
		wait_for_stream(tensors[0]);
}

// Is its memory its elements, in order?
bool plain(const at::Tensor &tensor)
{
	return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor plain_copy(const at::Tensor &tensor)
{
	return at::empty(tensor.sizes(),
			 tensor.options().memory_format(at::MemoryFormat::Contiguous))
		.copy_(tensor);
}

// Does each begin where the one before it ends? Such are chunks of one tensor.
bool adjacent(const TuttiBackend::Tensors &tensors)
{
	const auto *next = static_cast<const char *>(tensors[0].data_ptr());

	for (const auto &tensor : tensors) {
		if (!plain(tensor) || tensor.data_ptr() != next)
			return false;
		next += tensor.nbytes();
	}
	return true;
}

int64_t total(const TuttiBackend::Tensors &tensors)
{
	int64_t sum = 0;

	for (const auto &tensor : tensors)
		sum += tensor.numel();
	return sum;
}

void copy_out(const at::Tensor &flat, const TuttiBackend::Tensors &tensors)
{
	int64_t begin = 0;

	for (const auto &tensor : tensors) {
		tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
		begin += tensor.numel();
	}
}

void copy_in(const at::Tensor &flat, const TuttiBackend::Tensors &tensors)
{
	int64_t begin = 0;

	for (const auto &tensor : tensors) {
		flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()).copy_(tensor);
		begin += tensor.numel();
	}
}

// Copies run in whatever thread ends the operation.
void copy_without_grad(const std::function<void()> &copy)
{
	const at::NoGradGuard no_grad;

	copy();
}

} // namespace

TuttiBackend::Call::Call(TuttiBackend &backend, c10d::OpType type, const char *title,
			 Tensors inputs, Tensors outputs, std::chrono::milliseconds timeout,
			 bool async)
    : backend_(backend), use_(*backend.comm_), member_(backend.coalescing()),
      blocking_(!async && !member_), timeout_(backend.timeout_of(timeout))
{
	check_tensors(title, inputs);
	check_tensors(title, outputs);
	if (member_) {
		work_ = backend.coalesced_;
		work_->add_tensors(inputs, outputs);
		return;
	}
	// a record costs, also without a profiler
	work_ = c10::make_intrusive<TuttiWork>(
		backend.comm_, backend.getRank(), type, at::hasCallbacks() ? title : nullptr,
		std::move(inputs), std::move(outputs), backend.sequence_.load(), timeout_);
	if (!c10d::isP2POp(type))
		backend.sequence_++;
}

Buffer TuttiBackend::Call::buffer(const at::Tensor &tensor)
{
	const Elements elements = moved_as(tensor.scalar_type());

	return { tensor.data_ptr(), size_t(tensor.numel()) * elements.each, elements.dtype,
		 elements.each };
}

Buffer TuttiBackend::Call::input(const at::Tensor &tensor)
{
	if (C10_LIKELY(plain(tensor)))
		return buffer(tensor);
	const auto copy = plain_copy(tensor);

	work_->keep(copy);
	return buffer(copy);
}

Buffer TuttiBackend::Call::output(const at::Tensor &tensor)
{
	if (plain(tensor))
		return buffer(tensor);
	const auto copy = at::empty(tensor.sizes(),
				    tensor.options().memory_format(at::MemoryFormat::Contiguous));

	work_->when_done([tensor, copy] { copy_without_grad([&] { tensor.copy_(copy); }); });
	return buffer(copy);
}

Buffer TuttiBackend::Call::inout(const at::Tensor &tensor)
{
	if (C10_LIKELY(plain(tensor)))
		return buffer(tensor);
	const auto copy = plain_copy(tensor);

	work_->when_done([tensor, copy] { copy_without_grad([&] { tensor.copy_(copy); }); });
	return buffer(copy);
}

Buffer TuttiBackend::Call::inputs(const Tensors &tensors)
{
	Buffer all = buffer(tensors[0]);

	all.count = size_t(total(tensors)) * all.each;
	if (adjacent(tensors))
		return all;
	const auto flat = at::empty({ total(tensors) }, tensors[0].options());

	copy_without_grad([&] { copy_in(flat, tensors); });
	work_->keep(flat);
	all.data = flat.data_ptr();
	return all;
}

Buffer TuttiBackend::Call::outputs(const Tensors &tensors)
{
	Buffer all = buffer(tensors[0]);

	all.count = size_t(total(tensors)) * all.each;
	if (adjacent(tensors))
		return all;
	const auto flat = at::empty({ total(tensors) }, tensors[0].options());

	work_->when_done([tensors, flat] { copy_without_grad([&] { copy_out(flat, tensors); }); });
	all.data = flat.data_ptr();
	return all;
}

void TuttiBackend::Call::add(Start start)
{
	if (member_)
		backend_.collected_.push_back(std::move(start));
	else if (!first_)
		first_ = std::move(start);
	else
		others_.push_back(std::move(start));
}

TuttiBackend::WorkPtr TuttiBackend::Call::work()
{
	if (member_)
		return work_;
	const tutti_comm_t comm = use_.get();
	tutti_request_t request = nullptr;

	backend_.describe_call(comm, timeout_);
	if (others_.empty())
		check(comm, first_(comm, blocking_ ? nullptr : &request));
	else
		check(comm,
		      backend_.start_group(comm, first_, others_, blocking_ ? nullptr : &request));
	if (blocking_)
		work_->end_at_once();
	else
		work_->begin(request);
	return work_;
}

} // namespace tutti_torch
