// Sorts rows by the ids that they hold.
#pragma once

#include <cstdint>

#include "backend/device.h"

namespace trireme::gpu {

// Rows of id first_id + i become order[start[i]] up to order[start[i + 1]], in row order; rows of
// other ids than these `local_ids` are left out. start: [local_ids + 1], order: [rows].
void sort_rows(Queue&, std::int32_t* start, std::int32_t* order, const std::int32_t* ids,
               std::int64_t rows, std::int64_t first_id, std::int64_t local_ids);

}  // namespace trireme::gpu
