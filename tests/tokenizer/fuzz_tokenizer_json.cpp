// Fuzz target for tokenizer.json with all kinds of components.
#include "fuzz/fuzz.h"
#include "tokenizer/fuzz_round_trip.h"

FUZZ_SEEDS(
    {R"({"added_tokens":[{"id":0,"content":"<unk>","special":true,"normalized":false},)"
     R"({"id":6,"content":"<s>","lstrip":true,"rstrip":true,"single_word":true,"normalized":true}],)"
     R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},)"
     R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},"pre_tokenizer":null,)"
     R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>",)"
     R"("type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A"}},)"
     R"({"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"ids":[6]}}},)"
     R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)"
     R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ",)"
     R"("start":1,"stop":0}]},"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,)"
     R"("byte_fallback":true,"vocab":{"<unk>":0,"<0xC3>":1,"\u2581":2,"t":3,"h":4,"th":5},)"
     R"("merges":["t h"]}})",
     R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":)"
     R"({"Regex":"\\p{N}{1,3}|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)"
     R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]},"decoder":)"
     R"({"type":"ByteLevel"},"post_processor":{"type":"RobertaProcessing","sep":["</s>",1],)"
     R"("cls":["<s>",0]},"model":{"ignore_merges":true,"vocab":{"<s>":0,"</s>":1,"t":2,"h":3,)"
     R"("th":4,"\u0120":5},"merges":[["t","h"]]}})",
     R"({"normalizer":{"type":"BertNormalizer","strip_accents":null},"pre_tokenizer":)"
     R"({"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
     R"("model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"th":1,"##e":2}}})",
     R"({"pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first",)"
     R"("split":true},"decoder":{"type":"Metaspace"},"model":{"type":"BPE","vocab":{"a":0},)"
     R"("merges":[]}})"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const trireme::FuzzFile file("tokenizer.json", {reinterpret_cast<const char*>(data), size});
  return trireme::fuzz_reader([&] {
    const auto tokenizer = trireme::make_tokenizer({.type = "hf", .model_file = file.path()});
    try_tokenizer(*tokenizer, false);
  });
}
