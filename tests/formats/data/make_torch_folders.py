"""Writes torch/<name>/: the models of hf/ (make_hf_models.py) in folders of torch.save files
(needs torch, transformers and safetensors). Each must convert to the same result as the folder in hf/."""
import shutil
from pathlib import Path

import transformers
from safetensors.torch import load_file

from foreign_layouts import CORE, LEGACY, OLDEST, save_megatron, save_meta_llama, save_sharded_bin

HERE = Path(__file__).parent


def model(name):
    folder = HERE / "hf" / name
    state = load_file(folder / "model.safetensors")
    return state, transformers.AutoConfig.from_pretrained(folder)


def main():
    out = HERE / "torch"
    shutil.rmtree(out, ignore_errors=True)
    state, config = model("llama")
    # Ranks split the vocabulary evenly.
    even = {name: tensor[:60] if tensor.shape[0] == 61 else tensor
            for name, tensor in state.items()}
    save_meta_llama(even, config, out / "llama_meta", 2, words_by_columns=True)
    save_sharded_bin(state, out / "llama_bin", 3)
    shutil.copy(HERE / "hf/llama/config.json", out / "llama_bin")
    save_megatron(state, config, out / "llama_core", tp=2, virtual=2, names=CORE)
    state, config = model("gpt2")
    save_megatron(state, config, out / "gpt2_legacy", tp=2, pp=2, names=LEGACY)
    save_megatron(state, config, out / "gpt2_version0", tp=2, version=0, names=OLDEST)
    save_megatron(state, config, out / "gpt2_version1", tp=1, pp=2, version=1.0, names=OLDEST)
    state, config = model("megatron_bert")
    save_megatron(state, config, out / "bert_legacy", tp=2, names=LEGACY)


if __name__ == "__main__":
    main()
