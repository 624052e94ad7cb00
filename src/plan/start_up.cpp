// Messages are those of the actual operations, over a transport that only counts; files follow from
// the data of each kind of rank.
#include "plan/start_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <set>

#include "backend/recording/device.h"
#include "base/counted.h"
#include "base/divide.h"
#include "base/file.h"
#include "comm/mirror.h"
#include "model/batch_inputs.h"
#include "parallel/groups.h"
#include "plan/recorded_rank.h"
#include "train/checkpoints/slices.h"
#include "train/run/ranks.h"

namespace trireme {
namespace {

constexpr std::int64_t bytes_of_slice = 260, bytes_of_checksum = 20;  // in a manifest
constexpr std::int64_t block = std::int64_t{4} << 20;                 // that has a checksum

// Properties common to the ranks of a pipeline position.
struct Position {
  bool reads_data = false;
  bool has_shared = false;     // parameters replicated on tensor-parallel ranks
  std::int64_t tied = 0;       // elements of a tied table that a rank owns
  bool has_tied_copy = false;  // of the table that the first stage saves
  // Slices saved by each rank that holds all copies of its data, and slices saved by one
  // tensor-parallel rank for all.
  std::int64_t slices = 0, shared_slices = 0, bytes = 0;
};

Position position_of(Engine& engine, int number, const Config& config) {
  Position position;
  for (int c = 0; c < engine.chunks(); ++c) {
    const StageDefinition& definition = engine.stage(c).definition();
    position.reads_data |= reads_data(definition, config.data.reset_position_ids);
    const Optimizer& optimizer = engine.optimizer(c);
    for (const OwnedSlice& slice : optimizer.layout().owned()) {
      const ParameterSpec& spec = definition.parameters[slice.parameter].spec;
      const int kinds = 1 + optimizer.moments(slice.parameter);
      // Slices of experts are not contiguous in the full parameter.
      const std::int64_t regions = std::ssize(regions_of(spec, slice.begin, slice.end));
      const std::int64_t arrays = kinds * std::max<std::int64_t>(1, regions);
      const bool is_shared = !spec.split && !spec.of_experts;
      (is_shared ? position.shared_slices : position.slices) += arrays;
      position.bytes += (slice.end - slice.begin) * kinds * size_of(optimizer.dtype());
      if (spec.name == "embedding.word.weight") {
        position.tied += slice.end - slice.begin;
        position.has_tied_copy |= number > 0 || c > 0;
      }
    }
    position.has_shared |= std::ranges::any_of(definition.parameters, [](const Parameter& p) {
      return !p.spec.split && !p.spec.of_experts;
    });
  }
  return position;
}

class Start {
 public:
  Start(const Config& config, int ranks, const Target& target, const StartOptions& options)
      : config_(config), target_(target), options_(options), device_(target) {
    start_.ranks = ranks;
    start_.nodes = ceil_div(ranks, options.ranks_on_node);
    // A plan must not create a run's files.
    config_.offload.optimizer = OffloadConfig{}.optimizer;
    config_.offload.parameters = OffloadConfig{}.parameters;
    const auto schedules = std::make_shared<PlannedSchedules>();
    const int of_position = ranks / static_cast<int>(config.parallel.pp);
    for (int p = 0; p < static_cast<int>(config.parallel.pp); ++p) {
      RecordedRank recorded(config_, target, {p * of_position, ranks}, schedules);
      mesh_ = recorded.engine.mesh();
      positions_.push_back(position_of(recorded.engine, p, config_));
    }
  }

  StartPlan run() {
    count_messages();
    count_files();
    return std::move(start_);
  }

 private:
  int node_of(int rank) const { return rank / options_.ranks_on_node; }

  void count_messages() {
    if (options_.resumes) manifest_.resize(static_cast<std::size_t>(manifest_bytes()));
    const std::set<int> some = {0, start_.nodes / 2, start_.nodes - 1};
    SentMessages node;
    for (int rank = 0; rank < start_.ranks; ++rank) {
      if (!options_.all_ranks && !some.contains(node_of(rank))) continue;
      if (rank % options_.ranks_on_node == 0) node = {};
      const SentMessages sent = messages_of(rank);
      start_.groups = std::max(start_.groups, sent.groups);
      if (sent.messages > start_.rank.messages) start_.busiest = rank;
      for (const auto& [most, one] :
           {std::pair{&start_.rank.messages, sent.messages}, {&start_.rank.bytes, sent.bytes}})
        *most = std::max(*most, one);
      node.messages += sent.messages;
      node.bytes += sent.bytes;
      start_.node.messages = std::max(start_.node.messages, node.messages);
      start_.node.bytes = std::max(start_.node.bytes, node.bytes);
    }
  }

