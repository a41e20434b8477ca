// SPDX-License-Identifier: BSD-3-Clause
// Streams of PyTorch's devices, without the headers of any.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tutti_torch
{

inline c10::Stream current_stream(c10::Device device)
{
	return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

inline c10::Stream stream_of_pool(c10::Device device)
{
	return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// What comes to `stream` later waits for what is on `before` now.
inline void follow(const c10::Stream &stream, const c10::Stream &before)
{
	c10::Event here(before.device_type());

	here.record(before);
	here.block(stream);
}

} // namespace tutti_torch
