// The training engine on a recording device.
#include "plan/recorded_rank.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "comm/recording.h"
#include "graph/op.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

// Adds the op name and cost of each launch to the record.
class OpNames : public Observer {
 public:
  explicit OpNames(Record& record) : record_(record) {}
  void before(const Launch& launch) override { record_.begin_op(definition(launch.node.op).name); }
  void after(const Launch& launch) override {
    const Cost cost = cost_of(launch.graph, launch.node);
    record_.end_op(cost.flops, cost.bytes);
  }

 private:
  Record& record_;
};

// Portable numerics use the kernels of AVX2 on every processor.
Target target_with_numerics(const Config& config, Target target) {
  if (config.parallel.numerics == Numerics::portable) {
    target.isa = cpu::Isa::avx2;
    target.bf16_dot_products = false;
  }
  return target;
}

}  // namespace

RecordedRank::RecordedRank(const Config& config, const Target& target, RankOf rank,
                           const std::shared_ptr<PlannedSchedules>& schedules)
    : device(target_with_numerics(config, target)),
      transport(make_recording_transport(rank.rank, rank.size, device.record())),
      engine(config, build_options(config), {.device = &device}, rank, schedules) {}

void RecordedRank::allocate() {
  engine.allocate(transport.get());
  TRIREME_CHECK(device.allocated() == engine.memory().total());
  TRIREME_CHECK(device.allocated_host() == engine.stored(OffloadPlace::host).total());
}

Record RecordedRank::record_step(std::int64_t micro_batches) {
  device.record().clear();
  OpNames names(device.record());
  const Batch nothing;
  StepInput input;
  input.micro_batches = micro_batches;
  engine.train_step(
      input, [&](std::int64_t) { return &nothing; }, &names);
  return device.record();
}

int threads_of(const Target& target) {
  return target.threads > 0 ? target.threads : ThreadPool::global().size();
}

}  // namespace trireme
