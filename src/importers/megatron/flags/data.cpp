// Flags of data and tokenizers.
#include "importers/megatron/flags/make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kWeightedSplits =
    "pass the datasets and their weights to --train-data-path, --valid-data-path and "
    "--test-data-path";
constexpr const char* kIndexFiles = "the order of samples is always derived from the seed";
constexpr const char* kPadding =
    "padding is neither trained nor stored; model.vocab_multiple pads in memory";

}  // namespace

std::vector<Flag> data_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      to_key("--data-path", texts, "data.path"),
      rule("--split", text, "data.split", "absent: `969, 30, 1` with --data-path"),
      to_key("--train-data-path", texts, "data.train_path"),
      to_key("--valid-data-path", texts, "data.valid_path"),
      to_key("--test-data-path", texts, "data.test_path"),
      rule("--data-args-path", text, "data.path", "a file with the arguments of --data-path"),
      rule("--per-split-data-args-path", text, "data.train_path, data.valid_path, data.test_path",
           "a JSON file with the lists `train`, `valid` and `test`"),
      refused("--multiple-validation-sets", none,
              "a run evaluates one validation set: pass one to --valid-data-path and evaluate the "
              "others with `trireme eval RUN --data ...`"),
      refused("--full-validation", none,
              "evaluations have a fixed number of iterations: set --eval-iters, or evaluate a "
              "whole set with `trireme eval`"),
      refused("--mock-data", none,
              "mock data is not supported; create a dataset with `trireme preprocess`"),
      refused("--sample-rate", number, "all samples are always used", "1.0 1"),
      refused("--train-data-exact-num-epochs", integer, "give --train-samples"),
      refused("--data-efficiency-curriculum-learning", none,
              "only sequence-length curricula are supported"),
      refused("--use-dataset-only", text, "a run always trains on the data", "False"),
      refused("--aml-data-download-path", text, "data is read from files: set their folder"),
      ignored("--return-data-index", none, "`trireme data samples` lists them"),
      ignored("--decoder-seq-length", integer, "applies to encoder-decoder models"),
      ignored("--retriever-seq-length", integer, "applies to a different model"),
      to_key("--data-cache-path", text, "data.cache_dir"),
      rule("--tokenizer-type", choice, "data.tokenizer",
           "absent: pretrain-gpt `gpt2`, pretrain-bert `bert`",
           "GPT2BPETokenizer=gpt2 BertWordPieceLowerCase=bert BertWordPieceCase=bert_cased "
           "SentencePieceTokenizer=SentencePieceTokenizer GPTSentencePieceTokenizer=sentencepiece "
           "Llama2Tokenizer=llama2 TikTokenizer=tiktoken HuggingFaceTokenizer=hf HFTokenizer=hf "
           "PretrainedFromHF=hf "
           "NullTokenizer=null"),
      to_key("--vocab-file", text, "data.vocab_file"),
      to_key("--merge-file", text, "data.merge_file"),
      rule("--tokenizer-model", text, "data.tokenizer_model",
           "a file; with the tokenizers of Hugging Face also a folder with tokenizer.json"),
      rule("--tokenizer-name-or-path", text, "data.tokenizer_model",
           "with PretrainedFromHF: a folder with tokenizer.json; models are never downloaded"),
      ignored("--trust-remote-code", none, "tokenizer code is never executed"),
      rule("--vocab-size", integer, "model.vocab_size",
           "with NullTokenizer, plus one for the end of a document; otherwise the tokenizer "
           "determines it"),
      rule("--null-tokenizer-eod-id", integer, "model.vocab_size",
           "since April 2026 the end-of-document id is within --vocab-size: only the last id is "
           "supported"),
      refused("--null-tokenizer-pad-id", integer, "padding tokens are never excluded from the loss",
              "-1"),
      refused("--mid-level-dataset-surplus", number, "the order of samples uses Megatron's 0.005",
              "0.005"),
      rule("--dataloader-inter-document-masking", none,
           "data.reset_attention_mask, data.reset_position_ids",
           "`true`, where documents end with their token, which requires confirmation"),
      refused("--vocab-extra-ids", integer, "the vocabulary is that of the tokenizer", "0"),
      ignored("--tiktoken-pattern", text, "determined by the file (docs/tokenizers.md)"),
      ignored("--tiktoken-num-special-tokens", integer, "determined by the file"),
      refused("--tiktoken-special-tokens", texts, "special tokens are determined by the file"),
      turns("--reset-position-ids", "data.reset_position_ids", "true", "false"),
      turns("--reset-attention-mask", "data.reset_attention_mask", "true", "false"),
      turns("--eod-mask-loss", "data.eod_mask_loss", "true", "false"),
      bert_only(to_key("--mask-prob", number, "data.mask_prob", "0.15")),
      bert_only(to_key("--short-seq-prob", number, "data.short_seq_prob", "0.1")),
      ignored("--num-dataset-builder-threads", integer, "sample orders are built by all threads"),
      ignored("--no-create-attention-mask-in-dataloader", none, "masks are never stored"),
      refused("--dataloader-type", text, "the order of samples is that of Megatron's `single`",
              "single"),
      refused("--s3-cache-path", text, "data is read from files"),
      rule("--fim-data", none, "data.fim_rate", "enables fill-in-the-middle"),
      rule("--fim-rate", number, "data.fim_rate", "only with --fim-data; absent: 0.5"),
      rule("--fim-spm-rate", number, "data.fim_spm_rate", "only with --fim-data; absent: 0.5"),
      rule("--fim-prefix-token", text, "data.fim_prefix_token",
           "only with --fim-data; absent: `<fim_prefix>`"),
      rule("--fim-middle-token", text, "data.fim_middle_token",
           "only with --fim-data; absent: `<fim_middle>`"),
      rule("--fim-suffix-token", text, "data.fim_suffix_token",
           "only with --fim-data; absent: `<fim_suffix>`"),
      ignored("--fim-pad-token", text,
              "documents that become shorter are padded with end-of-document tokens"),
      ignored("--fim-eod-token", text, "the tokenizer determines the end-of-document token"),
      refused("--fim-no-prefix", text, "every document may be rewritten"),
  };
  add_refused(flags, "pass its contents to --data-path", "--data-file-list=TEXT");
  add_refused(flags, kWeightedSplits,
              "--train-weighted-split-paths=TEXT... --valid-weighted-split-paths=TEXT... "
              "--test-weighted-split-paths=TEXT... --train-weighted-split-paths-path=TEXT "
              "--valid-weighted-split-paths-path=TEXT --test-weighted-split-paths-path=TEXT");
  add_refused(flags, kIndexFiles,
              "--train-idx-path=TEXT --train-doc-idx-path=TEXT --train-sample-idx-path=TEXT "
              "--train-shuffle-idx-path=TEXT --train-desc-path=TEXT");
  add_ignored(flags, "one thread reads ahead (data.prefetch)",
              "--valid-num-workers=N --num-workers=N");
  add_ignored(flags, "indexed datasets are always mapped",
              "--data-impl=TEXT --dataset-impl=TEXT --mmap-warmup --no-mmap-bin-files");
  add_refused(flags, "whole documents are rewritten",
              "--fim-split-sample=TEXT --fim-fragment-rate=X");
  add_ignored(flags, kIndexFiles,
              "--per-dataset-sequences-path=TEXT --dataloader-fast-cache-load "
              "--dataloader-defer-npy-index-mmap");
  add_refused(flags, "data is read from files", "--object-storage-cache-path=TEXT");
  add_ignored(flags, "data is read from files", "--enable-msc --disable-msc");
  add_refused(flags, "padding tokens are never excluded from the loss",
              "--allow-ambiguous-pad-tokens");
  add_ignored(flags, kPadding,
              "--padded-vocab-size=N --no-pad-vocab-size --disable-pad-vocab-size");
  add_refused(flags, "the vocabulary is that of the tokenizer file",
              "--tokenizer-metadata=TEXT --tokenizer-special-tokens=TEXT...");
  add_ignored(flags, "documents are already tokenized",
              "--tokenizer-sentencepiece-legacy "
              "--no-tokenizer-sentencepiece-ignore-extra-whitespaces "
              "--disable-tokenizer-sentencepiece-ignore-extra-whitespaces "
              "--tokenizer-hf-no-use-fast --tokenizer-hf-no-include-special-tokens "
              "--use-gigatoken");
  return flags;
}

}  // namespace trireme::megatron
