// The keys of [fp8], [parallel] and [offload].
#include <fmt/ranges.h>

#include "config/fields/row.h"
#include "config/schedules.h"

namespace trireme {

std::vector<Field> parallel_fields() {
  return {
      FIELD(fp8, recipe, any(), "",
            "how the linear layers of blocks round to 8 bits what their products read; tensorwise: "
            "one scale for a weight, and one for the activations of a sequence; blockwise: one for "
            "128 x 128 of a weight, and one for 128 activations")
          .also("fp8_recipe fp8"),
      FIELD(fp8, format, any(), "", "hybrid: gradients of activations are e5m2, and all else e4m3"),
      FIELD(fp8, encoding, any(), "",
            "ocp: the common formats; fnuz: those of AMD's gfx942 (MI300), where e4m3 ends at 240"),
      FIELD(fp8, power_of_2_scales, any(), "",
            "round scales down to powers of two, so that they round no number"),
      FIELD(fp8, first_layers_bf16, between(0, kManyLayers), "layers",
            "number at the start of the model that compute in run.precision"),
      FIELD(fp8, last_layers_bf16, between(0, kManyLayers), "layers", "number at its end"),

      FIELD(parallel, tp, between(1, kWide), "ranks", "degree of tensor parallelism")
          .also(
              "tp_degree tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size"),
      FIELD(parallel, pp, between(1, kWide), "ranks", "degree of pipeline parallelism")
          .also(
              "pp_degree pipeline_parallel pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size"),
      FIELD(parallel, cp, between(1, kWide), "ranks", "degree of context parallelism")
          .also("context_parallel_size context_parallel_degree"),
      FIELD(parallel, cp_attention, any(), "",
            "with cp: keys and values come to every rank, ranks exchange positions for heads, or "
            "keys and values pass from rank to rank")
          .also("context_parallel_rotate_method cp_comm_type"),
      FIELD(parallel, ep, between(1, kWide), "ranks",
            "degree of expert parallelism, among the ranks of a pipeline stage")
          .also(
              "expert_parallel_size expert_parallel_degree expert_model_parallel_size moe_expert_parallel_size ep_size autoep_size"),
      FIELD(parallel, expert_tp, between(1, kWide), "ranks",
            "degree of tensor parallelism of experts: an expert is split over this many of those "
            "ranks")
          .also("etp expert_tensor_parallel_size expert_tensor_parallel_degree"),
      FIELD(parallel, dp_replicate, between(1, kWide), "",
            "hybrid sharding: number of copies of a sharded group of data-parallel ranks")
          .also("data_parallel_replicate_degree"),
      FIELD(parallel, virtual_stages, between(1, kManyLayers), "stages",
            fmt::format("number on each rank, for schedule {} only ({} always have 2)",
                        fmt::join(schedule_names(ChunkRule::several), " and "),
                        fmt::join(schedule_names(ChunkRule::folded), " and "))),
      FIELD(parallel, stage_layers, between(0, kManyLayers), "layers",
            "number in each stage, in order; []: even"),
      FIELD(parallel, schedule, any(), "", "order of the passes in the pipeline")
          .also("pipeline_parallel_schedule"),
      FIELD(parallel, sequence_parallel, any(), "",
            "norms and dropout split the sequence over the tensor-parallel ranks"),
      FIELD(parallel, zero, between(0, 3), "",
            "sharded over data-parallel ranks: 1 optimizer states, 2 also gradients, 3 also "
            "parameters"),
      FIELD(parallel, recompute, any(), "", "activations that the backward pass computes again")
          .also(
              "gradient_checkpointing activation_checkpointing recompute_activations recompute_granularity"),
      FIELD(parallel, recompute_layers, between(0, kManyLayers), "layers",
            "number in each stage that recompute = \"full\" applies to; 0: all"),
      FIELD(parallel, distribute_saved_activations, any(), "",
            "whether each tensor-parallel rank keeps a part of the layers' inputs that full "
            "recomputation saves, and gathers them in the backward pass; with sequence_parallel "
            "nothing changes: ranks have parts anyway"),
      FIELD(
          parallel, numerics, any(), "",
          "exact: the same bits on every layout with equal tp, and with exact_leaves for every tp; "
          "portable: exact, and the same bits on every x86 processor with AVX2"),
      FIELD(parallel, exact_block, between(0, kWide), "tokens",
            "consecutive ones of a sequence whose gradients exact numerics sum at once, so that "
            "bits depend on no micro-batch size; 0: a whole micro-batch"),
      FIELD(parallel, exact_leaves, between(0, 1024), "",
            "equal parts in which exact numerics make each sum that tensor parallelism splits, so "
            "that bits depend on no tp that divides it; 0: they depend on tp"),

      FIELD(offload, optimizer, any(), "",
            "where the states of the optimizer are while a step does not need them; host: the "
            "memory of the machine, where they are anyway with run.device = \"cpu\"; file: a file "
            "on a local disk, with run.device = \"cpu\" alone"),
      FIELD(offload, parameters, any(), "",
            "where a rank's parts of parameters are while no layer needs them, with "
            "parallel.zero = 3; host and file as above"),
      FIELD(offload, activations, any(), "",
            "where the activations that layers save are between their forward and their backward "
            "pass; host and file as above"),
      FIELD(offload, activation_layers, between(0, kManyLayers), "layers",
            "number of each stage's first ones whose activations are offloaded; 0: all"),
      FIELD(offload, path, any(), "", "file: folder of the files; every rank has its own there"),
  };
}

}  // namespace trireme
