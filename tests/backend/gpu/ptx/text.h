// The parsed text of a PTX file: kernels, their parameters and variables, statements. The meaning
// of the statements is not interpreted here.
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
// Parses "u32", "bf16", "pred"; bits is 0 if the name is not a type.
Type type_of(std::string_view name);

struct Variable {
  std::string name;
  std::int64_t bytes = 0, align = 1;
  std::int64_t offset = 0;      // of a parameter in the parameter block
  std::vector<std::byte> init;  // initial value in global or constant memory; empty: zeros
};

struct Statement {
  std::string text;
  int line = 0;  // in the file, from 1
  std::string guard;
  bool guard_negated = false;
  std::vector<std::string> operation;  // "ld", "global", "v2", "f32"
  std::vector<std::string> operands;   // "{%f1, %f2}", "[%rd1+8]", "0f3F800000"
};

struct KernelText {
  std::string name;
  int most_threads = 1024;  // maximum per block
  std::vector<Variable> parameters;
  std::int64_t parameter_bytes = 0;
  std::string body;   // text between the braces
  int body_line = 0;  // line of its start
  // Parsed from the body:
  std::vector<Variable> shared, local;
  std::map<std::string, Type> registers;  // unnumbered names denote themselves
  std::vector<Statement> statements;
  std::map<std::string, int> labels;                             // index of the next statement
  std::map<std::string, std::vector<std::string>> branch_lists;  // .branchtargets by label
};

struct ModuleText {
  std::vector<KernelText> kernels;
  std::vector<Variable> global;             // in global and constant memory
  std::vector<Variable> shared;             // module-scope variables
  std::vector<std::string> dynamic_shared;  // names of .extern .shared arrays
};

// Both throw std::runtime_error with the line for text that they cannot parse. Kernel bodies
// are stored unparsed: a file has hundreds of thousands of lines, and only few of its kernels
// run.
ModuleText parse(std::string_view text);
void parse_body(KernelText& kernel);

}  // namespace trireme::ptx
