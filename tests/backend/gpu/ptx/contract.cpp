// Tracks products whose factors are unchanged, and fuses the sums that use them.
#include "backend/gpu/ptx/contract.h"

#include <map>
#include <set>
#include <utility>

namespace trireme::ptx {
namespace {

bool is_plain(const Statement& s, const char* name) {
  return s.guard.empty() && s.operation.size() == 2 && s.operation[0] == name &&
         (s.operation[1] == "f32" || s.operation[1] == "f64");
}

class Contraction {
 public:
  explicit Contraction(KernelText& kernel) : kernel_(kernel) {
    for (const auto& [name, place] : kernel.labels) joins_.insert(place);
  }

  int run() {
    for (int i = 0; i < static_cast<int>(kernel_.statements.size()); ++i) {
      Statement& s = kernel_.statements[static_cast<std::size_t>(i)];
      if (joins_.contains(i)) products_.clear();
      if (is_plain(s, "add")) fuse(s);
      forget_results(s);
      if (is_plain(s, "mul") && s.operands[0] != s.operands[1] && s.operands[0] != s.operands[2])
        products_[s.operands[0]] = {s.operands[1], s.operands[2]};
    }
    return count_;
  }

 private:
  void fuse(Statement& s) {
    for (const int k : {1, 2}) {
      const auto found = products_.find(s.operands[static_cast<std::size_t>(k)]);
      if (found == products_.end()) continue;
      const std::string other = s.operands[static_cast<std::size_t>(3 - k)];
      s.operation = {"fma", "rn", s.operation[1]};
      s.operands = {s.operands[0], found->second.first, found->second.second, other};
      ++count_;
      return;
    }
  }
  // Forgets products of overwritten registers: all those of the statement's first operand.
  void forget_results(const Statement& s) {
    if (s.operands.empty()) return;
    const std::string& results = s.operands[0];
    std::erase_if(products_, [&](const auto& product) {
      const auto& [name, factors] = product;
      return names(results, name) || names(results, factors.first) ||
             names(results, factors.second);
    });
  }
  static bool names(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;  // "%f1" also matches "%f12": on the safe side
  }

  KernelText& kernel_;
  std::set<int> joins_;
  std::map<std::string, std::pair<std::string, std::string>> products_;
  int count_ = 0;
};

}  // namespace

int contract(KernelText& kernel) {
  return Contraction(kernel).run();
}

}  // namespace trireme::ptx
