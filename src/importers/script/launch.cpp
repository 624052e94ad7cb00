// Follows launchers to the programs they run, and parses the launchers' options.
#include "importers/script/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

namespace trireme::script {

namespace {

std::string base_name(const std::string& word) {
  return word.substr(word.rfind('/') + 1);
}

// File name of a module: "pretrain_gpt.py" for "megatron.training.pretrain_gpt".
std::string file_of_module(const std::string& word) {
  return word.substr(word.rfind('.') + 1) + ".py";
}

// Index of the first Python program among the words, a file or a training module (`-m
// pretrain_gpt`); the number of words if there is none.
std::size_t find_python_file(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].ends_with(".py")) return i;
    const bool is_module = i > 0 && (words[i - 1] == "-m" || words[i - 1] == "--module");
    if (is_module && file_of_module(words[i]).starts_with("pretrain_")) return i;
  }
  return words.size();
}

std::string program_name(const std::string& word) {
  return word.ends_with(".py") ? base_name(word) : file_of_module(word);
}

// Whether the name is that of a program that trains other kinds of models, or trains nothing.
bool names_another_task(const std::string& name) {
  for (const char* other :
       {"t5",   "bart",    "ict",        "retro",      "vision",    "vit",
        "vlm",  "mamba",   "hybrid",     "multimodal", "biencoder", "realm",
        "mimo", "clip",    "finetune",   "sft",        "dpo",       "generat",
        "eval", "convert", "checkpoint", "server",     "inference", "preprocess"}) {
    if (name.find(other) != std::string::npos) return true;
  }
  return false;
}

// Matches "pretrain_gpt.py", and variants of sites such as "pretrain_gpt_alcf.py".
bool trains(const std::string& name, const char* family) {
  const std::string stem = std::string("pretrain_") + family;
  return name == stem + ".py" ||
         (name.starts_with(stem + "_") && name.ends_with(".py") && !names_another_task(name));
}

bool trains_hybrid(const std::string& name) {
  return name == "pretrain_hybrid.py" || name == "pretrain_mamba.py";
}

bool is_own_program(const std::string& name) {
  return trains(name, "gpt") || trains(name, "bert") || trains_hybrid(name);
}

bool is_given(const std::vector<std::string>& words, const std::string& flag) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == flag || word.starts_with(flag + "=");
  });
}

// Programs of forks: pretrain_llama.py, or train.py with flags that every Megatron requires.
bool trains_by_flags(const std::string& name, const std::vector<std::string>& words) {
  if (names_another_task(name)) return false;
  for (const char* flag : {"--num-layers", "--hidden-size", "--num-attention-heads"}) {
    if (!is_given(words, flag)) return false;
  }
  return is_given(words, "--micro-batch-size") || is_given(words, "--seq-length");
}

// The launcher's own words, without the command that it runs.
std::vector<std::string> own_words(const Call& call) {
  const std::size_t end = find_python_file(call.arguments);
  return {call.arguments.begin(), call.arguments.begin() + static_cast<std::ptrdiff_t>(end)};
}

// The chain of calls that led to this one, outermost first.
std::vector<const Call*> ancestors(const ScriptRun& run, const Call& call) {
  std::vector<const Call*> result;
  for (int at = call.parent; at >= 0 && at < static_cast<int>(run.calls.size());) {
    const Call& parent = run.calls[static_cast<std::size_t>(at)];
    result.insert(result.begin(), &parent);
    if (parent.parent >= at) break;  // callers precede their calls
    at = parent.parent;
  }
  return result;
}

// Number given by an option: "--name N", "--name=N", "-nN"; 0 if given but unknown, -1 if not
// given. For "1:4" and "gpu:8" the last number is used.
std::int64_t option(const std::vector<std::string>& words,
                    std::initializer_list<const char*> names) {
  for (std::size_t i = words.size(); i-- > 0;) {
    for (const std::string name : names) {
      std::string value;
      if (words[i] == name) {
        value = i + 1 < words.size() ? words[i + 1] : "";
      } else if (words[i].starts_with(name + "=")) {
        value = words[i].substr(name.size() + 1);
      } else if (name.size() == 2 && words[i].starts_with(name)) {
        value = words[i].substr(2);
      } else {
        continue;
      }
      const std::size_t colon = value.rfind(':');
      if (colon != std::string::npos) value = value.substr(colon + 1);
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool whole = error == std::errc() && end == value.data() + value.size();
      return whole && number > 0 && number <= (1 << 20) ? number : 0;
    }
  }
  return -1;
}

