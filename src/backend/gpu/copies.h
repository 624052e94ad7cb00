// Asynchronous copies from device to shared memory (cp.async), which overlap with computation where
// the hardware supports it.
//
// A thread starts copies, closes a group with commit(), and later waits for all but its newest
// groups; other threads see the data after the next barrier. copy_stages pieces are in shared
// memory at a time: one is used for computation while the others arrive.
#pragma once

#include "backend/gpu/language.h"

#if TRIREME_EMULATED
#include "backend/gpu/emulated/copies.h"
#else
#include "backend/gpu/vendor/copies.h"
#endif
