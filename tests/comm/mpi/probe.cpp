// A job that fails in one of several ways, for faults_test.cpp to watch; or that measures.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/mpi/device.h"
#include "comm/transport.h"

namespace {

using namespace trireme;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void reduce_forever(Communicator& world) {
  std::vector<float> data(1 << 18, 1.0f);
  for (int step = 0;; ++step) {
    world.all_reduce(data.data(), 1 << 18, DType::f32, Reduction::max, {"reduce gradients", step})
        .wait();
  }
}

// Performs compute-bound work in pieces; returns a value that depends on all of it.
float compute(int pieces) {
  float x = 1;
  for (int piece = 0; piece < pieces; ++piece) {
    for (int i = 0; i < 100000; ++i) x = x * 0.999f + 0.5f;
  }
  return x;
}

// Measures the time of communication and computation alone, and of both at once.
void measure_overlap(Transport& transport) {
  Communicator& world = transport.world();
  constexpr std::int64_t count = 8 << 20;
  std::vector<float> data(count, 1.0f);
  const auto reduce = [&] {
    return world.all_reduce(data.data(), count, DType::f32, Reduction::max, "overlap");
  };
  volatile float sink = compute(1);
  std::vector<double> alone, computed, both, waited, background, processor;
  const auto begin_of = [&] {
    world.barrier("begin").wait();
    return Clock::now();
  };
  auto calibration = begin_of();
  sink = compute(100);
  const int pieces = std::max(1, static_cast<int>(100 * 0.15 / seconds_since(calibration)));
  for (int round = 0; round < 9; ++round) {
    auto begin = begin_of();
    reduce().wait();
    alone.push_back(seconds_since(begin));
    begin = begin_of();
    sink = compute(pieces);
    computed.push_back(seconds_since(begin));
    begin = begin_of();
    Work work = reduce();
    sink = compute(pieces);
    const auto end = Clock::now();
    work.wait();
    waited.push_back(seconds_since(end));
    both.push_back(seconds_since(begin));
    // No thread waits or computes: only the work of the engine's own thread, and its cost.
    begin = begin_of();
    const double before = processor_seconds();
    work = reduce();
    while (!work.done()) usleep(500);
    background.push_back(seconds_since(begin));
    processor.push_back(processor_seconds() - before);
  }
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
    return v[v.size() / 2] * 1e3;
  };
  if (transport.place().rank == 0) {
    std::printf(
        "all_reduce of 32 MiB: alone %.1f ms, computation alone %.1f ms, both at once %.1f ms "
        "(%.1f ms of it waiting); in the background %.1f ms (%.1f ms of processor time)\n",
        median(alone), median(computed), median(both), median(waited), median(background),
        median(processor));
  }
  (void)sink;
}

// Measures the latency of small collectives and messages, one after another.
void measure_latency(Transport& transport) {
  Communicator& world = transport.world();
  const int rank = world.rank();
  const auto time = [&](const char* what, auto&& body) {
    world.barrier("begin").wait();
    constexpr int rounds = 2000;
    const auto begin = Clock::now();
    for (int i = 0; i < rounds; ++i) body();
    if (rank == 0) std::printf("%s: %.1f us\n", what, seconds_since(begin) / rounds * 1e6);
  };
  std::vector<float> data(1 << 16);
  time("barrier", [&] { world.barrier("b").wait(); });
  time("all_reduce 4 B",
       [&] { world.all_reduce(data.data(), 1, DType::f32, Reduction::max, "a").wait(); });
  time("all_reduce 64 KiB",
       [&] { world.all_reduce(data.data(), 1 << 14, DType::f32, Reduction::max, "a").wait(); });
  time("ping-pong 4 B, there and back", [&] {
    if (rank > 1) return;
    if (rank == 0) world.send(data.data(), 1, DType::f32, 1, "p").wait();
    world.receive(data.data(), 1, DType::f32, 1 - rank, "p").wait();
    if (rank == 1) world.send(data.data(), 1, DType::f32, 0, "p").wait();
  });
}

