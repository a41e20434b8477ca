// SPDX-License-Identifier: BSD-3-Clause
// Checks of the lists of tensors that operations are given, in the words of PyTorch's own backends.
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace tutti_torch
{

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// One list, of a tensor for each rank. `kind`: "input" or "output".
inline void check_ranks_list(const char *title, const TensorLists &lists, int size,
			     const char *kind)
{
	TORCH_CHECK_VALUE(lists.size() == 1, title, ": requires a single-element ", kind,
			  " list containing a list with ", size, " tensors.");
	TORCH_CHECK_VALUE(lists[0].size() == size_t(size), title, ": Incorrect ", kind,
			  " list size ", lists[0].size(), ". ", kind[0] == 'o' ? "Output" : "Input",
			  " list size should be ", size, ", same as size of the process group.");
}

// Of a rank that is not the root.
inline void check_no_list(const char *title, const TensorLists &lists, const char *kind)
{
	TORCH_CHECK_VALUE(lists.empty(), title, ": requires empty ", kind, " on non-root");
}

// A list for each rank, each as long as that of the inputs.
inline void check_lists(const char *title, const TensorLists &lists, size_t inputs, int size)
{
	TORCH_CHECK_VALUE(lists.size() == size_t(size), title,
			  ": output lists should be equal to world size");
	for (const auto &list : lists)
		TORCH_CHECK_VALUE(list.size() == inputs, title,
				  ": invalid output size: (expected length ", inputs, ", got ",
				  list.size(), ")");
}

inline void check_tensor_for_each(const char *title, const Tensors &tensors, int size,
				  const char *kind)
{
	TORCH_CHECK_VALUE(tensors.size() == size_t(size), title, ": ", kind, " tensor list size ",
			  tensors.size(), " does not match world size ", size);
}

} // namespace tutti_torch
