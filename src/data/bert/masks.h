// Loss weights, positions and visibility of a sample that packs several documents.
#pragma once

#include <cstdint>
#include <span>

#include "data/batch.h"

namespace trireme {

struct MaskOptions {
  std::int32_t eod_id = -1;           // ends a document; needed if one of the below is set
  bool reset_position_ids = false;    // positions count from 0 in each document
  bool reset_attention_mask = false;  // no position sees another document
  bool eod_mask_loss = false;         // no loss where the input is the end of a document
};

// Fills all of `row` but tokens and targets, from its tokens. A document ends with, and includes,
// its end token; the tokens before the first end token of the sample are a document too.
void fill_masks(const MaskOptions& options, std::int64_t seq_length, const BatchRow& row);

// Fills a whole row from the tokens of a sample, of which the last is only predicted.
void fill_sample(const MaskOptions& options, std::span<const std::int32_t> tokens,
                 const BatchRow& row);

}  // namespace trireme
