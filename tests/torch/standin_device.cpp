// SPDX-License-Identifier: BSD-3-Clause
// GPUs of the stand-in for CUDA's driver (tests/cuda/standin) as a device of PyTorch, "privateuseone":
// tensors, streams and events there, so that what the backend does with GPUs runs where none is.
// Operations but copies are done by the CPU. Memory is not given back: a process is a short test.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_copy_from_and_resize_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

extern "C" {
#include "cuda_functions.h"

#define DECLARE(member, symbol, parameters) cuda_result symbol parameters;
TT_CUDA_FUNCTIONS(DECLARE)
cuda_result cuCtxSynchronize(void);
cuda_result cuLaunchHostFunc(struct CUstream_st *stream, void (*function)(void *), void *data);
}

namespace
{

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

constexpr c10::DeviceType KIND = c10::DeviceType::PrivateUse1;
constexpr int STREAMS = 8; // of the pool, after the default one

void check(cuda_result result)
{
	const char *text = "";

	if (result == 0)
		return;
	cuGetErrorString(result, &text);
	TORCH_CHECK(false, "the stand-in failed with ", result, ": ", text);
}

// ---- streams, events

// The first GPU, made when a process first uses it: tests fork.
struct Gpu {
	CUctx_st *context = nullptr;
	CUstream_st *streams[1 + STREAMS] = {}; // the first is the default stream
	int next = 0;

