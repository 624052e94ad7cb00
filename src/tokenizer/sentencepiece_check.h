// What the SentencePiece library takes on trust: the table by which it normalises a text.
#pragma once

#include <string_view>

namespace trireme {

// Whether every place of the normalisation tables that the library can be led to lies inside of
// them, and the model is a protocol buffer as far as that takes to see. All else the library checks
// by itself.
bool has_sound_charsmaps(std::string_view model);

}  // namespace trireme
