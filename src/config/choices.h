// Enumerations of configuration keys with a fixed set of values. One table per key defines the
// enumeration and its names; parsing, printing, help and the reference page use it.
#pragma once

#include "base/choice.h"
#include "base/fp8.h"
#include "base/kinds.h"
#include "config/optimizers.h"
#include "config/schedules.h"

namespace trireme {

// clang-format off

// [run]
#define TRIREME_PRECISIONS(X) X(bf16, "bf16") X(fp16, "fp16") X(fp32, "fp32") X(fp64, "fp64")
TRIREME_CHOICE(Precision, TRIREME_PRECISIONS)

// Type of gradient accumulation and of optimizer moments; fp32 means fp64 with precision fp64.
#define TRIREME_STATE_TYPES(X) X(fp32, "fp32") X(bf16, "bf16")
TRIREME_CHOICE(StateType, TRIREME_STATE_TYPES)

TRIREME_CHOICE_NAMES(DeviceKind, TRIREME_DEVICES)

// [model]; by_family: the family's default, filled in by resolve().
#define TRIREME_POSITION_ENCODINGS(X) \
  X(by_family, "") X(learned, "learned") X(rope, "rope") X(alibi, "alibi") X(none, "none")
TRIREME_CHOICE(PositionEncoding, TRIREME_POSITION_ENCODINGS)

#define TRIREME_ROPE_SCALINGS(X) \
  X(none, "none") X(linear, "linear") X(llama3, "llama3") X(yarn, "yarn") \
  X(longrope, "longrope") X(dynamic, "dynamic")
TRIREME_CHOICE(RopeScaling, TRIREME_ROPE_SCALINGS)

#define TRIREME_NORM_TYPES(X) \
  X(by_family, "") X(layer_norm, "layer_norm") X(rms_norm, "rms_norm")
TRIREME_CHOICE(NormType, TRIREME_NORM_TYPES)

#define TRIREME_MLP_ACTIVATIONS(X)                                             \
  X(by_family, "") X(gelu_tanh, "gelu_tanh") X(gelu_erf, "gelu_erf") X(silu, "silu") \
  X(squared_relu, "squared_relu") X(swiglu, "swiglu") X(geglu, "geglu")
TRIREME_CHOICE(MlpActivation, TRIREME_MLP_ACTIVATIONS)

#define TRIREME_NORM_SPANS(X) X(head, "head") X(all_heads, "all_heads")
TRIREME_CHOICE(NormSpan, TRIREME_NORM_SPANS)

// Norm before attention/MLP; after, before the residual add; both of these; after the add.
#define TRIREME_NORM_PLACEMENTS(X) \
  X(pre, "pre") X(output, "output") X(both, "both") X(post, "post")
TRIREME_CHOICE(NormPlacement, TRIREME_NORM_PLACEMENTS)

// [moe]
#define TRIREME_LINEAR_KINDS(X) X(gated_delta_net, "gated_delta_net") X(mamba2, "mamba2")
TRIREME_CHOICE(LinearKind, TRIREME_LINEAR_KINDS)

#define TRIREME_ROUTER_SCORES(X) X(softmax, "softmax") X(sigmoid, "sigmoid")
TRIREME_CHOICE(RouterScore, TRIREME_ROUTER_SCORES)

#define TRIREME_BALANCE_SCOPES(X) \
  X(sequence, "sequence") X(batch, "batch") X(global, "global")
TRIREME_CHOICE(BalanceScope, TRIREME_BALANCE_SCOPES)

#define TRIREME_DROP_POLICIES(X) X(weight, "weight") X(position, "position")
TRIREME_CHOICE(DropPolicy, TRIREME_DROP_POLICIES)

// [data]
#define TRIREME_DOCUMENT_UNITS(X) X(file, "file") X(paragraph, "paragraph") X(line, "line")
TRIREME_CHOICE(DocumentUnit, TRIREME_DOCUMENT_UNITS)

// [train] and [curriculum]
#define TRIREME_SPIKE_POLICIES(X) X(none, "none") X(skip, "skip") X(back, "back")
TRIREME_CHOICE(SpikePolicy, TRIREME_SPIKE_POLICIES)

#define TRIREME_CURRICULUM_SCHEDULES(X) \
  X(none, "none") X(fixed_linear, "fixed_linear") X(fixed_root, "fixed_root")
TRIREME_CHOICE(CurriculumSchedule, TRIREME_CURRICULUM_SCHEDULES)

// [optimizer]
#define TRIREME_DECAY_STYLES(X)                                               \
  X(constant, "constant") X(linear, "linear") X(cosine, "cosine") \
  X(inverse_sqrt, "inverse_sqrt") X(wsd, "wsd")
TRIREME_CHOICE(DecayStyle, TRIREME_DECAY_STYLES)

#define TRIREME_ANNEAL_STYLES(X)                                          \
  X(exponential, "exponential") X(linear, "linear") X(cosine, "cosine") \
  X(minus_sqrt, "minus_sqrt")
TRIREME_CHOICE(AnnealStyle, TRIREME_ANNEAL_STYLES)

#define TRIREME_MUON_COEFFICIENTS(X) X(simple, "simple") X(quintic, "quintic")
TRIREME_CHOICE(MuonCoefficients, TRIREME_MUON_COEFFICIENTS)

#define TRIREME_MUON_SCALES(X)                                           \
  X(match_rms, "match_rms") X(spectral, "spectral") X(original, "original") \
  X(unit_rms, "unit_rms")
TRIREME_CHOICE(MuonScale, TRIREME_MUON_SCALES)

// [fp8]
TRIREME_CHOICE_NAMES(Fp8Recipe, TRIREME_FP8_RECIPES)

#define TRIREME_FP8_MIXES(X) X(e4m3, "e4m3") X(hybrid, "hybrid")
TRIREME_CHOICE(Fp8Mix, TRIREME_FP8_MIXES)

#define TRIREME_FP8_ENCODINGS(X) X(ocp, "ocp") X(fnuz, "fnuz")
TRIREME_CHOICE(Fp8Encoding, TRIREME_FP8_ENCODINGS)

// [parallel] all_gather: keys and values are gathered on every rank; ulysses:
// all-to-all exchanges positions for heads; ring: keys and values pass from rank to
// rank.
#define TRIREME_CONTEXT_ATTENTIONS(X) \
  X(all_gather, "all_gather") X(ulysses, "ulysses") X(ring, "ring")
TRIREME_CHOICE(ContextAttention, TRIREME_CONTEXT_ATTENTIONS)

// none: everything the backward pass reads is saved; selective: outputs of cheap ops (norms,
// activations, additions) are recomputed; full: only the input of each segment is saved.
#define TRIREME_RECOMPUTES(X) X(none, "none") X(selective, "selective") X(full, "full")
TRIREME_CHOICE(Recompute, TRIREME_RECOMPUTES)

#define TRIREME_NUMERICS(X) X(fast, "fast") X(exact, "exact") X(portable, "portable")
TRIREME_CHOICE(Numerics, TRIREME_NUMERICS)

// [offload]
#define TRIREME_OFFLOAD_PLACES(X) X(none, "none") X(host, "host") X(file, "file")
TRIREME_CHOICE(OffloadPlace, TRIREME_OFFLOAD_PLACES)

// [checkpoint]
#define TRIREME_EXPORT_FORMATS(X) X(none, "none") X(hf, "hf")
TRIREME_CHOICE(ExportFormat, TRIREME_EXPORT_FORMATS)

// [log], from least to most verbose.
#define TRIREME_LOG_LEVELS(X) \
  X(error, "error") X(warning, "warning") X(info, "info") X(debug, "debug")
TRIREME_CHOICE(LogLevel, TRIREME_LOG_LEVELS)

// clang-format on

}  // namespace trireme
