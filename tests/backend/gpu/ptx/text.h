// The text of a PTX file, taken apart: kernels, their parameters and variables, statements. What
// the statements mean is not asked here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ptx {

// Kinds: 'b' bits, 'u' and 's' integers, 'f' floats, 'x' bf16, 'p' a predicate.
struct Type {
  char kind = 'b';
  int bits = 0;
  int bytes() const { return bits / 8; }
};
// "u32", "bf16", "pred"; bits 0 if it is no type.
Type type_of(std::string_view name);

struct Variable {
  std::string name;
  std::int64_t bytes = 0, align = 1;
  std::int64_t offset = 0;      // of a parameter: within all of the kernel's
  std::vector<std::byte> init;  // of a variable in global or constant memory; empty: zeros
};

struct Statement {
  std::string text;
  int line = 0;  // of the file, from 1
  std::string guard;
  bool guard_negated = false;
  std::vector<std::string> operation;  // "ld", "global", "v2", "f32"
  std::vector<std::string> operands;   // "{%f1, %f2}", "[%rd1+8]", "0f3F800000"
};

struct KernelText {
  std::string name;
  int most_threads = 1024;  // of a block
  std::vector<Variable> parameters;
  std::int64_t parameter_bytes = 0;
  std::string body;   // what stands between its braces
  int body_line = 0;  // where that begins
  // Of the body:
  std::vector<Variable> shared, local;
  std::map<std::string, Type> registers;  // names without number stand for themselves
  std::vector<Statement> statements;
  std::map<std::string, int> labels;                             // index of the next statement
  std::map<std::string, std::vector<std::string>> branch_lists;  // .branchtargets by their label
};

struct ModuleText {
  std::vector<KernelText> kernels;
  std::vector<Variable> global;             // in global and constant memory
  std::vector<Variable> shared;             // that functions of all kernels may name
  std::vector<std::string> dynamic_shared;  // names of .extern .shared arrays
};

// Both throw std::runtime_error with the line for what they cannot read.
// Bodies of kernels are taken as they are: a file has hundreds of thousands of lines, and few of
// its kernels run.
ModuleText parse(std::string_view text);
void parse_body(KernelText& kernel);

}  // namespace trireme::ptx
