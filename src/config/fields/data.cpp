// The keys of [data].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> data_fields() {
  return {
      FIELD(data, path, any(), "",
            "indexed datasets (paths without .bin and .idx), or a blend: weight, path, weight, "
            "path and so on")
          .also("data_path dataset dataset_path"),
      FIELD(data, train_path, any(), "", "like path, for training only; conflicts with path"),
      FIELD(data, valid_path, any(), "", "like path, for validation only; conflicts with path"),
      FIELD(data, test_path, any(), "", "like path, for testing only; conflicts with path"),
      FIELD(data, split, any(), "", "shares of training, validation and test documents in path"),
      FIELD(data, sources, any(), "",
            "text to train on without preprocessing: files, patterns or folders of Parquet, Arrow, "
            "JSON lines or text, or a blend: weight, files, weight, files and so on; conflicts "
            "with path"),
      FIELD(data, valid_sources, any(), "", "like sources, for validation; conflicts with path"),
      FIELD(data, source_keys, any(), "",
            "column or JSON key of the text: one for all sources or one for each"),
      FIELD(data, source_documents, any(), "", "unit that is one document in plain-text sources"),
      FIELD(data, shuffle_buffer, between(0, 1e9), "documents",
            "size of the shuffle buffer of each source, in documents; row groups are also read in "
            "shuffled order; 0: file order"),
      FIELD(data, skip_bad_rows, any(), "",
            "sources: skip rows and lines without text instead of stopping with an error"),
      FIELD(data, tokenizer_threads, between(1, 1024), "threads",
            "threads that tokenize each source during training"),
      FIELD(data, cache_dir, any(), "", "folder for cached sample orders; \"\": next to the data"),
      FIELD(data, tokenizer,
            one_of({"gpt2", "tiktoken", "hf", "bert", "bert_cased", "sentencepiece",
                    "SentencePieceTokenizer", "llama2", "null"}),
            "", "type of tokenizer, see docs/tokenizers.md; \"\": none, set model.vocab_size"),
      FIELD(data, vocab_file, any(), "",
            "vocabulary file of gpt2 (vocab.json) or bert (vocab.txt)"),
      FIELD(data, merge_file, any(), "", "merges file of gpt2 (merges.txt)"),
      FIELD(data, tokenizer_model, any(), "",
            "model file of tiktoken or sentencepiece, tokenizer.json of hf"),
      FIELD(data, tokenizer_pattern, any(), "",
            "kind of tiktoken file, see docs/tokenizers.md; \"\": detected from the file"),
      FIELD(data, prefetch, between(1, 1e6), "micro-batches",
            "number of micro-batches to prefetch"),
      FIELD(data, reset_position_ids, any(), "", "restart positions in each document"),
      FIELD(data, reset_attention_mask, any(), "", "restrict attention to the same document"),
      FIELD(data, eod_mask_loss, any(), "",
            "no loss at positions whose input is the end-of-document token"),
      FIELD(data, mask_prob, fraction(), "", "bert: share of tokens to mask and predict"),
      FIELD(data, short_seq_prob, fraction(), "",
            "bert: share of samples that are deliberately shortened"),
      FIELD(data, fim_rate, between(0, 1), "",
            "gpt: share of documents rewritten for fill-in-the-middle training; 0: off"),
      FIELD(data, fim_spm_rate, between(0, 1), "",
            "share of these documents with the suffix before the prefix (SPM)"),
      FIELD(data, fim_prefix_token, any(), "", "token before the prefix"),
      FIELD(data, fim_middle_token, any(), "", "token before the middle"),
      FIELD(data, fim_suffix_token, any(), "", "token before the suffix"),
  };
}

}  // namespace trireme
