// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's interface to collectives (c10d::Backend) on a communicator of tutti.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm.h"
#include "lists.h"
#include "monitored_barrier.h"
#include "options.h"
#include "versions.h"
#include "work.h"

namespace tutti_torch
{

class TuttiBackend : public c10d::Backend
{
      public:
	using WorkPtr = c10::intrusive_ptr<c10d::Work>;
	using OptionsPtr = c10::intrusive_ptr<TuttiOptions>;

	TuttiBackend(const StorePtr &store, int rank, int size, const OptionsPtr &options);
	~TuttiBackend() override;

	const std::string getBackendName() const override
	{
		return "tutti";
	}
	bool supportsSplitting() const override
	{
		return true;
	}
	// What follows is new in some version of PyTorch: versions.h.
	bool supportsCoalescing() const
	{
		return true;
	}
	c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions();
	void setTimeout(std::chrono::milliseconds timeout);
	ErrorType getError();
	c10::intrusive_ptr<c10d::Backend> split(
		const StorePtr &store, const std::vector<int> &ranks,
		const c10::intrusive_ptr<c10d::Backend::Options> &options);
	void abort();
	void shutdown();
	void eagerConnectSingleDevice(at::Device device);

	WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
	WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
	WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
	WorkPtr allreduce_coalesced(Tensors &tensors,
				    const c10d::AllreduceCoalescedOptions &options) override;
	WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
	WorkPtr allgather(TensorLists &outputs, Tensors &inputs,
			  const c10d::AllgatherOptions &options) override;
	WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
				const c10d::AllgatherOptions &options) override;
	WorkPtr allgather_coalesced(TensorLists &outputs, Tensors &inputs,
				    const c10d::AllgatherOptions &options) override;
	WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
						const c10d::AllgatherOptions &options) override;
	WorkPtr gather(TensorLists &outputs, Tensors &inputs,
		       const c10d::GatherOptions &options) override;
	WorkPtr gather_into_tensor(at::Tensor &output, at::Tensor &input,
				   const c10d::GatherOptions &options);
	WorkPtr scatter(Tensors &outputs, TensorLists &inputs,
			const c10d::ScatterOptions &options) override;
	WorkPtr reduce_scatter(Tensors &outputs, TensorLists &inputs,
			       const c10d::ReduceScatterOptions &options) override;
	WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
				     const c10d::ReduceScatterOptions &options) override;
	WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
						const c10d::ReduceScatterOptions &options) override;
	WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input,
			      std::vector<int64_t> &output_splits,
			      std::vector<int64_t> &input_splits,
			      const c10d::AllToAllOptions &options) override;
	WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
			 const c10d::AllToAllOptions &options) override;
	WorkPtr send(Tensors &tensors, int peer, int tag) override;
	WorkPtr recv(Tensors &tensors, int peer, int tag) override;
	WorkPtr recvAnysource(Tensors &tensors, int tag) override;
	WorkPtr barrier(const c10d::BarrierOptions &options) override;
	void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

	void startCoalescing() override;
	WorkPtr endCoalescing() override;

	uint64_t getSequenceNumberForGroup() override
	{
		return sequence_;
	}
	void setSequenceNumberForGroup() override
	{
	}

      private:
	class Call; // one operation: call.h
	friend class Call;
	using Start = TuttiWork::Start; // here: of one call of the library

	std::chrono::milliseconds timeout_of(std::chrono::milliseconds asked) const;
	void describe_call(tutti_comm_t comm, std::chrono::milliseconds timeout);
	bool coalescing() const;
	void drop_group(); // while an exception is handled
	static tutti_result_t start_group(const Place &at, const Start &first,
					  const std::vector<Start> &others);
	c10::Stream side_stream(c10::Device device);
	void all_gather(Call &call, const at::Tensor &output, const at::Tensor &input);
	void all_gather_list(Call &call, const Tensors &outputs, const at::Tensor &input);
	void check_gathered(const char *title, const Tensors &outputs,
			    const at::Tensor &input) const;
	void all_reduce(Call &call, const at::Tensor &tensor, const c10d::ReduceOp &op);
	void reduce_scatter_blocks(Call &call, const at::Tensor &output, const at::Tensor &input,
				   const c10d::ReduceOp &op);
	WorkPtr receive(c10d::OpType type, Tensors &tensors, int peer, int tag);

	OptionsPtr options_;
	std::chrono::milliseconds timeout_;   // of operations that give none
	std::chrono::milliseconds made_with_; // the communicator's
	std::shared_ptr<Comm> comm_;
	MonitoredBarrier monitored_;
	std::atomic<uint64_t> sequence_{ 0 };	    // collectives that were started
	std::atomic<std::thread::id> coalescing_{}; // the thread that collects a group; or none
	c10::intrusive_ptr<TuttiWork>
		coalesced_; // the group that is being collected, if it has any
	std::vector<Start> collected_;
	std::mutex side_mutex_;
	std::optional<c10::Stream> side_stream_; // of operations that are not on the current one
};

} // namespace tutti_torch
