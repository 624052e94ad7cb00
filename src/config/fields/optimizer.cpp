// The keys of [optimizer].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> optimizer_fields() {
  return {
      FIELD(optimizer, name, any(), "", "update rule").also("optim optimizer_type"),
      FIELD(optimizer, lr, at_least(0), "", "peak learning rate; required")
          .also("learning_rate max_lr max_learning_rate peak_lr"),
      FIELD(optimizer, min_lr, at_least(0), "", "final learning rate, after the decay"),
      FIELD(optimizer, decay_style, any(), "",
            "learning-rate schedule; wsd: constant until a decay at the end")
          .also("lr_scheduler_type lr_scheduler lr_decay_style"),
      FIELD(optimizer, decay_iters, count(), "iterations",
            "iteration at which the decay ends; 0: train.iters")
          .also("lr_decay_iters lr_decay_steps"),
      FIELD(optimizer, decay_samples, count(), "samples",
            "sample at which the decay ends; 0: train.samples"),
      FIELD(optimizer, decay_tokens, count(), "tokens",
            "tokens after which the decay ends; the schedule then counts tokens; conflicts with "
            "decay_iters and decay_samples"),
      FIELD(optimizer, warmup_iters, count(), "iterations",
            "length of the linear warm-up, with train.iters")
          .also("warmup_steps lr_warmup_iters lr_warmup_steps"),
      FIELD(optimizer, warmup_samples, count(), "samples",
            "length of the linear warm-up, with train.samples"),
      FIELD(optimizer, warmup_tokens, count(), "tokens",
            "length of the linear warm-up, with decay_tokens"),
      FIELD(optimizer, warmup_fraction, fraction(), "",
            "warm-up as a share of the length of the decay; conflicts with warmup_iters, "
            "warmup_samples and lengths in tokens")
          .also("warmup_ratio"),
      FIELD(optimizer, warmup_init_lr, at_least(0), "", "learning rate at the first step"),
      FIELD(optimizer, wsd_decay_iters, count(), "iterations", "length of the wsd decay"),
      FIELD(optimizer, wsd_decay_samples, count(), "samples", "length of the wsd decay"),
      FIELD(optimizer, wsd_decay_style, any(), "", "shape of the wsd decay"),
      FIELD(optimizer, weight_decay, between(0, 1e6), "",
            "decoupled weight decay of matrices (adamw, lion, muon), or L2 regularization (adam, "
            "sgd)")
          .also("wd"),
      FIELD(optimizer, decay_vectors, any(), "",
            "also apply weight decay to biases and norm weights, like PyTorch's optimizers with a "
            "single parameter group"),
      FIELD(
          optimizer, decay_qk_norms, any(), "",
          "whether the weights of the norms of queries and keys (model.qk_norm) decay as matrices "
          "do, unlike other norms (Qwen3-Next)")
          .also("apply_wd_to_qk_layernorm"),
      FIELD(optimizer, qk_clip_threshold, at_least(0), "",
            "QK-clip (Kimi K2): after a step in which an attention logit of a head exceeded this, "
            "the weights of its query and key projections are scaled down, together by threshold / "
            "largest logit; 0: off"),
      FIELD(optimizer, qk_clip_alpha, {.min = 0, .max = 1, .above_min = true, .below_max = true},
            "", "QK-clip: exponent of this scaling for queries; keys get the rest"),
      FIELD(optimizer, clip_grad, at_least(0), "",
            "gradient clipping: maximum L2 norm of the gradient; 0: off")
          .also("max_grad_norm max_norm gradient_clipping grad_clip gradient_clip_val"),
      FIELD(optimizer, beta1, fraction(), "", "decay of the first moment").also("adam_beta1"),
      FIELD(optimizer, beta2, fraction(), "", "decay of the second moment").also("adam_beta2"),
      FIELD(optimizer, eps, above(0), "", "epsilon added to the square root of the second moment")
          .also("adam_eps adam_epsilon"),
      FIELD(optimizer, momentum, fraction(), "", "momentum of sgd"),
      FIELD(optimizer, lion_beta1, fraction(), "",
            "lion: weight of the moment in the update direction"),
      FIELD(optimizer, lion_beta2, fraction(), "", "lion: decay of the moment"),
      FIELD(optimizer, muon_lr, at_least(0), "",
            "muon: peak learning rate of matrices, which follows the same schedule as that of the "
            "other parameters; 0: optimizer.lr"),
      FIELD(optimizer, muon_momentum, fraction(), "", "muon: decay of the momentum"),
      FIELD(optimizer, muon_nesterov, any(), "", "muon: use Nesterov momentum").also("nesterov"),
      FIELD(optimizer, muon_steps, between(1, 100), "iterations",
            "muon: number of Newton-Schulz iterations; a multiple of 5 with quintic")
          .also("ns_steps newton_schulz_steps"),
      FIELD(optimizer, muon_coefficients, any(), "",
            "muon: coefficients of the Newton-Schulz iterations; simple: the same in every "
            "iteration, as in Keller Jordan's Muon; quintic: five sets in turn, as in "
            "Megatron-LM")
          .also("ns_coefficients"),
      FIELD(optimizer, muon_scale, any(), "",
            "muon: scale of the update of a matrix [out, in]; match_rms: 0.2 sqrt(max(out, in)), "
            "which matches the RMS of AdamW updates; spectral: sqrt(max(out, in)); original: "
            "sqrt(max(1, out / in)); unit_rms: sqrt(out / in)"),
      FIELD(optimizer, muon_scale_factor, above(0), "",
            "muon: additional scale factor of the update"),
      FIELD(optimizer, moment_dtype, any(), "",
            "data type of the moments (sgd, muon: the momentum); bf16 halves their memory and uses "
            "stochastic rounding; runs in fp64 keep them in fp64"),
      FIELD(optimizer, loss_scale, at_least(0), "",
            "static loss scale for fp16; 0: dynamic loss scaling"),
      FIELD(optimizer, initial_loss_scale, above(0), "", "initial dynamic loss scale for fp16"),
      FIELD(optimizer, min_loss_scale, above(0), "", "minimum dynamic loss scale"),
      FIELD(optimizer, loss_scale_window, between(1, kCount), "iterations",
            "number of iterations without overflow after which the scale doubles"),
      FIELD(optimizer, hysteresis, between(1, kCount), "overflows",
            "number of overflows after which the scale is halved (hysteresis); reset after each "
            "doubling"),
  };
}

}  // namespace trireme
