// The allowed names, collected from files of training programs.
#include "formats/torch/pickle_names.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "formats/torch/element_type.h"

namespace trireme {
namespace {

struct PickleName {
  std::string_view module, name;
  PickleMeaning meaning;
};

using enum PickleMeaning;

constexpr PickleName pickle_names[] = {
    {"collections", "OrderedDict", dict},
    {"collections", "Counter", dict},
    {"collections", "defaultdict", default_dict},
    {"collections", "deque", list},
    {"builtins", "dict", dict},
    {"builtins", "list", list},
    {"builtins", "set", set},
    {"builtins", "frozenset", set},
    {"builtins", "tuple", tuple},
    {"builtins", "bytearray", bytes},
    {"builtins", "bytes", bytes},
    {"builtins", "complex", inert},
    {"builtins", "slice", inert},
    {"builtins", "range", inert},
    {"builtins", "xrange", inert},   // range, in protocol 2
    {"builtins", "unicode", inert},  // str, in protocol 2
    {"builtins", "Ellipsis", inert},
    {"builtins", "NotImplemented", inert},
    {"builtins", "int", inert},
    {"builtins", "float", inert},
    {"builtins", "bool", inert},
    {"builtins", "str", inert},
    {"builtins", "long", inert},
    {"_codecs", "encode", encode},
    {"torch._utils", "_rebuild_tensor", tensor},
    {"torch._utils", "_rebuild_tensor_v2", tensor},
    {"torch._utils", "_rebuild_tensor_v3", typed_tensor},
    {"torch._utils", "_rebuild_parameter", parameter},
    {"torch._utils", "_rebuild_parameter_with_state", parameter},
    {"torch._tensor", "_rebuild_from_type_v2", with_type},
    {"torch", "Size", tuple},
    {"torch", "device", inert},
    {"torch", "Tensor", inert},
    {"torch.nn.parameter", "Parameter", inert},
    {"torch.nn.parameter", "Buffer", inert},
    {"torch.serialization", "_get_layout", inert},
    {"torch.storage", "UntypedStorage", storage},
    {"torch.torch_version", "TorchVersion", inert},
    {"numpy", "ndarray", inert},
    {"numpy", "dtype", inert},
    {"numpy.core.multiarray", "scalar", inert},
    {"numpy.core.multiarray", "_reconstruct", inert},
    {"numpy._core.multiarray", "scalar", inert},
    {"numpy._core.multiarray", "_reconstruct", inert},
    {"numpy.random._pickle", "__randomstate_ctor", inert},
    {"numpy.random._pickle", "__generator_ctor", inert},
    {"numpy.random._pickle", "__bit_generator_ctor", inert},
    {"numpy.random._mt19937", "MT19937", inert},
    {"numpy.random._pcg64", "PCG64", inert},
    {"numpy.random._pcg64", "PCG64DXSM", inert},
    {"numpy.random._philox", "Philox", inert},
    {"numpy.random._sfc64", "SFC64", inert},
    {"numpy.random.bit_generator", "SeedSequence", inert},
    {"numpy.random.bit_generator", "SeedlessSeedSequence", inert},
    {"numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", inert},
    {"random", "Random", inert},
    {"torch._C", "Generator", inert},
    {"torch", "Generator", inert},
    {"argparse", "Namespace", inert},
    {"types", "SimpleNamespace", inert},
    {"pathlib", "PosixPath", inert},
    {"pathlib", "PurePosixPath", inert},
    {"pathlib", "WindowsPath", inert},
    {"pathlib._local", "PosixPath", inert},
    {"io", "BytesIO", inert},
    {"_io", "BytesIO", inert},
    {"signal", "Signals", inert},
    {"datetime", "datetime", inert},
    {"datetime", "timedelta", inert},
    {"datetime", "date", inert},
    {"datetime", "time", inert},
    {"datetime", "timezone", inert},
    {"decimal", "Decimal", inert},
    {"fractions", "Fraction", inert},
    {"uuid", "UUID", inert},
    {"functools", "partial", inert},
};

// Modules of training programs with many classes for settings and states, and new ones in every
// release. They are safe to allow, since nothing is ever called: they are inert like other names.
constexpr std::array<std::string_view, 12> inert_modules{
    "megatron.",
    "megatron_patch.",
    "deepspeed.",
    "transformer_engine.",
    "omegaconf.",
    "torch.nn.functional",
    "torch.nn.init",
    "torch._C._nn",
    "torch.distributed.checkpoint.",
    "numpy.dtypes",
    "torch.distributed._shard.sharded_tensor.metadata",
    "torch.distributed._shard.metadata"};

// Advice for some refused names, which identify the kind of file.
struct PickleAdvice {
  std::string_view module, advice;
};
constexpr PickleAdvice advices[] = {
    {"torch.distributed.tensor",
     "a tensor cut over several ranks, of which the file holds one part: save it with "
     "torch.distributed.checkpoint, or gather it first"},
    {"torch.distributed._tensor",
     "a tensor cut over several ranks, of which the file holds one part: save it with "
     "torch.distributed.checkpoint, or gather it first"},
    {"torch.nn.modules",
     "a whole module instead of its weights: in Python, save model.state_dict()"},
    {"transformers.", "a whole model instead of its weights: in Python, save model.state_dict()"},
    {"torch._utils", "a kind of tensor that is not read: save ordinary dense tensors"},
    {"torch.ao.", "quantized weights, which are not read"},
};

bool is_in(std::string_view module, std::string_view names) {
  return names.ends_with('.') ? module.starts_with(names) : module == names;
}

[[noreturn]] void refuse_name(std::string_view module, std::string_view name,
                              const std::string& file) {
  const std::string full = printable(fmt::format("{}.{}", module, name));
  for (const auto& [prefix, advice] : advices) {
    if (module.starts_with(prefix)) fail_input("'{}' holds {} ('{}')", file, advice, full);
  }
  fail_input(
      "'{}' refers to '{}', which no file of weights needs; unpickling it could run arbitrary "
      "code, so the file is rejected, and nothing of it was run: save a dict of tensors and plain "
      "values",
      file, full);
}

}  // namespace

PickleMeaning pickle_meaning(std::string_view module, std::string_view name,
                             const std::string& file) {
  // Python 2's module name, which protocol 2 still uses.
  if (module == "__builtin__") module = "builtins";
  for (const PickleName& known : pickle_names) {
    if (known.module == module && known.name == name) return known.meaning;
  }
  if (module == "torch" && find_torch_storage(name)) return storage;
  if (module == "torch" && find_torch_dtype(name)) return dtype;
  const bool plain = name.find('.') == name.npos;
  if (plain && std::ranges::any_of(inert_modules, [&](auto names) { return is_in(module, names); }))
    return inert;
  refuse_name(module, name, file);
}

}  // namespace trireme
