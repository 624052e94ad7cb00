// Tables of performance figures, each with its valid range.
#include "plan/machine_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array tables = {"memory", "products", "attention", "launch",
                               "node",   "network",  "fitted"};

// One table of a file: returns its figures and tracks unused keys.
class Table {
 public:
  Table(const toml::table& file, const std::string& name, const std::string& where)
      : where_(where), name_(name), table_(file[name].as_table()) {
    if (!table_ && file.contains(name)) fail_input("{}: [{}] must be a table", where, name);
  }
  Table(const toml::table* table, std::string name, const std::string& where)
      : where_(where), name_(std::move(name)), table_(table) {}

  bool is_there() const { return table_ != nullptr; }
  void require() const {
    if (!table_)
      fail_input("{}: the table [{}], which the other figures require, is missing", where_, name_);
  }

  double figure(const std::string& key, double least, double most, const char* unit) {
    known_.insert(key);
    const auto given = table_->get(key);
    if (!given) fail_input("{}: {} is missing from [{}] ({})", where_, key, name_, unit);
    return in_range(*given, key, least, most, unit);
  }
  double figure_or(const std::string& key, double otherwise, double least, double most,
                   const char* unit) {
    known_.insert(key);
    return table_->contains(key) ? figure(key, least, most, unit) : otherwise;
  }
  std::string text(const std::string& key) {
    known_.insert(key);
    const auto given = (*table_)[key].value<std::string>();
    if (!given || given->empty())
      fail_input("{}: {} of [{}] must be a nonempty string", where_, key, name_);
    return *given;
  }
  // Rows with this many figures each, "[[2, 1e11], [8, 1e11]]".
  std::vector<std::vector<double>> rows(const std::string& key,
                                        const std::vector<std::array<double, 2>>& ranges,
                                        const char* unit) {
    known_.insert(key);
    const toml::array* given = (*table_)[key].as_array();
    if (!given || given->empty() || given->size() > 32)
      fail_input("{}: {} of [{}] must be a list of 1 to 32 rows ({})", where_, key, name_, unit);
    std::vector<std::vector<double>> rows;
    for (const toml::node& row : *given) {
      const toml::array* figures = row.as_array();
      if (!figures || figures->size() != ranges.size())
        fail_input("{}: each row of {} in [{}] must have {} numbers ({})", where_, key, name_,
                   ranges.size(), unit);
      std::vector<double>& read = rows.emplace_back();
      for (std::size_t i = 0; i < ranges.size(); ++i)
        read.push_back(in_range((*figures)[i], key, ranges[i][0], ranges[i][1], unit));
    }
    return rows;
  }
  void refuse_others() const {
    for (const auto& [key, value] : *table_) {
      if (!known_.contains(std::string(key.str())) && !value.is_table())
        fail_input("{}: unknown key '{}' in [{}]; its keys are {}", where_, std::string(key.str()),
                   name_, fmt::join(known_, ", "));
    }
  }

 private:
  double in_range(const toml::node& node, const std::string& key, double least, double most,
                  const char* unit) const {
    const auto value = node.value<double>();
    if (!value || node.is_boolean())
      fail_input("{}: {} of [{}] must be a number ({})", where_, key, name_, unit);
    if (!(*value >= least && *value <= most))
      fail_input("{}: {} of [{}] is {}, but it must be from {} to {} ({})", where_, key, name_,
                 *value, least, most, unit);
    return *value;
  }

  const std::string& where_;
  std::string name_;
  const toml::table* table_;
  std::set<std::string> known_;
};

ProductRate parse_rate(Table& products, const std::string& type, const std::string& where) {
  ProductRate rate{products.figure_or(type + "_peak", 0, 1e9, 1e17, "flops per second"),
                   products.figure_or(type + "_ceiling", 0, 1e9, 1e17, "flops per second")};
  if ((rate.peak > 0) != (rate.ceiling > 0))
    fail_input("{}: [products] must have both {}_peak and {}_ceiling, or neither", where, type,
               type);
  if (rate.ceiling > rate.peak)
    fail_input("{}: {}_ceiling of [products] is {}, above {}_peak, {}", where, type, rate.ceiling,
               type, rate.peak);
  constexpr const char* unit = "speed, compared with a forward product's";
  rate.input_grad = products.figure_or(type + "_input_grad", 1, 0.1, 10, unit);
  rate.weight_grad = products.figure_or(type + "_weight_grad", 1, 0.1, 10, unit);
  return rate;
}

void parse_products(const toml::table& file, const std::string& where, MachineSpeed& speed) {
  Table products(file, "products", where);
  products.require();
  speed.bf16 = parse_rate(products, "bf16", where);
  speed.fp32 = parse_rate(products, "fp32", where);
  if (speed.bf16.peak == 0 && speed.fp32.peak == 0)
    fail_input("{}: bf16_peak or fp32_peak is missing from [products] (flops per second)", where);
  speed.units = products.figure("units", 1, 4096, "that compute tiles side by side");
  speed.half_depth = products.figure("half_depth", 0, 4096, "inner dimension at half the rate");
  speed.tiles.clear();
  for (const auto& row : products.rows("tiles", {{{1, 1024}}, {{1, 1024}}, {{0.01, 1}}},
                                       "rows, columns, share of the ceiling"))
    speed.tiles.push_back({row[0], row[1], row[2]});
  speed.spread =
      products.figure_or("spread", 0, 0, 0.2, "standard deviation, as a share of the speed");
  products.refuse_others();
}

