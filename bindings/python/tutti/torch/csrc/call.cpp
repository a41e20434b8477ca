// SPDX-License-Identifier: BSD-3-Clause
#include "call.h"

#include <ATen/record_function.h>

#include "errors.h"
#include "host_work.h"
#include "stream_work.h"
#include "streams.h"

namespace tutti_torch
{

namespace
{

// A plug-in's device counts as a GPU of CUDA: the library asks CUDA whose memory and streams it is given.
bool on_gpu(const at::Tensor &tensor)
{
	return tensor.device().is_cuda() || tensor.device().is_privateuseone();
}

void check_tensor(const char *title, const at::Tensor &tensor)
{
	TORCH_CHECK_VALUE(tensor.defined(), title, ": a tensor is undefined");
	TORCH_CHECK(tensor.layout() == at::kStrided, title, ": only supports dense tensors, found ",
		    tensor.layout(), "; call to_dense() first, or send indices() and values()");
	TORCH_CHECK(tensor.device().is_cpu() || on_gpu(tensor), title,
		    ": only supports CPU and CUDA tensors, found one on ", tensor.device());
}

void check_tensors(const char *title, const Tensors &tensors, const at::Tensor *&first)
{
	for (const auto &tensor : tensors) {
		check_tensor(title, tensor);
		if (!first)
			first = &tensor;
		TORCH_CHECK_VALUE(tensor.device() == first->device(), title,
				  ": tensors of one call must be on one device, found ",
				  first->device(), " and ", tensor.device());
	}
}

// PyTorch must not give their memory to others before `stream` is done with it.
void used_on(const c10::Stream &stream, const Tensors &tensors)
{
	const c10::impl::VirtualGuardImpl device(stream.device_type());

	for (const auto &tensor : tensors)
		device.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
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
bool adjacent(const Tensors &tensors)
{
	const auto *next = static_cast<const char *>(tensors[0].data_ptr());

	for (const auto &tensor : tensors) {
		if (!plain(tensor) || tensor.data_ptr() != next ||
		    !tensor.storage().is_alias_of(tensors[0].storage()))
			return false;
		next += tensor.nbytes();
	}
	return true;
}

int64_t total(const Tensors &tensors)
{
	int64_t sum = 0;

	for (const auto &tensor : tensors)
		sum += tensor.numel();
	return sum;
}

void copy_out(const at::Tensor &flat, const Tensors &tensors)
{
	int64_t begin = 0;

	for (const auto &tensor : tensors) {
		tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
		begin += tensor.numel();
	}
}

void copy_in(const at::Tensor &flat, const Tensors &tensors)
{
	int64_t begin = 0;

	for (const auto &tensor : tensors) {
		flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()).copy_(tensor);
		begin += tensor.numel();
	}
}

// What inference mode has made is written, too.
void copy_without_grad(const std::function<void()> &copy)
{
	const c10::InferenceMode no_grad;

	copy();
}

} // namespace

TuttiBackend::Call::Call(TuttiBackend &backend, c10d::OpType type, const char *title,
			 Tensors inputs, Tensors outputs, std::chrono::milliseconds timeout,
			 bool async, int tag)
    : backend_(backend), use_(*backend.comm_), member_(backend.coalescing()),
      blocking_(!async && !member_), timeout_(backend.timeout_of(timeout))
{
	try {
		prepare(title, std::move(inputs), std::move(outputs), type, tag);
	} catch (...) {
		if (member_)
			backend.drop_group();
		throw;
	}
}

void TuttiBackend::Call::prepare(const char *title, Tensors inputs, Tensors outputs,
				 c10d::OpType type, int tag)
{
	const at::Tensor *first = nullptr;

	check_tensors(title, inputs, first);
	check_tensors(title, outputs, first);
	std::optional<c10::Stream> stream;

	if (C10_UNLIKELY(first && on_gpu(*first) && tag != 0)) {
		through_host_ = current_stream(first->device());
		through_host_->synchronize();
	} else if (C10_UNLIKELY(first && on_gpu(*first)))
		stream = choose_stream(inputs, outputs, type, first->device());
	if (member_ && backend_.coalesced_) {
		work_ = backend_.coalesced_;
		TORCH_CHECK_VALUE(work_->stream() == stream, title,
				  ": operations that are coalesced must be on one device");
		work_->add_tensors(inputs, outputs);
		return;
	}
	work_ = make_work(backend_, member_ ? OpType::COALESCED : type,
			  member_ ? "tutti:coalesced" : title, std::move(inputs),
			  std::move(outputs), member_ ? backend_.timeout_ : timeout_, stream);
	if (member_)
		backend_.coalesced_ = work_;
	else if (!c10d::isP2POp(type))
		backend_.sequence_++;
}

// And make it the current one, for as long as the call is prepared.
c10::Stream TuttiBackend::Call::choose_stream(const Tensors &inputs, const Tensors &outputs,
					      c10d::OpType type, c10::Device device)
{
	const auto current = current_stream(device);

	backend_.comm_->bind(device, !c10d::isP2POp(type)); // before a stream of it is kept
	const auto stream = blocking_ ? current : backend_.side_stream(device);

	if (stream != current) {
		follow(stream, current);
		used_on(stream, inputs);
		used_on(stream, outputs);
	}
	guard_.reset_stream(stream);
	return stream;
}

c10::intrusive_ptr<TuttiWork> TuttiBackend::Call::make_work(TuttiBackend &backend,
							    c10d::OpType type, const char *title,
							    Tensors inputs, Tensors outputs,
							    std::chrono::milliseconds timeout,
							    std::optional<c10::Stream> stream)
{
	Described described{ backend.comm_,
			     backend.getRank(),
			     type,
			     at::hasCallbacks() ? title : nullptr, // a record costs
			     std::move(inputs),
			     std::move(outputs),
			     backend.sequence_.load(),
			     timeout };

	if (C10_UNLIKELY(stream.has_value()))
		return c10::make_intrusive<StreamWork>(std::move(described), *stream);
	return c10::make_intrusive<HostWork>(std::move(described));
}

Buffer TuttiBackend::Call::buffer(const at::Tensor &tensor)
{
	const Elements elements = moved_as(tensor.scalar_type());

	return { tensor.data_ptr(), size_t(tensor.numel()) * elements.each, elements.dtype,
		 elements.each };
}

// The library reads it after the call has begun, and waits for no stream.
at::Tensor TuttiBackend::Call::copy_of(const at::Tensor &tensor)
{
	const auto copy = plain_copy(tensor);

	if (through_host_)
		through_host_->synchronize();
	return copy;
}

// In whatever thread ends the operation; in the stream's order, which for what went through the host
// is that of the caller.
void TuttiBackend::Call::copy_back(std::function<void()> copy)
{
	work_->when_done([copy = std::move(copy), stream = through_host_] {
		const c10::OptionalStreamGuard guard(stream);

		copy_without_grad(copy);
		if (stream)
			stream->synchronize();
	});
}

Buffer TuttiBackend::Call::input(const at::Tensor &tensor)
{
	if (C10_LIKELY(plain(tensor)))
		return buffer(tensor);
	const auto copy = copy_of(tensor);

	work_->keep(copy);
	return buffer(copy);
}

Buffer TuttiBackend::Call::output(const at::Tensor &tensor)
{
	if (plain(tensor))
		return buffer(tensor);
	const auto copy = at::empty(tensor.sizes(),
				    tensor.options().memory_format(at::MemoryFormat::Contiguous));

	copy_back([tensor, copy] { tensor.copy_(copy); });
	return buffer(copy);
}

Buffer TuttiBackend::Call::inout(const at::Tensor &tensor)
{
	if (C10_LIKELY(plain(tensor)))
		return buffer(tensor);
	const auto copy = copy_of(tensor);

	copy_back([tensor, copy] { tensor.copy_(copy); });
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

	copy_back([tensors, flat] { copy_out(flat, tensors); });
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

	backend_.describe_call(comm, timeout_);
	work_->run(
		comm,
		[this](const Place &at) {
			return others_.empty() ? first_(at) : start_group(at, first_, others_);
		},
		blocking_);
	return work_;
}

} // namespace tutti_torch