  // Messages of a trainer from its start to its first step (train/trainer_start.cpp and
  // checkpoint_keeper.cpp), sent to a loopback transport.
  SentMessages messages_of(int rank) {
    Place place;
    place.rank = rank;
    place.size = start_.ranks;
    place.local_rank = rank % options_.ranks_on_node;
    place.local_size = place.local_processors = options_.ranks_on_node;
    const std::unique_ptr<Transport> transport = make_mirror_transport(place);
    Communicator& world = transport->world();
    std::array<std::int64_t, 4> found{};
    world.broadcast(found.data(), 4, DType::i64, 0, "opening the data").wait();
    check_agreement(
        world, std::vector<Agreement>(6, Agreement{"settings that must be equal on all ranks", 0}));
    const bool on_gpus = target_.device != DeviceKind::cpu;
    if (on_gpus) {
      std::vector<std::int64_t> all(static_cast<std::size_t>(start_.ranks));
      world.all_gather(found.data(), all.data(), 1, DType::i64, "GPUs of all ranks").wait();
    }
    const Groups groups = make_groups(mesh_, static_cast<int>(config_.parallel.zero),
                                      config_.parallel.cp_attention == ContextAttention::ring,
                                      *transport, device_, {.fixed_order = false});
    if (on_gpus) {
      // Each group of the library begins with the id that its first rank has made.
      std::array<std::byte, 128> id{};
      for (const auto* group :
           {&groups.tensor, &groups.context, &groups.ring, &groups.kv, &groups.shard,
            &groups.gather, &groups.replicate, &groups.pipeline, &groups.embedding}) {
        if (*group && (*group)->size() > 1)
          (*group)->broadcast(id.data(), id.size(), DType::u8, 0, {"joining"}).wait();
      }
    }
    for (const auto* group : {&groups.tensor, &groups.context, &groups.kv, &groups.shard,
                              &groups.replicate, &groups.expert}) {
      if (*group && (*group)->size() > 1) check_agreement(**group, {{"graph layout", 0}});
    }
    Transport* const all = transport.get();
    const std::string folder(100, ' ');
    const auto report_damage = [&] {
      reports_of_ranks(all, "");
      from_rank_0(all, "");
    };
    const auto hand_on_manifest = [&] {
      if (start_.ranks == 1) return;
      world.broadcast(found.data(), 1, DType::i64, 0, "size of a message").wait();
      world
          .broadcast(manifest_.data(), static_cast<std::int64_t>(manifest_.size()), DType::u8, 0,
                     "message of rank 0")
          .wait();
    };
    from_rank_0(all, options_.resumes ? folder : "");  // of the run itself
    if (options_.resumes) {
      if (config_.checkpoint.fallback) {
        hand_on_manifest();
        reports_of_ranks(all, "");
        from_rank_0(all, "");
      }
      report_damage();
      hand_on_manifest();
      report_damage();
    } else if (!config_.checkpoint.load.empty()) {
      from_rank_0(all, folder);
    }
    return transport->sent();
  }

  // Estimate of the number of bytes of the manifest.
  std::int64_t manifest_bytes() const {
    const std::int64_t copies =
        mesh_.group_size(replicate_axes(static_cast<int>(config_.parallel.zero)));
    const std::int64_t savers =
        start_.ranks / static_cast<std::int64_t>(positions_.size()) / copies;
    std::int64_t bytes = 0;
    for (const Position& position : positions_) {
      bytes +=
          savers * (position.slices * bytes_of_slice + position.bytes / block * bytes_of_checksum) +
          savers / mesh_.degrees().tp * position.shared_slices * bytes_of_slice;
    }
    return bytes;
  }

  // Number of shards of a checkpoint with the same layout that contain a rank's data.
  int shards_of(int rank) const {
    const MeshPlace place = mesh_.place_of(rank);
    const Position& position = positions_[static_cast<std::size_t>(place.pp)];
    int shards = 1;  // its own, or that of the rank whose copy it has
    if (place.tp > 0 && position.has_shared) ++shards;
    // The first stage splits the table differently.
    if (position.has_tied_copy && positions_[0].tied > 0)
      shards += 1 + static_cast<int>(ceil_div(position.tied, positions_[0].tied));
    return shards;
  }

  template <class FilesOf>
  void add(const std::string& what, std::int64_t bytes, const FilesOf& files_of) {
    StartFiles files{.what = what, .bytes = bytes};
    std::int64_t node = 0;
    for (int rank = 0; rank < start_.ranks; ++rank) {
      if (rank % options_.ranks_on_node == 0) node = 0;
      const std::int64_t opened = files_of(rank);
      files.readers += opened > 0;
      files.rank = std::max(files.rank, opened);
      files.node = std::max(files.node, node += opened);
      files.job += opened;
      of_ranks_[static_cast<std::size_t>(rank)] += opened;
    }
    if (files.job > 0) start_.files.push_back(files);
  }

