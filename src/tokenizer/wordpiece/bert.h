// BERT's tokenizer from a vocab.txt.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace trireme {

// One token per line; the line's number from 0 is its id. [PAD], [UNK], [CLS], [SEP] and [MASK] are
// required. EOD and EOS are [SEP], BOS is [CLS]. Decoding joins pieces and cleans spaces up.
std::unique_ptr<Tokenizer> load_bert(const std::string& vocab_file, bool lowercase,
                                     bool special_text);

}  // namespace trireme
