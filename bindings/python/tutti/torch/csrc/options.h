// SPDX-License-Identifier: BSD-3-Clause
// What a process group of tutti can be told beyond PyTorch's options: tutti_config_t, by its names.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace tutti_torch
{

// Empty texts and 0 are the defaults of tutti_config_t: the environment's.
struct TuttiOptions : c10d::Backend::Options {
	explicit TuttiOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
	    : c10d::Backend::Options("tutti", timeout)
	{
	}
	c10::intrusive_ptr<c10d::Backend::Options> clone() const // virtual in newer versions
	{
		return c10::make_intrusive<TuttiOptions>(*this);
	}

	std::string transports;
	std::string algorithm;
	std::string host_id;
	std::string key;
	int reproducible = 0;
	int encrypt = 0;
	std::string wire;     // a name, as of TUTTI_WIRE
	bool callers = false; // tell the flight recorder where the program calls
};

} // namespace tutti_torch
