// SPDX-License-Identifier: BSD-3-Clause
// Sums of sparse tensors. Ranks have different numbers of elements: all gather all indices and values,
// and each adds them up in the order and by the steps of Gloo's backend, so that the result is Gloo's.
#include <ATen/ATen.h>

#include <limits>

#include "backend.h"
#include "call.h"
#include "errors.h"

namespace tutti_torch
{

namespace
{

constexpr int64_t DIMENSIONS_MAX = 64; // of a tensor of PyTorch

// Elements, dimensions of the indices, dimensions, and the size of each, as one row.
at::Tensor shape_of(const at::Tensor &sparse)
{
	auto row = at::zeros({ 1, 3 + DIMENSIONS_MAX }, at::kLong);
	auto *numbers = row.data_ptr<int64_t>();

	numbers[0] = sparse._nnz();
	numbers[1] = sparse.sparse_dim();
	numbers[2] = sparse.dim();
	std::copy(sparse.sizes().begin(), sparse.sizes().end(), numbers + 3);
	return row;
}

std::vector<int64_t> with_rows(int64_t rows, const at::Tensor &like)
{
	auto sizes = like.sizes().vec();

	sizes[0] = rows;
	return sizes;
}

// As other ranks have sent them; their sum is a number, too.
void check_counts(const char *title, const at::Tensor &counts)
{
	const int64_t most = std::numeric_limits<int64_t>::max() / counts.numel();

	for (int64_t rank = 0; rank < counts.numel(); rank++) {
		const int64_t count = counts.data_ptr<int64_t>()[rank];

		if (count < 0 || count > most)
			throw_failure(
				TUTTI_ERR_UNSUPPORTED,
				std::string(title) + ": rank " + std::to_string(rank) + " sent " +
					std::to_string(count) +
					", expected its number of elements; all ranks must "
					"make the same calls, with the same version of tutti");
	}
}

at::Tensor add_up(const Tensors &indices, const Tensors &values, const at::Tensor &like)
{
	const auto part = [&](size_t rank) {
		return at::sparse_coo_tensor(indices[rank].t(), values[rank], like.sizes(),
					     like.options());
	};
	auto sum = part(0).clone(); // what is added is written into its memory

	for (size_t rank = 1; rank < indices.size(); rank++)
		sum += part(rank);
	return sum.coalesce();
}

} // namespace

// The sizes are exchanged before the call returns, the rest as the caller asks for.
TuttiBackend::WorkPtr TuttiBackend::allreduce_sparse(Tensors &tensors,
						     const c10d::AllreduceOptions &options)
{
	const char *title = "tutti:all_reduce";

	TORCH_CHECK_VALUE(tensors.size() == 1 && tensors[0].layout() == at::kSparse &&
				  tensors[0].is_cpu() && !coalescing(),
			  title,
			  ": only sums sparse tensors of COO layout on the CPU, one in a "
			  "call; call to_dense() first");
	TORCH_CHECK_VALUE(options.reduceOp == c10d::ReduceOp::SUM, title,
			  ": sparse tensors have SUM alone; call to_dense() first");
	const at::NoGradGuard no_grad;
	const auto input = tensors[0].coalesce();
	auto shape = shape_of(input);
	auto shapes = at::empty({ getSize(), shape.size(1) }, at::kLong);
	c10d::AllgatherOptions gathering;

	gathering.timeout = options.timeout;
	_allgather_base(shapes, shape, gathering)->wait();
	TORCH_CHECK_VALUE(shapes.slice(1, 1).eq(shape.slice(1, 1)).all().item<bool>(), title,
			  ": Sparse dimensions do not match: ranks have tensors of different sizes "
			  "or sparse dimensions");
	const auto counts = shapes.select(1, 0).contiguous();
	check_counts(title, counts);
	const auto indices = input.indices().t().contiguous(), values = input.values();
	const at::IntArrayRef rows(counts.data_ptr<int64_t>(), size_t(getSize()));
	const int64_t total = counts.sum().item<int64_t>();
	const auto all_indices = at::empty(with_rows(total, indices), indices.options());
	const auto all_values = at::empty(with_rows(total, values), values.options());
	Call call(*this, c10d::OpType::_ALLREDUCE_SPARSE, title, { indices, values },
		  { all_indices, all_values }, options.timeout, is_async(options));
	const auto each_indices = all_indices.split_with_sizes(rows);
	const auto each_values = all_values.split_with_sizes(rows);

	all_gather_list(call, each_indices, indices);
	all_gather_list(call, each_values, values);
	call.state().set_result(tensors);
	call.state().when_done([each_indices, each_values, output = tensors[0]] {
		const at::NoGradGuard in_its_thread;
		auto result = output;

		result.copy_(add_up(each_indices, each_values, output));
	});
	return call.work();
}

} // namespace tutti_torch
