// Reads columns of texts, and of lists of texts, out of record batches whose offsets nobody has
// checked.
#include "data/arrow/columns.h"

#include <string_view>

#include "data/arrow/status.h"

namespace trireme::arrow_plugin {
namespace {

// Files are not trusted: the offsets of a damaged one may point anywhere.
template <class Array>
void add_texts(const arrow::Array& values, Texts& texts) {
  const auto& array = static_cast<const Array&>(values);
  static const char nothing = 0;
  const char* const begin =
      array.value_data() ? reinterpret_cast<const char*>(array.value_data()->data()) : &nothing;
  const std::int64_t size = array.value_data() ? array.value_data()->size() : 0;
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      texts.push_back({nullptr, 0});
      continue;
    }
    const std::int64_t first = array.value_offset(i), last = array.value_offset(i + 1);
    if (first < 0 || last < first || last > size)
      refuse("its texts are not at the recorded offsets");
    texts.push_back({begin + first, last - first});
  }
}

// Columns of kinds that are seldom used; they are checked as a whole.
template <class Array>
void add_checked_texts(const arrow::Array& values, Texts& texts) {
  check(values.ValidateFull());
  const auto& array = static_cast<const Array&>(values);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      texts.push_back({nullptr, 0});
      continue;
    }
    const std::string_view text = array.GetView(i);
    texts.push_back({text.data() ? text.data() : "", static_cast<std::int64_t>(text.size())});
  }
}

void add_any_texts(const arrow::Array& values, Texts& texts);

void add_dictionary_texts(const arrow::Array& values, Texts& texts) {
  check(values.ValidateFull());
  const auto& array = static_cast<const arrow::DictionaryArray&>(values);
  Texts words;
  add_any_texts(*array.dictionary(), words);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    texts.push_back(array.IsNull(i) ? trireme::ArrowPluginText{nullptr, 0}
                                    : words[static_cast<std::size_t>(array.GetValueIndex(i))]);
  }
}

void add_any_texts(const arrow::Array& values, Texts& texts) {
  check(values.Validate());
  switch (values.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return add_texts<arrow::BinaryArray>(values, texts);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return add_texts<arrow::LargeBinaryArray>(values, texts);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return add_checked_texts<arrow::BinaryViewArray>(values, texts);
    case arrow::Type::DICTIONARY:
      return add_dictionary_texts(values, texts);
    default:
      refuse("a column of texts holds " + values.type()->ToString());
  }
}

bool is_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return is_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return arrow::is_base_binary_like(type.id()) || arrow::is_binary_view_like(type.id());
}

bool is_list_of_texts(const arrow::DataType& type) {
  const bool list = arrow::is_list_like(type.id()) || arrow::is_list_view(type);
  return list && type.id() != arrow::Type::MAP && is_text(*type.field(0)->type());
}

template <class Array>
void add_lists(const arrow::Array& values, ColumnTexts& column) {
  check(values.ValidateFull());
  const auto& array = static_cast<const Array&>(values);
  Texts words;
  add_any_texts(*array.values(), words);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      column.texts.push_back({nullptr, 0});
    } else {
      const auto first = words.begin() + array.value_offset(i);
      column.texts.insert(column.texts.end(), first, first + array.value_length(i));
    }
    column.ends.push_back(static_cast<std::int64_t>(column.texts.size()));
  }
}

void add_column(const arrow::Array& values, ColumnTexts& column) {
  column.lists = is_list_of_texts(*values.type());
  switch (column.lists ? values.type_id() : arrow::Type::NA) {
    case arrow::Type::LIST:
      return add_lists<arrow::ListArray>(values, column);
    case arrow::Type::LARGE_LIST:
      return add_lists<arrow::LargeListArray>(values, column);
    case arrow::Type::FIXED_SIZE_LIST:
      return add_lists<arrow::FixedSizeListArray>(values, column);
    case arrow::Type::LIST_VIEW:
      return add_lists<arrow::ListViewArray>(values, column);
    case arrow::Type::LARGE_LIST_VIEW:
      return add_lists<arrow::LargeListViewArray>(values, column);
    default:
      column.texts.reserve(static_cast<std::size_t>(values.length()));
      add_any_texts(values, column.texts);
  }
}

}  // namespace

std::unique_ptr<Rows> texts_of(std::shared_ptr<arrow::RecordBatch> batch, const Columns& columns) {
  auto rows = std::make_unique<Rows>();
  rows->rows = batch->num_rows();
  for (const std::string& name : columns) {
    const std::shared_ptr<arrow::Array> values = batch->GetColumnByName(name);
    if (!values) refuse("a batch lacks the column \"" + name + "\"");
    ColumnTexts& column = rows->texts.emplace_back();
    add_column(*values, column);
    const std::size_t count = column.lists ? column.ends.size() : column.texts.size();
    if (static_cast<std::int64_t>(count) != rows->rows) refuse("its columns differ in length");
  }
  for (const ColumnTexts& column : rows->texts) {
    rows->starts.push_back({column.texts.data(), column.lists ? column.ends.data() : nullptr});
  }
  rows->ArrowPluginRows::columns = rows->starts.data();
  rows->batch = std::move(batch);
  return rows;
}

std::vector<int> places_of(const arrow::Schema& schema, const Columns& columns) {
  std::vector<int> places;
  for (const std::string& name : columns) {
    const std::vector<int> found = schema.GetAllFieldIndices(name);
    if (found.size() == 1) {
      const auto& type = *schema.field(found[0])->type();
      if (!is_text(type) && !is_list_of_texts(type)) {
        refuse("the column \"" + name + "\" has the type " + type.ToString() +
               "; expected texts (string or binary) or lists of them");
      }
      places.push_back(found[0]);
      continue;
    }
    if (found.size() > 1) refuse("it has several columns \"" + name + "\"");
    std::string there;
    for (const auto& field : schema.fields()) {
      there += (there.empty() ? "" : ", ") +
               ("\"" + field->name() + "\" (" + field->type()->ToString() + ")");
    }
    refuse("no column \"" + name + "\"; " +
           (there.empty() ? "it has no columns" : "the columns are " + there));
  }
  return places;
}

}  // namespace trireme::arrow_plugin