bool has_command(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return base_name(word) == name; });
}

// First known value, else 0 if one was given, else `otherwise`.
std::int64_t first_known(std::initializer_list<std::int64_t> values, std::int64_t otherwise) {
  bool given = false;
  for (const std::int64_t value : values) {
    if (value > 0) return value;
    given = given || value == 0;
  }
  return given ? 0 : otherwise;
}

std::int64_t variable(const Launch& launch, const std::string& name) {
  const auto at = launch.variables.find(name);
  return at == launch.variables.end() ? -1 : option({"--x=" + at->second}, {"--x"});
}

// Whether PyTorch's launcher is used: "torchrun", "-m torch.distributed.run".
bool uses_torch(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return base_name(word) == "torchrun" || word.starts_with("torch.distributed.");
  });
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Value of the last of these options as text; "" if none is given.
std::string text_option(const std::vector<std::string>& words,
                        std::initializer_list<const char*> names) {
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const std::string name : names) {
      if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
      if (words[i].starts_with(name + "=")) value = words[i].substr(name.size() + 1);
    }
  }
  return value;
}

using Hosts = std::map<std::string, std::set<int>>;

// Parses the whole text as a number; nullopt if it is none.
std::optional<int> whole_number(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// Parses a DeepSpeed hostfile: "worker-0 slots=8". Nullopt where DeepSpeed ends with an error: a
// line of another form, a host that is listed twice, or no host.
std::optional<Hosts> hosts_of(const std::string& text) {
  Hosts hosts;
  for (const std::string& line : split(text, '\n')) {
    std::istringstream words(line);
    std::string host, slots;
    if (!(words >> host) || host[0] == '#') continue;
    words >> slots;
    const std::size_t digits = slots.find_first_not_of("0123456789", 6);
    const auto count =
        slots.starts_with("slots=") ? whole_number(slots.substr(6, digits - 6)) : std::nullopt;
    if (!count || hosts.contains(host)) return std::nullopt;
    for (int i = 0; i < std::min(*count, 1024); ++i) hosts[host].insert(i);
  }
  if (hosts.empty()) return std::nullopt;
  return hosts;
}

// Devices named by --include or --exclude: "worker-0@worker-1:0,2"; no devices means all of the
// host's. Nullopt if a device is not a number, or the hostfile has no such host or device.
std::optional<Hosts> named_devices(const std::string& text, const Hosts& known) {
  Hosts hosts;
  for (const std::string& part : split(text, '@')) {
    const std::size_t colon = part.find(':');
    const std::string host = part.substr(0, colon);
    if (!known.empty() && !known.contains(host)) return std::nullopt;
    std::set<int>& devices = hosts[host];
    if (colon == std::string::npos) continue;
    for (const std::string& device : split(part.substr(colon + 1), ',')) {
      const auto number = whole_number(device);
      if (!number || (!known.empty() && !known.at(host).contains(*number))) return std::nullopt;
      devices.insert(*number);
    }
  }
  return hosts;
}

// Number of devices in CUDA_VISIBLE_DEVICES; -1 if not set.
std::int64_t visible_devices(const Launch& launch) {
  const auto at = launch.variables.find("CUDA_VISIBLE_DEVICES");
  if (at == launch.variables.end() || at->second.empty()) return -1;
  return static_cast<std::int64_t>(split(at->second, ',').size());
}

// A count for DeepSpeed's own launcher, where numbers below 0, its default, mean "not given".
std::int64_t deepspeed_count(const std::vector<std::string>& words,
                             std::initializer_list<const char*> names) {
  return whole_number(text_option(words, names)).value_or(0) < 0 ? -1 : option(words, names);
}

// Size for DeepSpeed's own launcher.
LaunchSize deepspeed_size(const Launch& launch, std::int64_t job_nodes, std::int64_t devices) {
  const std::vector<std::string>& words = launch.launcher;
  const std::string file = text_option(words, {"--hostfile", "-H"});
  const auto seen = launch.files.find(file);
  const auto listed = seen == launch.files.end() ? Hosts() : hosts_of(seen->second);
  const std::string include = text_option(words, {"--include", "-i"});
  const std::string exclude = text_option(words, {"--exclude", "-e"});
  const std::int64_t given = deepspeed_count(words, {"--num_gpus", "--num_accelerators"});
  const std::int64_t most = deepspeed_count(words, {"--num_nodes"});
  LaunchSize size;
  size.slurm = job_nodes > 0;
  // DeepSpeed starts nothing where devices are both counted and named, or both taken and left out,
  // or where the hostfile is wrong.
  const bool counted = given >= 0 || most >= 0;
  const bool filtered = !include.empty() || !exclude.empty();
  if ((counted && filtered) || (!include.empty() && !exclude.empty()) || !listed)
    return {0, 0, 0, size.slurm};
  Hosts hosts = *listed;
  auto named = named_devices(include.empty() ? exclude : include, hosts);
  if (filtered && !named) return {0, 0, 0, size.slurm};
  if (!include.empty()) {
    for (auto& [host, chosen] : *named) {
      if (chosen.empty()) chosen = hosts[host];
    }
    hosts = std::move(*named);
  } else if (!exclude.empty()) {
    // Without a hostfile, this node is the only host.
    if (hosts.empty() && named->size() == 1) {
      for (std::int64_t i = 0; i < devices; ++i)
        hosts[named->begin()->first].insert(static_cast<int>(i));
    }
    for (const auto& [host, left_out] : *named) {
      if (left_out.empty()) hosts.erase(host);
      for (const int device : left_out) hosts[host].erase(device);
    }
  } else if (hosts.empty()) {
    size.nodes = first_known({most, job_nodes}, 1);
    const std::int64_t visible = size.nodes == 1 ? visible_devices(launch) : -1;
    size.per_node = first_known({given, visible, devices}, 0);
    return size;
  }
  size.nodes = static_cast<std::int64_t>(hosts.size());
  if (most > 0) size.nodes = std::min(size.nodes, most);
  std::set<std::size_t> counts;
  std::int64_t all = 0;
  for (const auto& [host, chosen] : hosts) {
    counts.insert(chosen.size());
    all += static_cast<std::int64_t>(chosen.size());
  }
  size.per_node = counts.size() == 1 ? static_cast<std::int64_t>(*counts.begin()) : 0;
  if (counts.size() > 1 && !counts.contains(0) && size.nodes == std::ssize(hosts))
    size.uneven = all;
  if (given > 0 && !filtered) size = {size.nodes, given, 0, size.slurm};
  return size;
}

// jsrun starts -p tasks, or -a tasks (default: one) in each of its -n resource sets; 0: unknown.
std::int64_t jsrun_tasks(const std::vector<std::string>& words) {
  const std::int64_t all = option(words, {"--np", "-p"}), sets = option(words, {"--nrs", "-n"});
  const std::int64_t in_each = option(words, {"--tasks_per_rs", "-a"});
  if (all >= 0) return all;
  return sets > 0 && in_each != 0 ? sets * std::max<std::int64_t>(in_each, 1) : 0;
}

bool has_any_command(const std::vector<std::string>& words,
                     std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return has_command(words, name); });
}

