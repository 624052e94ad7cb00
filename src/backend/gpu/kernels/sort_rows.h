// Sorts rows by their ids.
#pragma once

#include <cstdint>

#include "backend/device.h"

namespace trireme::gpu {

// Writes the rows of id first_id + i to order[start[i]] .. order[start[i + 1] - 1], in their order;
// omits ids outside the `local_ids`. start: [local_ids + 1], order: [rows].
void sort_rows(Queue&, std::int32_t* start, std::int32_t* order, const std::int32_t* ids,
               std::int64_t rows, std::int64_t first_id, std::int64_t local_ids);

}  // namespace trireme::gpu
