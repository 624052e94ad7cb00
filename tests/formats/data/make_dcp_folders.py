"""Writes dcp/<name>/: the Llama of hf/ (make_hf_models.py) as torch.distributed.checkpoint saves it
(needs torch, transformers and safetensors). Weights are those of the folder in hf/; optimizer
states are numbers that make parameters and moments distinguishable."""
import shutil
from pathlib import Path

import torch
import transformers

from dcp_folders import huggingface_state, save, titan_state

HERE = Path(__file__).parent


def main():
    out = HERE / "dcp"
    shutil.rmtree(out, ignore_errors=True)
    model = transformers.LlamaForCausalLM.from_pretrained(HERE / "hf/llama")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for i, parameter in enumerate(model.parameters()):
        count = torch.arange(parameter.numel(), dtype=torch.float32).view(parameter.shape)
        optimizer.state[parameter]["exp_avg"].copy_(i + count / 65536)
        optimizer.state[parameter]["exp_avg_sq"].copy_(100 + i + count / 65536)
        optimizer.state[parameter]["step"].fill_(3)
    # The step above applied weight decay.
    model = load_weights(model)
    save(huggingface_state(model, optimizer, 5), out / "huggingface", (2,), ("rows",))
    save(titan_state(model, None, 0, 0), out / "titan", (2, 2), ("rows", "columns"))


def load_weights(model):
    fresh = transformers.LlamaForCausalLM.from_pretrained(HERE / "hf/llama").state_dict()
    model.load_state_dict(fresh)
    return model


if __name__ == "__main__":
    main()
