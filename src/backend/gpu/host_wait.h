// Host waits for the device, which a wait policy can observe.
#pragma once

#include "backend/device.h"
#include "backend/gpu/runtime.h"

namespace trireme::gpu {

// See Device::set_wait_policy.
void set_wait_policy(WaitPolicy*);

// Block until the event has completed, or until the stream has run all its work.
void wait_on_host(runtime::Event);
void wait_on_host(runtime::Stream);

}  // namespace trireme::gpu
