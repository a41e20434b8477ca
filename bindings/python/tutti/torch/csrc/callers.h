// SPDX-License-Identifier: BSD-3-Clause
// Where in the Python program an operation is called, for the flight recorder.
#pragma once

#include <string>

namespace tutti_torch
{

// The innermost frames outside PyTorch: "train.py:42 in step < train.py:90 in main". "" in a thread
// that runs no Python, as those of the backward pass. Takes the GIL.
std::string python_caller();

} // namespace tutti_torch
