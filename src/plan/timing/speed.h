// Speed of a machine: the figures of a machine file, in bytes, flops and seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Matrix product rates of one type: nominal peak, best measured rate, and the speed of gradient
// products relative to forward products.
struct ProductRate {
  double peak = 0, ceiling = 0;  // flops per second; 0: not known
  double input_grad = 1, weight_grad = 1;
};

// A tile of the result computed by one unit at a time, and the share of the ceiling reached by
// kernels with such tiles.
struct ProductTile {
  double rows = 1, columns = 1, share = 1;
};

// Bytes per second that each of `devices` ranks on a node sends in a large collective.
struct BusRate {
  int devices = 2;
  double rate = 0;
};

// Fit of a machine and a software stack to one published row.
struct Fit {
  std::string stack;
  double efficiency = 1;  // kernels reach this share of the modeled speed
  std::string from;
  double wide_efficiency = 0;  // for 32-bit products; 0: the same
  double band = 0.08;          // expected relative error for other layouts
  int devices = 0;             // of the largest run compared; 0: not known
  // Relative excess over the prediction of a published run on more devices; 0: none is
  // known.
  double beyond = 0;
};

struct MachineSpeed {
  double memory_bytes = 0, memory_rate = 0;  // of one device; the rate is an achieved one
  ProductRate bf16, fp32;                    // bf16 applies to fp16 too
  double units = 1;                          // that compute tiles side by side
  double half_depth = 0;  // inner dimension at which a tile runs at half its rate
  std::vector<ProductTile> tiles = {{}};
  double attention = 1, attention_grad = 1;  // shares of the ceiling
  double flash2 = 1, flash2_grad = 1;        // the same of FlashAttention 2
  double own = 1, own_grad = 1;              // the same of our kernels
  double spread = 0;      // of the speed of devices: standard deviation, as a share
  double launch = 0;      // seconds between two kernels of a queue
  double host = 0;        // seconds that the host needs for one kernel
  double host_rate = 0;   // between the host's memory and the device's
  double host_bytes = 0;  // of the memory of a node's host; 0: not known

  int devices = 1;             // on a node
  std::vector<BusRate> bus;    // rising; empty: nodes have one device
  double pair = 0;             // what one device sends to one other on its node
  double node_latency = 0;     // of a message on a node
  double node_half = 0;        // bytes with which a collective on a node has half of its rate
  double nics = 0, nic = 0;    // of a node, and what one of them sends per second; 0: one node
  double network_latency = 0;  // of a message between nodes, for each doubling of their number
  double network_half = 0;     // as node_half

  std::vector<Fit> fits;
};

}  // namespace trireme
