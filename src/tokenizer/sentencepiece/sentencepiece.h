// Tokenizers from a SentencePiece .model file, through the SentencePiece library.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace trireme {

// The three ways in which Megatron uses such a file.
enum class SentencePieceStyle {
  plain,     // GPTSentencePieceTokenizer: the model as it is; EOD is </s>
  llama2,    // Llama2Tokenizer: as plain, but a document begins with <s>
  megatron,  // SentencePieceTokenizer: <CLS> <SEP> <EOD> <MASK> <PAD> and the like are added after
             // the model's own pieces where it lacks them, and are found in text; EOD is <EOD>
};

// `special_text` concerns the megatron style only: SentencePiece itself reads "<s>" as plain text.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& model_file,
                                              SentencePieceStyle style, bool special_text);

}  // namespace trireme
