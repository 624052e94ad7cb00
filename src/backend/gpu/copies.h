// Copies from device memory to shared memory that continue while the thread computes, where the
// processor has them.
//
// A thread begins copies, ends a group of them with commit(), and later waits for all but its
// newest groups; other threads see what was copied behind the next barrier. copy_stages pieces lie
// in shared memory at a time, where one is computed with while others come.
#pragma once

#include "backend/gpu/language.h"

#if TRIREME_EMULATED
#include "backend/gpu/emulated/copies.h"
#else
#include "backend/gpu/vendor/copies.h"
#endif
