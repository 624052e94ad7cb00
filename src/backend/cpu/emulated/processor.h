// Must be included first in files compiled for the emulation of AMX: declares a processor with
// 512-bit vectors, bf16 and tiles, after the compiler's own header was read without them.
#pragma once

#include <immintrin.h>

#include "backend/cpu/emulated/tiles.h"
#include "backend/cpu/emulated/wide.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler's own names.
#define __AVX512F__ 1
#define __AVX512BF16__ 1
#define __AMX_BF16__ 1
// NOLINTEND(bugprone-reserved-identifier)
