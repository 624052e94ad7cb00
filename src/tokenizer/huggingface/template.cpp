// Templates as lists of parts.
#include "tokenizer/huggingface/template.h"

#include <fmt/format.h>

namespace trireme {

PairTemplate::PairTemplate() {
  const Part a{.text = 'A'}, b{.text = 'B', .type = 1};
  single_ = {a};
  pair_ = {a, b};
}

PairTemplate::PairTemplate(const JsonPlace& place) : PairTemplate() {
  if (!place.is_null()) read(place);
}

void PairTemplate::read(const JsonPlace& place) {
  const std::string& type = place.at("type").text();
  if (type == "Sequence") {
    const JsonPlace parts = place.at("processors");
    for (std::size_t i = 0; i < parts.size(); ++i) read(parts.at(i));
    return;
  }
  if (type == "ByteLevel") return;  // changes no ids
  if (adds_tokens_) place.refuse("is the second that adds tokens, which is not supported");
  adds_tokens_ = true;
  if (type == "TemplateProcessing") {
    const JsonPlace special = place.at("special_tokens");
    single_ = read_parts(place.at("single"), special);
    pair_ = read_parts(place.at("pair"), special);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    read_bert(place, type == "RobertaProcessing");
  } else {
    place.refuse(
        fmt::format("is of type '{}', which is not supported; supported are TemplateProcessing, "
                    "BertProcessing, RobertaProcessing, ByteLevel and Sequence",
                    type));
  }
}

// "cls" and "sep" are ["[CLS]", 101].
void PairTemplate::read_bert(const JsonPlace& place, bool roberta) {
  const Part cls{.ids = {place.at("cls").at(std::size_t{1}).id()}};
  const Part sep{.ids = {place.at("sep").at(std::size_t{1}).id()}};
  single_ = {cls, {.text = 'A'}, sep};
  const std::int32_t second = roberta ? 0 : 1;
  pair_ = single_;
  if (roberta) pair_.push_back(sep);
  pair_.push_back({.text = 'B', .type = second});
  pair_.push_back({.ids = sep.ids, .type = second});
}

PairTemplate::Parts PairTemplate::read_parts(const JsonPlace& place, const JsonPlace& special) {
  Parts parts;
  for (std::size_t i = 0; i < place.size(); ++i) {
    const JsonPlace part = place.at(i);
    const bool is_text = part.has("Sequence");
    const JsonPlace what = part.at(is_text ? "Sequence" : "SpecialToken");
    Part read{.type = what.has("type_id") ? what.at("type_id").id() : 0};
    const std::string& name = what.at("id").text();
    if (is_text) {
      if (name != "A" && name != "B") what.refuse("names a text other than A and B");
      read.text = name[0];
    } else {
      const JsonPlace ids = special.at(name).at("ids");
      for (std::size_t k = 0; k < ids.size(); ++k) read.ids.push_back(ids.at(k).id());
    }
    parts.push_back(std::move(read));
  }
  return parts;
}

Encoding PairTemplate::apply(std::string_view text, std::optional<std::string_view> pair,
                             const EncodeText& encode) const {
  Encoding out;
  for (const Part& part : pair ? pair_ : single_) {
    if (part.text == 'A') {
      encode(text, out.ids);
    } else if (part.text == 'B' && pair) {
      encode(*pair, out.ids);
    } else {
      out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
    }
    out.type_ids.resize(out.ids.size(), part.type);
  }
  return out;
}

std::vector<std::int32_t> PairTemplate::before_text() const {
  std::vector<std::int32_t> ids;
  for (const Part& part : single_) {
    if (part.text) break;
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  }
  return ids;
}

}  // namespace trireme