// The command run by the launcher at `call` that should have started the program.
const Call* wrapper_of(const ScriptRun& run, std::size_t call) {
  for (const Call& other : run.calls) {
    const bool is_wrapper = other.kind == Call::Kind::wrapper || other.kind == Call::Kind::absent;
    if (is_wrapper && other.parent == static_cast<int>(call)) return &other;
  }
  return nullptr;
}

// Launches of Megatron's own programs (`own`), or of others recognized by their flags.
std::vector<Launch> launches_of(const ScriptRun& run, bool own) {
  std::vector<Launch> launches;
  std::vector<bool> followed(run.calls.size());  // led to a launch already listed
  for (std::size_t i = run.calls.size(); i-- > 0;) {
    const Call& call = run.calls[i];
    const std::size_t at = find_python_file(call.arguments);
    if (call.kind != Call::Kind::call || at == call.arguments.size() || followed[i]) continue;
    const std::string name = program_name(call.arguments[at]);
    const bool is_own = is_own_program(name);
    if (is_own != own || (!own && !trains_by_flags(name, call.arguments))) continue;
    for (const Call* parent : ancestors(run, call))
      followed[static_cast<std::size_t>(parent - run.calls.data())] = true;
    Launch launch = launch_of_call(run, i);
    launch.bert = own ? trains(name, "bert") : name.find("bert") != std::string::npos;
    launch.hybrid = own && trains_hybrid(name);
    launch.own = own;
    launches.insert(launches.begin(), std::move(launch));
  }
  return launches;
}

}  // namespace