	Gpu()
	{
		check(cuInit(0));
		check(cuDevicePrimaryCtxRetain(&context, 0));
		check(cuCtxSetCurrent(context));
		for (int i = 1; i <= STREAMS; i++)
			check(cuStreamCreate(&streams[i], CUDA_STREAM_NON_BLOCKING));
	}
	static Gpu &use()
	{
		static Gpu *const gpu = new Gpu;

		check(cuCtxSetCurrent(gpu->context));
		return *gpu;
	}
};

thread_local c10::StreamId current;

CUstream_st *handle_of(const Stream &stream)
{
	return Gpu::use().streams[stream.id()];
}

Stream stream_of(c10::StreamId id)
{
	return Stream(Stream::UNSAFE, Device(KIND, 0), id);
}

CUstream_st *current_stream()
{
	return handle_of(stream_of(current));
}

std::atomic<int> recorded; // calls of recordDataPtrOnStream()

struct Guard final : c10::impl::DeviceGuardImplInterface {
	c10::DeviceType type() const override
	{
		return KIND;
	}
	Device exchangeDevice(Device) const override
	{
		return Device(KIND, 0);
	}
	Device getDevice() const override
	{
		return Device(KIND, 0);
	}
	void setDevice(Device) const override
	{
	}
	void uncheckedSetDevice(Device) const noexcept override
	{
	}
	DeviceIndex deviceCount() const noexcept override
	{
		return 1;
	}
	Stream getStream(Device) const override
	{
		return stream_of(current);
	}
	Stream getDefaultStream(Device) const override
	{
		return stream_of(0);
	}
	Stream getStreamFromGlobalPool(Device, bool) const override
	{
		return stream_of(1 + Gpu::use().next++ % STREAMS);
	}
	Stream getNewStream(Device device, int) const override
	{
		return getStreamFromGlobalPool(device, false);
	}
	Stream exchangeStream(Stream stream) const override
	{
		const auto before = current;

		current = stream.id();
		return stream_of(before);
	}
	void *getStreamNativeHandle(const Stream stream) const override
	{
		return handle_of(stream);
	}
	bool queryStream(const Stream &stream) const override
	{
		return cuStreamQuery(handle_of(stream)) == 0;
	}
	void synchronizeStream(const Stream &stream) const override
	{
		check(cuStreamSynchronize(handle_of(stream)));
	}
	void recordDataPtrOnStream(const c10::DataPtr &, const Stream &) const override
	{
		recorded++;
	}
	void record(void **event, const Stream &stream, const DeviceIndex,
		    const c10::EventFlag) const override
	{
		CUstream_st *const handle = handle_of(stream);

		if (!*event)
			check(cuEventCreate(reinterpret_cast<CUevent_st **>(event),
					    CUDA_EVENT_NO_TIMING));
		check(cuEventRecord(static_cast<CUevent_st *>(*event), handle));
	}
	void block(void *event, const Stream &stream) const override
	{
		if (event)
			check(cuStreamWaitEvent(handle_of(stream), static_cast<CUevent_st *>(event),
						0));
	}
	bool queryEvent(void *event) const override
	{
		Gpu::use();
		return !event || cuEventQuery(static_cast<CUevent_st *>(event)) == 0;
	}
	void synchronizeEvent(void *event) const override
	{
		Gpu::use();
		if (event)
			check(cuEventSynchronize(static_cast<CUevent_st *>(event)));
	}
	void destroyEvent(void *event, const DeviceIndex) const noexcept override
	{
		Gpu::use();
		if (event)
			cuEventDestroy_v2(static_cast<CUevent_st *>(event));
	}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
	bool isBuilt() const override
	{
		return true;
	}
	bool isAvailable() const override
	{
		return true;
	}
	bool hasPrimaryContext(DeviceIndex) const override
	{
		return true;
	}
	DeviceIndex deviceCount() const override
	{
		return 1;
	}
	DeviceIndex getCurrentDevice() const override
	{
		return 0;
	}
};

// ---- memory

void move(void *to, const void *from, size_t bytes)
{
	CUstream_st *const stream = current_stream();

	if (bytes == 0)
		return;
	check(cuMemcpyAsync(reinterpret_cast<cuda_address>(to),
			    reinterpret_cast<cuda_address>(from), bytes, stream));
}

struct Allocator final : at::Allocator {
	at::DataPtr allocate(size_t bytes) override
	{
		cuda_address memory = 0;

		Gpu::use();
		if (bytes)
			check(cuMemAlloc_v2(&memory, bytes));
		auto *const pointer = reinterpret_cast<void *>(memory);

		return { pointer, pointer, [](void *) {}, Device(KIND, 0) };
	}
	at::DeleterFnPtr raw_deleter() const override
	{
		return [](void *) {};
	}
	void copy_data(void *to, const void *from, size_t bytes) const override
	{
		move(to, from, bytes);
	}
} allocator;

constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
		 std::optional<at::Layout>, std::optional<Device>, std::optional<bool>,
		 std::optional<at::MemoryFormat> format)
{
	return at::detail::empty_generic(size, &allocator, KEYS, c10::dtype_or_default(type),
					 format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
			 std::optional<at::ScalarType> type, std::optional<at::Layout>,
			 std::optional<Device>, std::optional<bool>)
{
	return at::detail::empty_strided_generic(size, stride, &allocator, KEYS,
						 c10::dtype_or_default(type));
}

// The whole memory of a tensor on the CPU, and on it the same tensor.
at::Tensor on_cpu(const at::Tensor &tensor)
{
	const auto bytes = tensor.storage().nbytes();
	const auto all = at::empty({ int64_t(bytes) }, at::kByte);

	move(all.data_ptr(), tensor.storage().data(), bytes);
	check(cuStreamSynchronize(current_stream()));
	auto same = at::empty({ 0 }, tensor.options().device(at::kCPU))
			    .set_(all.storage(), tensor.storage_offset(), tensor.sizes(),
				  tensor.strides());

	same._set_conj(tensor.is_conj());
	same._set_neg(tensor.is_neg());
	return same;
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool)
{
	const bool alike = from.scalar_type() == to.scalar_type() && from.is_contiguous() &&
			   to.is_contiguous() && from.sizes() == to.sizes() &&
			   from.is_conj() == to.is_conj() && from.is_neg() == to.is_neg();

	if (alike && from.device() == to.device()) {
		move(to.data_ptr(), from.data_ptr(), from.nbytes()); // in the stream's order
		return to;
	}
	const auto source = from.is_cpu() ? from : on_cpu(from);

	if (to.is_cpu()) {
		to.copy_(source);
		return to;
	}
	const auto result = on_cpu(to); // what lies between its elements stays

	result.copy_(source);
	move(to.storage().mutable_data(), result.storage().data(), to.storage().nbytes());
	check(cuStreamSynchronize(current_stream()));
	return to;
}

// What a tensor of another size holds then is undefined.
const at::Tensor &resize(const at::Tensor &tensor, at::IntArrayRef size,
			 std::optional<at::MemoryFormat>)
{
	c10::Storage storage = tensor.storage();
	const size_t bytes = c10::multiply_integers(size) * tensor.element_size() +
			     tensor.storage_offset() * tensor.element_size();

	tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
	if (bytes > storage.nbytes()) {
		storage.set_data_ptr_noswap(allocator.allocate(bytes));
		storage.set_nbytes(bytes);
	}
	return tensor;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to)
{
	if (to.sizes() != from.sizes())
		resize(to, from.sizes(), std::nullopt);
	return copy_from(from, to, false);
}

at::Tensor view(const at::Tensor &tensor, at::IntArrayRef size)
{
	return at::native::view(tensor, size);
}

at::Tensor as_strided(const at::Tensor &tensor, at::IntArrayRef size, at::IntArrayRef stride,
		      std::optional<int64_t> offset)
{
	return at::native::as_strided_tensorimpl(tensor, size, stride, offset);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
	library.impl("empty.memory_format", &empty);
	library.impl("empty_strided", &empty_strided);
	library.impl("_copy_from", &copy_from);
	library.impl("_copy_from_and_resize", &copy_from_and_resize);
	library.impl("resize_", &resize);
	library.impl("view", &view);
	library.impl("view_as_real", &at::native::view_as_real);
	library.impl("as_strided", &as_strided);
}

// copy_from() does these itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, library)
{
	library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, library)
{
	library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

void on_the_cpu(const c10::OperatorHandle &operation, torch::jit::Stack *stack)
{
	at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library)
{
	library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

// ---- what tests ask for

std::mutex gate;
std::condition_variable opened;
bool is_open = true;

// What comes to the current stream from here on waits for open_gate().
void close_gate()
{
	is_open = false;
	check(cuLaunchHostFunc(
		current_stream(),
		[](void *) {
			std::unique_lock<std::mutex> lock(gate);

			opened.wait(lock, [] { return is_open; });
		},
		nullptr));
}

void open_gate()
{
	{
		std::lock_guard<std::mutex> lock(gate);

		is_open = true;
	}
	opened.notify_all();
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
	at::SetAllocator(KIND, &allocator);
	at::RegisterPrivateUse1HooksInterface(new Hooks);
	module.def("close_gate", &close_gate);
	module.def("open_gate", &open_gate);
	module.def("recorded", [] { return recorded.load(); });
	module.def("synchronize", [] { check(cuCtxSynchronize()); });
}
