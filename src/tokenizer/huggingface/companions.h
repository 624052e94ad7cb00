// Files next to a tokenizer.json in which transformers looks for further tokens: they count like
// those of the file itself.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/json_place.h"

namespace trireme {

// An added token and where it stands; id -1: the next free one.
struct PlacedToken {
  AddedToken token;
  JsonPlace place;
  std::string doubt;  // why programs differ in whether they add it; "" if they agree
};

PlacedToken read_added_token(const JsonPlace& place, std::int32_t id);
// A special token is a string, or an object with options.
PlacedToken read_special_token(const JsonPlace& place);

class TokenizerCompanions {
 public:
  explicit TokenizerCompanions(const fs::path& folder);

  // tokenizer_config.json; null if it is absent.
  JsonPlace config() const { return config_.place(); }
  // The name of a special token such as "eos_token": a string or an object; none if absent or null.
  // One in special_tokens_map.json, also null, replaces that of the configuration.
  std::optional<JsonPlace> special(const std::string& key) const;

  // added_tokens_decoder of the configuration, by id: these replace tokens of the same content.
  std::vector<PlacedToken> listed() const;
  // added_tokens.json, by id: these do not replace any.
  std::vector<PlacedToken> older() const;
  // Special tokens in the order in which transformers adds those that are new.
  std::vector<PlacedToken> special() const;

  // Contents of the files that were found.
  const std::string& config_content() const { return config_.content; }
  std::string older_contents() const { return added_.content + map_.content; }
  // Whether a place is in added_tokens.json or special_tokens_map.json.
  bool is_older(const JsonPlace& place) const;
  // Whether special_tokens_map.json names another end of documents than the configuration.
  bool older_files_name_eos() const;

 private:
  struct Document {
    explicit Document(const fs::path& path);
    JsonPlace place() const { return {*json, file}; }
    std::string file, content;
    std::shared_ptr<const nlohmann::json> json;
  };

  // special_tokens_map.json; null where it does not count.
  JsonPlace older_names() const;
  void add_additional(std::vector<PlacedToken>& tokens) const;
  void add_further_names(std::vector<PlacedToken>& tokens) const;

  Document config_, added_, map_;
};

}  // namespace trireme