void parse_node(const toml::table& file, const std::string& where, MachineSpeed& speed) {
  Table node(file, "node", where);
  if (node.is_there()) {
    speed.devices = static_cast<int>(node.figure("devices", 1, 1024, "ranks on a node"));
    if (speed.devices > 1) {
      for (const auto& row : node.rows("bus", {{{2, 1024}}, {{1e6, 1e13}}},
                                       "ranks, bytes per second that each sends")) {
        if (!speed.bus.empty() && speed.bus.back().devices >= static_cast<int>(row[0]))
          fail_input("{}: the rows of bus in [node] must be in ascending order", where);
        speed.bus.push_back({static_cast<int>(row[0]), row[1]});
      }
      speed.pair = node.figure("pair", 1e6, 1e13, "bytes per second from one device to another");
      speed.node_latency = node.figure("latency", 0, 0.1, "seconds of a message");
      speed.node_half = node.figure("half_size", 0, 1e10, "bytes of a collective at half the rate");
    }
    node.refuse_others();
  }
  Table network(file, "network", where);
  if (!network.is_there()) return;
  speed.nics = network.figure("cards", 1, 64, "network cards of a node");
  speed.nic = network.figure("rate", 1e6, 1e12, "bytes per second of one card");
  speed.network_latency = network.figure("latency", 0, 0.1, "seconds of a message");
  speed.network_half =
      network.figure("half_size", 0, 1e10, "bytes of a collective at half the rate");
  network.refuse_others();
}

void parse_fits(const toml::table& file, const std::string& where, MachineSpeed& speed) {
  const toml::table* fitted = file["fitted"].as_table();
  if (!fitted) return;
  for (const auto& [stack, value] : *fitted) {
    const std::string name(stack.str());
    if (!value.is_table()) fail_input("{}: [fitted.{}] must be a table", where, name);
    Table one(value.as_table(), "fitted." + name, where);
    constexpr const char* unit = "share of the model's speed";
    speed.fits.push_back({name, one.figure("efficiency", 0.05, 2, unit), one.text("from"),
                          one.figure_or("fp32_efficiency", 0, 0.05, 2, unit),
                          one.figure_or("band", Fit{}.band, 0.001, 1, "share of the time"),
                          static_cast<int>(one.figure_or("devices", 0, 1, 1 << 24,
                                                         "of the largest run that shows it")),
                          one.figure_or("beyond", 0, 0.001, 10, "share of the time")});
    one.refuse_others();
  }
}

}  // namespace

bool is_speed_table(std::string_view name) {
  return std::find(tables.begin(), tables.end(), name) != tables.end();
}

std::optional<MachineSpeed> parse_speed(const toml::table& file, const std::string& where) {
  if (std::none_of(tables.begin(), tables.end(), [&](const char* t) { return file.contains(t); }))
    return {};
  MachineSpeed speed;
  Table memory(file, "memory", where);
  memory.require();
  speed.memory_bytes = memory.figure("bytes", 1e8, 1e14, "of one device");
  speed.memory_rate = memory.figure("rate", 1e8, 1e14, "achieved bytes per second of one device");
  speed.host_rate = memory.figure("host_rate", 1e8, 1e14, "bytes per second from and to the host");
  speed.host_bytes = memory.figure_or("host_bytes", 0, 1e9, 1e15, "of the host of a node");
  memory.refuse_others();
  parse_products(file, where, speed);
  Table attention(file, "attention", where);
  attention.require();
  speed.attention = attention.figure("forward", 0.01, 1, "share of the ceiling of products");
  speed.attention_grad = attention.figure("backward", 0.01, 1, "share of the ceiling of products");
  constexpr const char* flash2 = "share of the ceiling of products, of FlashAttention 2";
  speed.flash2 = attention.figure_or("flash2_forward", speed.attention, 0.01, 1, flash2);
  speed.flash2_grad = attention.figure_or("flash2_backward", speed.attention_grad, 0.01, 1, flash2);
  constexpr const char* own = "share of the ceiling of products, of Trireme's kernels";
  speed.own = attention.figure_or("own_forward", speed.attention, 0.01, 1, own);
  speed.own_grad = attention.figure_or("own_backward", speed.attention_grad, 0.01, 1, own);
  attention.refuse_others();
  Table launch(file, "launch", where);
  launch.require();
  speed.launch = launch.figure("device", 0, 0.01, "seconds between kernels of a queue");
  speed.host = launch.figure("host", 0, 0.01, "seconds of the host for a kernel");
  launch.refuse_others();
  parse_node(file, where, speed);
  parse_fits(file, where, speed);
  return speed;
}

}  // namespace trireme
