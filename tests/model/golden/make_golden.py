#!/usr/bin/env python3
"""Makes the golden training runs beside this script: 20 steps of tiny models in PyTorch.

    python make_golden.py [--check]

Needs torch, numpy and safetensors; --check also compares the models with the classes of transformers.
The models are in golden_variants.py, and the other files hold their parts. Weights, tokens and
projections come from the formulas of golden_weights.h. A file (golden_file.py) holds the
configuration, and for each run (fp64, fp32, bf16) the losses and the norms of the gradients before
clipping. The first step's gradient and the final weights are those of the fp64 run: per tensor its
norm, projections onto fixed vectors of +1 and -1, and the first values.

bf16 means: weights, activations and gradients in bf16, fp32 master weights and optimizer, softmax,
norms and the loss in fp32 inside. Its learning rate is lower: at 1e-2 Adam blows rounding up to 3%
of the loss, and two right implementations would not agree within 1%. BERT, which sees few targets,
mixtures of experts, where rounding may give a token another expert, and Gemma, whose embedding is
scaled up, have the lower rate throughout. In 8 bits one number that is rounded the other way changes
by a sixteenth, and with it all that follows: these runs have a far lower rate, and fp64 is what holds
their formulas.

Models are trained with AdamW, and two of them with Muon and with Lion, from the formulas of the
papers: Muon takes the matrices of the layers, with q, k and v apart and gate and up apart.
"""

import argparse
import pathlib

import torch

import golden_file
from golden_check import check
from golden_formulas import summary
from golden_training import train
from golden_variants import BATCH, OPTIMIZER, STEPS, VARIANTS


def make(name, folder):
    m, masked, o = (*VARIANTS[name], OPTIMIZER)[:3]
    runs = {}
    runs["fp64"], first, final = train(m, masked, o, "fp64")
    runs["fp32"], first32, _ = train(m, masked, o, "fp32")
    runs["bf16"], _, _ = train(m, masked, o, "bf16")
    golden = dict(
        about=f"20 {o['name'].capitalize() if o is not OPTIMIZER else 'AdamW'} steps of a tiny model; see make_golden.py. Gradient norms are before "
              "clipping. first_gradient is that of step 0 before clipping, final_weights are those "
              "after the last step, both of the fp64 run. A key bias has no influence on the loss "
              "and Adam turns the noise of its gradient into whole steps: compare no final "
              "attention.qkv.bias.",
        made_with=f"PyTorch {torch.__version__.split('+')[0]}",
        model=m, optimizer=o, masked=masked, batch=BATCH, steps=STEPS, runs=runs,
        first_gradient={k: summary(v) for k, v in first.items()},
        final_weights={k: summary(v) for k, v in final.items() if not k.endswith("qkv.bias")})
    golden_file.write(folder / f"{name}.safetensors", golden)
    gap = max(abs(a / b - 1) for a, b in zip(runs["fp32"]["losses"], runs["fp64"]["losses"]))
    grad = max(float((first32[k].double() - first[k]).norm() / first[k].norm()) for k in first)
    print(f"{name}: loss {runs['fp64']['losses'][0]:.4f} -> {runs['fp64']['losses'][-1]:.4f}; fp32 "
          f"differs by {gap:.1e} in a loss, {grad:.1e} in the norm of a first gradient")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with transformers first")
    parser.add_argument("--only", nargs="*", choices=VARIANTS, help="these alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.check:
        check()
    for name in arguments.only or VARIANTS:
        make(name, pathlib.Path(__file__).parent)


if __name__ == "__main__":
    main()
