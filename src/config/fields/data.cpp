// The keys of [data].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> data_fields() {
  return {
      FIELD(data, path, any(), "",
            "indexed datasets (path without .bin and .idx), or a blend: weight, path, weight, path "
            "and so on")
          .also("data_path dataset dataset_path"),
      FIELD(data, train_path, any(), "", "like path, for training alone; excludes path"),
      FIELD(data, valid_path, any(), "", "like path, for validation alone; excludes path"),
      FIELD(data, test_path, any(), "", "like path, for testing alone; excludes path"),
      FIELD(data, split, any(), "", "shares of training, validation and test documents in path"),
      FIELD(data, sources, any(), "",
            "text to train on as it lies: files, patterns or folders of Parquet, Arrow, JSON lines "
            "or text, or a blend: weight, files, weight, files and so on; excludes path"),
      FIELD(data, valid_sources, any(), "", "like sources, for validation; excludes path"),
      FIELD(data, source_keys, any(), "",
            "column or JSON key of the texts: one for all sources or one for each"),
      FIELD(data, source_documents, any(), "", "what a document is in plain text of sources"),
      FIELD(data, shuffle_buffer, between(0, 1e9), "documents",
            "documents of a source that are shuffled among each other, read from row groups in "
            "shuffled order; 0: the order of the files"),
      FIELD(data, skip_bad_rows, any(), "",
            "sources: rows and lines without a text are passed over, not an error"),
      FIELD(data, tokenizer_threads, between(1, 1024), "threads",
            "that tokenize each source next to training"),
      FIELD(data, cache_dir, any(), "", "folder for sample orders; \"\": next to the data"),
      FIELD(data, tokenizer,
            one_of({"gpt2", "tiktoken", "hf", "bert", "bert_cased", "sentencepiece",
                    "SentencePieceTokenizer", "llama2", "null"}),
            "", "kind of tokenizer, see docs/tokenizers.md; \"\": none, set model.vocab_size"),
      FIELD(data, vocab_file, any(), "", "vocabulary of gpt2 (vocab.json) or bert (vocab.txt)"),
      FIELD(data, merge_file, any(), "", "merges of gpt2 (merges.txt)"),
      FIELD(data, tokenizer_model, any(), "",
            "file of tiktoken or sentencepiece, tokenizer.json of hf"),
      FIELD(data, tokenizer_pattern, any(), "",
            "kind of a tiktoken file, see docs/tokenizers.md; \"\": the file tells"),
      FIELD(data, prefetch, between(1, 1e6), "micro-batches",
            "number that is read ahead of training"),
      FIELD(data, reset_position_ids, any(), "", "positions start again in each document"),
      FIELD(data, reset_attention_mask, any(), "", "attention stays inside a document"),
      FIELD(data, eod_mask_loss, any(), "", "no loss where the input is the end of a document"),
      FIELD(data, mask_prob, fraction(), "", "bert: share of the tokens to predict"),
      FIELD(data, short_seq_prob, fraction(), "",
            "bert: share of the samples that are shortened on purpose"),
      FIELD(data, fim_rate, between(0, 1), "",
            "gpt: share of the documents that are rewritten to fill in the middle; 0: off"),
      FIELD(data, fim_spm_rate, between(0, 1), "",
            "share of these that have the suffix before the prefix"),
      FIELD(data, fim_prefix_token, any(), "", "token before the prefix"),
      FIELD(data, fim_middle_token, any(), "", "token before the middle"),
      FIELD(data, fim_suffix_token, any(), "", "token before the suffix"),
  };
}

}  // namespace trireme
