// The post-processors of a tokenizer.json: which special tokens are put around a text or a pair.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/json_place.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

class PairTemplate {
 public:
  // The plain template: A with type 0, then B with type 1.
  PairTemplate();

  // Reads TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which changes no ids),
  // a Sequence of them of which one adds tokens, or null. Errors: any other type, or a special
  // token without ids.
  explicit PairTemplate(const JsonPlace& place);

  using EncodeText = std::function<void(std::string_view, std::vector<std::int32_t>&)>;
  Encoding apply(std::string_view text, std::optional<std::string_view> pair,
                 const EncodeText& encode) const;

  // The special tokens that open a single text.
  std::vector<std::int32_t> before_text() const;

 private:
  struct Part {
    char text = 0;  // 'A' or 'B'; 0: `ids`
    std::vector<std::int32_t> ids;
    std::int32_t type = 0;
  };
  using Parts = std::vector<Part>;

  void read(const JsonPlace& place);
  void read_bert(const JsonPlace& place, bool roberta);
  static Parts read_parts(const JsonPlace& place, const JsonPlace& special);

  Parts single_;
  Parts pair_;
  bool adds_tokens_ = false;  // one of the parts that were read says what to add
};

}  // namespace trireme