Launch launch_of_call(const ScriptRun& run, std::size_t number) {
  const Call& call = run.calls[number];
  const std::size_t at = find_python_file(call.arguments);
  Launch launch;
  launch.call = number;
  launch.line = call.line;
  for (const Call* parent : ancestors(run, call)) {
    if (parent->kind != Call::Kind::call) continue;
    for (std::string& word : own_words(*parent)) launch.launcher.push_back(std::move(word));
  }
  for (std::string& word : own_words(call)) launch.launcher.push_back(std::move(word));
  if (const Call* wrapper = wrapper_of(run, number)) {
    launch.wrapper = wrapper->arguments.empty() ? "" : wrapper->arguments[0];
    launch.wrapper_absent = wrapper->kind == Call::Kind::absent;
  }
  if (at < call.arguments.size()) {
    launch.script = call.arguments[at];
    launch.arguments.assign(call.arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                            call.arguments.end());
  }
  launch.folder = call.folder;
  launch.files = call.files;
  launch.variables = call.variables;
  return launch;
}

std::vector<Launch> find_launches(const ScriptRun& run) {
  std::vector<Launch> own = launches_of(run, true);
  return own.empty() ? launches_of(run, false) : own;
}

std::vector<std::string> find_other_trainings(const ScriptRun& run) {
  std::vector<std::string> names;
  for (const Call& call : run.calls) {
    const std::size_t at = find_python_file(call.arguments);
    if (call.kind != Call::Kind::call || at == call.arguments.size()) continue;
    const std::string name = program_name(call.arguments[at]);
    if (is_own_program(name)) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

LaunchSize launch_size(const Launch& launch) {
  const std::vector<std::string>& words = launch.launcher;
  LaunchSize size;
  const bool srun = has_command(words, "srun");
  const std::int64_t job_nodes = variable(launch, "SLURM_NNODES");
  std::int64_t job_tasks = variable(launch, "SLURM_NTASKS_PER_NODE");
  const std::int64_t all_tasks = variable(launch, "SLURM_NTASKS");
  if (job_tasks < 1 && all_tasks > job_nodes && all_tasks % job_nodes == 0)
    job_tasks = all_tasks / job_nodes;
  const std::int64_t devices = variable(launch, "SLURM_GPUS_ON_NODE");
  size.slurm = srun || job_nodes > 0;
  if (uses_torch(words)) {
    size.nodes = first_known({option(words, {"--nnodes"}), job_nodes}, 1);
    const std::int64_t given = option(words, {"--nproc_per_node", "--nproc-per-node"});
    // Without a number PyTorch starts one process, or what its own variables say, however many
    // devices the node has.
    size.per_node = given < 0 ? 0 : first_known({given, devices}, 0);
    return size;
  }
  if (has_command(words, "deepspeed")) return deepspeed_size(launch, job_nodes, devices);
  if (has_command(words, "accelerate")) {
    size.nodes = first_known({option(words, {"--num_machines", "--num-machines"}), job_nodes}, 1);
    const std::int64_t all = option(words, {"--num_processes", "--num-processes"});
    size.per_node = all > 0 && size.nodes > 0 && all % size.nodes == 0 ? all / size.nodes : 0;
    return size;
  }
  if (has_any_command(words, {"mpirun", "mpiexec", "mpirun.hydra", "mpiexec.hydra", "orterun",
                              "prun", "prterun", "aprun", "flux"})) {
    size.per_node = first_known({option(words, {"-np", "-n", "--np", "--ntasks"})}, 0);
    size.slurm = false;
    return size;
  }
  if (has_command(words, "jsrun") || has_command(words, "ibrun")) {
    size.per_node = has_command(words, "jsrun") ? jsrun_tasks(words) : 0;
    size.slurm = false;
    return size;
  }
  if (!srun) {
    // Inside a job, plain Python is a single process on one of its nodes.
    size.slurm = false;
    return size;
  }
  size.nodes = first_known({option(words, {"--nodes", "-N"}), job_nodes}, 1);
  const std::int64_t tasks = option(words, {"--ntasks", "-n"});
  const std::int64_t per_node = option(words, {"--ntasks-per-node"});
  if (per_node < 1 && tasks > 0 && size.nodes > 0 && tasks % size.nodes == 0) {
    size.per_node = tasks / size.nodes;
  } else {
    size.per_node = first_known({per_node, job_tasks}, 0);
  }
  return size;
}

}  // namespace trireme::script