  static std::int64_t size_of_all(const std::vector<std::string>& paths) {
    std::int64_t bytes = 0;
    for (const std::string& path : paths) {
      std::error_code error;
      const std::uintmax_t size = fs::file_size(path, error);
      if (error) return -1;
      bytes += static_cast<std::int64_t>(size);
    }
    return bytes;
  }

  void count_files() {
    of_ranks_.assign(static_cast<std::size_t>(start_.ranks), 0);
    const auto all = [](std::int64_t files) { return [files](int) { return files; }; };
    add("configuration", size_of_all({options_.config_file}), all(1));
    const DataConfig& data = config_.data;
    std::vector<std::string> tokenizer;
    for (const std::string& path : {data.vocab_file, data.merge_file, data.tokenizer_model})
      if (!path.empty() && data.tokenizer != "null") tokenizer.push_back(path);
    add("tokenizer", size_of_all(tokenizer), all(static_cast<std::int64_t>(tokenizer.size())));
    const auto reads = [&](int rank) {
      // Rank 0 checks on behalf of all others.
      return rank == 0 || positions_[static_cast<std::size_t>(mesh_.place_of(rank).pp)].reads_data;
    };
    std::set<std::string> prefixes;
    for (const auto* paths : {&data.path, &data.train_path, &data.valid_path})
      for (const std::string& path : *paths)
        if (!path.empty() && path.find_first_not_of("0123456789.") != std::string::npos)
          prefixes.insert(path);
    const auto count = static_cast<std::int64_t>(prefixes.size());
    std::vector<std::string> indices;
    for (const std::string& prefix : prefixes) indices.push_back(prefix + ".idx");
    add("tokens (.bin, .idx)", size_of_all(indices),
        [&](int rank) { return reads(rank) ? 2 * count : 0; });
    add("cached sample orders, if they are large", -1,
        [&](int rank) { return reads(rank) ? splits() * count : 0; });
    if (!options_.resumes) return finish();
    add("checkpoint: latest, manifest", manifest_bytes(),
        [](int rank) { return rank == 0 ? 2 : 0; });
    add("checkpoint: shards", -1, [&](int rank) { return 2 * shards_of(rank); });
    finish();
  }

  std::int64_t splits() const {
    return config_.train.eval_interval > 0 && config_.train.eval_iters > 0 ? 2 : 1;
  }

  void finish() {
    StartFiles& total = start_.total;
    total.what = "all";
    std::int64_t node = 0;
    for (int rank = 0; rank < start_.ranks; ++rank) {
      const std::int64_t opened = of_ranks_[static_cast<std::size_t>(rank)];
      if (rank % options_.ranks_on_node == 0) node = 0;
      total.readers += opened > 0;
      total.rank = std::max(total.rank, opened);
      total.node = std::max(total.node, node += opened);
      total.job += opened;
    }
  }

  Config config_;
  Target target_;
  StartOptions options_;
  RecordingDevice device_;
  Mesh mesh_{MeshDegrees{}};
  std::vector<Position> positions_;
  std::string manifest_;                // as long as it is, for all ranks
  std::vector<std::int64_t> of_ranks_;  // files
  StartPlan start_;
};

}  // namespace

StartPlan plan_start(const Config& config, int ranks, const Target& target,
                     const StartOptions& options) {
  return Start(config, ranks, target, options).run();
}

std::string to_text(const StartPlan& start) {
  std::string text = fmt::format(
      "start-up of {} on {}\n"
      "  a rank joins at most {} and sends at most {} with {} (rank {}); the ranks "
      "of a node send {} with {}\n"
      "  {:<46} {:>8} {:>10} {:>10} {:>10} {:>12}\n",
      counted(start.ranks, "rank"), counted(start.nodes, "node"), counted(start.groups, "group"),
      counted(start.rank.messages, "message"), bytes_to_text(start.rank.bytes), start.busiest,
      start.node.messages, bytes_to_text(start.node.bytes), "files opened to read", "ranks",
      "by a rank", "by a node", "by all", "bytes");
  const auto row = [&](const StartFiles& files) {
    text += fmt::format("  {:<46} {:>8} {:>10} {:>10} {:>10} {:>12}\n", files.what, files.readers,
                        files.rank, files.node, files.job,
                        files.bytes < 0 ? "" : bytes_to_text(files.bytes));
  };
  for (const StartFiles& files : start.files) row(files);
  row(start.total);
  return text +
         "  not counted: messages and files of MPI, NCCL or RCCL and of the program loader\n";
}

}  // namespace trireme
