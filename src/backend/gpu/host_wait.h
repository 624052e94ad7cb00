// Waits of the host for the device, of which somebody may want to know.
#pragma once

#include "backend/device.h"
#include "backend/gpu/runtime.h"

namespace trireme::gpu {

// As Device::set_wait_policy.
void set_wait_policy(WaitPolicy*);

// Returns when the event has passed, or the stream has run what it holds.
void wait_on_host(runtime::Event);
void wait_on_host(runtime::Stream);

}  // namespace trireme::gpu
