// The keys of [fp8], [parallel] and [offload].
#include <fmt/ranges.h>

#include "config/fields/row.h"
#include "config/schedules.h"

namespace trireme {

std::vector<Field> parallel_fields() {
  return {
      FIELD(fp8, recipe, any(), "",
            "fp8 recipe for the GEMMs of linear layers; tensorwise: one scale per weight and one "
            "per sequence of activations; blockwise: one scale per 128 x 128 block of a weight and "
            "one per 128 activations")
          .also("fp8_recipe fp8"),
      FIELD(fp8, format, any(), "",
            "hybrid: e5m2 for gradients of activations, e4m3 for everything else"),
      FIELD(fp8, encoding, any(), "",
            "ocp: the standard formats; fnuz: those of AMD's gfx942 (MI300), whose largest e4m3 "
            "value is 240"),
      FIELD(fp8, power_of_2_scales, any(), "",
            "round scales down to powers of two, so that scaling itself is exact"),
      FIELD(fp8, first_layers_bf16, between(0, kManyLayers), "layers",
            "number of layers at the start of the model that compute in run.precision"),
      FIELD(fp8, last_layers_bf16, between(0, kManyLayers), "layers",
            "number of layers at the end of the model that compute in run.precision"),

      FIELD(parallel, tp, between(1, kWide), "ranks", "degree of tensor parallelism")
          .also(
              "tp_degree tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size"),
      FIELD(parallel, pp, between(1, kWide), "ranks", "degree of pipeline parallelism")
          .also(
              "pp_degree pipeline_parallel pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size"),
      FIELD(parallel, cp, between(1, kWide), "ranks", "degree of context parallelism")
          .also("context_parallel_size context_parallel_degree"),
      FIELD(parallel, cp_attention, any(), "",
            "communication of context parallelism: all_gather gathers keys and values on every "
            "rank, ulysses exchanges sequence chunks for heads (all-to-all), ring passes keys and "
            "values from rank to rank")
          .also("context_parallel_rotate_method cp_comm_type"),
      FIELD(parallel, ep, between(1, kWide), "ranks",
            "degree of expert parallelism, within the ranks of a pipeline stage")
          .also(
              "expert_parallel_size expert_parallel_degree expert_model_parallel_size moe_expert_parallel_size ep_size autoep_size"),
      FIELD(parallel, expert_tp, between(1, kWide), "ranks",
            "degree of expert tensor parallelism: each expert is split over this many of those "
            "ranks")
          .also("etp expert_tensor_parallel_size expert_tensor_parallel_degree"),
      FIELD(parallel, dp_replicate, between(1, kWide), "",
            "hybrid sharding: number of replicas of the sharded group of data-parallel ranks")
          .also("data_parallel_replicate_degree"),
      FIELD(parallel, virtual_stages, between(1, kManyLayers), "stages",
            fmt::format(
                "number of virtual stages on each rank, for schedule {} only ({} always have 2)",
                fmt::join(schedule_names(ChunkRule::several), " and "),
                fmt::join(schedule_names(ChunkRule::folded), " and "))),
      FIELD(parallel, stage_layers, between(0, kManyLayers), "layers",
            "number of layers in each pipeline stage, in order; []: evenly divided"),
      FIELD(parallel, schedule, any(), "", "pipeline schedule").also("pipeline_parallel_schedule"),
      FIELD(parallel, sequence_parallel, any(), "",
            "sequence parallelism: norms and dropout split the sequence over the tensor-parallel "
            "ranks"),
      FIELD(parallel, zero, between(0, 3), "",
            "ZeRO stage, sharding over data-parallel ranks: 1 optimizer states, 2 also gradients, "
            "3 also parameters"),
      FIELD(parallel, recompute, any(), "", "activation recomputation in the backward pass")
          .also(
              "gradient_checkpointing activation_checkpointing recompute_activations recompute_granularity"),
      FIELD(parallel, recompute_layers, between(0, kManyLayers), "layers",
            "number of layers in each stage that recompute = \"full\" applies to; 0: all"),
      FIELD(parallel, distribute_saved_activations, any(), "",
            "distribute the layer inputs that full recomputation saves over the tensor-parallel "
            "ranks, and gather them in the backward pass; no effect with sequence_parallel, where "
            "they are already distributed"),
      FIELD(parallel, numerics, any(), "",
            "exact: bitwise identical results on every layout with equal tp, and with exact_leaves "
            "for every tp; portable: exact, and the same bits on every x86 processor with AVX2"),
      FIELD(parallel, exact_block, between(0, kWide), "tokens",
            "number of consecutive tokens of a sequence whose gradients exact numerics sum as one "
            "block, so that results do not depend on the micro-batch size; 0: a whole "
            "micro-batch"),
      FIELD(parallel, exact_leaves, between(0, 1024), "",
            "number of equal parts into which exact numerics divide each sum that tensor "
            "parallelism splits, so that results are the same for every tp that divides it; 0: "
            "results depend on tp"),

      FIELD(offload, optimizer, any(), "",
            "where optimizer states are kept while a step does not need them; host: host memory, "
            "where they already are with run.device = \"cpu\"; file: a file on a local disk, only "
            "with run.device = \"cpu\""),
      FIELD(offload, parameters, any(), "",
            "where the parameter shards of parallel.zero = 3 are kept while no layer needs them; "
            "host and file as above"),
      FIELD(offload, activations, any(), "",
            "where saved activations are kept between the forward and the backward pass; host and "
            "file as above"),
      FIELD(offload, activation_layers, between(0, kManyLayers), "layers",
            "number of layers at the start of each stage whose activations are offloaded; 0: all"),
      FIELD(offload, path, any(), "", "folder for the files, one per rank"),
  };
}

}  // namespace trireme