// Runs on GPUs, whose queues block until a message arrives.
void run_on_devices(Transport& transport, const std::string& mode) {
  testing_comm::DeviceRanks ranks(transport, QueueRole::pipeline);
  const int rank = transport.place().rank, next = rank ^ 1;
  std::byte* const data = ranks.gpu.allocate(4096);
  const auto receive = [&](int peer) {
    ranks.group->receive(data, 1024, DType::u8, peer, "activations").wait();
  };
  const auto send = [&](int peer) {
    ranks.group->send(data + 2048, 1024, DType::u8, peer, "activations").wait();
  };
  if (mode == "gpu-crossed") {
    // Every rank receives first, so no queue reaches its send.
    receive(next);
    send(next);
  } else if (mode == "gpu-crossed-sends") {
    send(next);
    receive(next);
  } else if (mode == "gpu-wrong-peer") {
    rank == 0 ? send(2) : rank == 1 ? receive(0) : void();
  } else if (mode == "gpu-stop") {
    for (int step = 0;; ++step) {
      ranks.group->all_reduce(data, 512, DType::i64, Reduction::sum, {"reduce gradients", step})
          .wait();
      ranks.gpu.queue().synchronize();
      if (step == 3 && rank == 1) raise(SIGSTOP);
    }
  } else if (mode == "gpu-error") {
    // The other ranks' parts never arrive; operations that wait for them do not delay the error.
    if (rank == 2) fail("the disk is full");
    ranks.group->all_reduce(data, 512, DType::i64, Reduction::sum, "reduce gradients").wait();
    if (rank == 1) fail("the disk is full as well");
  }
  ranks.gpu.queue().synchronize();
  ranks.gpu.release(data, 4096);
}

void run(Transport& transport, const std::string& mode) {
  Communicator& world = transport.world();
  const int rank = world.rank();
  float x = 1;
  if (mode.starts_with("gpu-")) return run_on_devices(transport, mode);
  if (mode == "overlap") return measure_overlap(transport);
  if (mode == "latency") return measure_latency(transport);
  if (mode == "error") {
    if (rank == 2) fail("the disk is full");
    reduce_forever(world);
  }
  if (mode == "stop" || mode == "kill") {
    if (rank == 1) {
      world.barrier("start").wait();
      raise(mode == "stop" ? SIGSTOP : SIGKILL);
    } else {
      world.barrier("start").wait();
    }
    reduce_forever(world);
  }
  if (mode == "stop-first") {
    world.barrier("start").wait();
    if (rank == 0) raise(SIGSTOP);
    reduce_forever(world);
  }
  if (mode == "stop-in-transfer") {
    // Another process stops rank 1 while data is in transit.
    if (rank == 0) world.receive(&x, 1, DType::f32, 1, "start").wait();
    if (rank == 1) {
      const pid_t self = getpid();
      if (fork() == 0) {
        usleep(200000);
        kill(self, SIGSTOP);
        _exit(0);
      }
      world.send(&x, 1, DType::f32, 0, "start").wait();
    }
    reduce_forever(world);
  }
  if (mode == "chain") {
    // Each rank waits for the next one; only the last is at fault.
    if (rank + 1 == world.size()) raise(SIGSTOP);
    world.receive(&x, 1, DType::f32, rank + 1, {"activation of micro-batch", 7}).wait();
  }
  if (mode == "busy") {
    if (rank == 3) sleep(30);
    world.barrier("end of step").wait();
  }
  if (mode == "disagree") {
    check_agreement(world, {{"version", 1}, {"configuration", rank == 1 ? 5u : 4u}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    const auto transport = open_transport({.timeout_s = std::atof(argv[2])});
    run_guarded(*transport, [&] { run(*transport, argv[1]); });
  } catch (const Error& error) {
    if (*error.what()) std::fprintf(stderr, "trireme: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
