// Tests of keys with a set of choices: each value is read, printed and offered under its one name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/fields.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Config with(const Field& field, const std::string& value) {
  return parse_config(fmt::format("[{}]\n{} = {}\n", field.section, field.name, toml_string(value)),
                      "choices");
}

TEST(Choices, EachNameIsReadAndPrinted) {
  int choices = 0;
  for (const Field& field : all_fields()) {
    Config defaults;
    const FieldSlot slot = field.slot(defaults);
    const auto* const choice = std::get_if<ChoiceSlot>(&slot);
    if (!choice) continue;
    SCOPED_TRACE(field.key());
    ++choices;
    for (std::size_t i = 0; i < choice->names.size(); ++i) {
      const std::string name(choice->names[i]);
      Config config = with(field, name);
      if (name.empty()) continue;  // resolved by the family
      EXPECT_EQ(*std::get<ChoiceSlot>(field.slot(config)).value, i);
      EXPECT_EQ(toml_value(field.slot(config)), toml_string(name));
      EXPECT_THAT(field.limits.allowed, testing::Contains(name));
    }
    EXPECT_THAT(refusal_of([&] { with(field, "neither"); }), HasSubstr(field.key()));
  }
  EXPECT_GE(choices, 33);
}

TEST(Choices, NamesAreFoundAsTheyAre) {
  EXPECT_EQ(find_choice<ScheduleKind>("1f1b"), ScheduleKind::one_f_one_b);
  EXPECT_EQ(find_choice<ScheduleKind>("1F1B"), std::nullopt);
  EXPECT_EQ(find_choice<Precision>(""), std::nullopt);
  EXPECT_EQ(find_choice<PositionEncoding>(""), PositionEncoding::by_family);
  EXPECT_THAT(names_of<NormType>(), testing::ElementsAre("layer_norm", "rms_norm"));
  EXPECT_EQ(fmt::format("{} {:?}", Precision::bf16, Recompute::full), "bf16 \"full\"");
}

}  // namespace
}  // namespace trireme
