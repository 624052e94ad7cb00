"""Tests that tiny models trained for 20 steps in fp64 by us and by PyTorch agree in every weight."""
import json
import struct

import pytest
import torch
import torch.nn.functional as F
import transformers

from random_models import make_model

STEPS, BATCH, MICRO_BATCH = 20, 4, 2

OPTIMIZERS = {
    "adamw": lambda groups, o: torch.optim.AdamW(
        groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], foreach=False),
    "adam": lambda groups, o: torch.optim.Adam(
        groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], foreach=False),
    "sgd": lambda groups, o: torch.optim.SGD(
        groups, lr=o["lr"], momentum=o["momentum"], foreach=False),
}


def write_indexed_tokens(prefix, tokens):
    """Writes one document in Megatron's .bin and .idx format, with 32-bit IDs."""
    prefix.with_suffix(".bin").write_bytes(struct.pack(f"<{len(tokens)}i", *tokens))
    prefix.with_suffix(".idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 1, 2) + struct.pack("<i", len(tokens))
        + struct.pack("<q", 0) + struct.pack("<qq", 0, 1))


def optimizer_settings(kind, rng):
    """Learning rates are small: large ones amplify rounding differences from step to step."""
    shared = dict(name=kind, lr=rng.choice([3e-4, 1e-3]), weight_decay=rng.choice([0.0, 0.1]),
                  clip_grad=rng.choice([0.0, 0.5]), decay_style="constant")
    if kind == "sgd":
        return dict(shared, momentum=rng.choice([0.0, 0.9]))
    return dict(shared, beta1=0.9, beta2=rng.choice([0.95, 0.999, 0.99999999]),
                eps=rng.choice([1e-8, 1e-6]))


def run_file(folder, model_toml, tokens, optimizer):
    """Writes the run's configuration: the imported model, our data, and the optimizer."""
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in optimizer.items())
    write_indexed_tokens(folder / "tokens", tokens)
    path = folder / "run.toml"
    path.write_text(
        f"[run]\nprecision = \"fp64\"\n{model_toml}\n[data]\npath = [\"{folder / 'tokens'}\"]\n"
        f"split = \"1,0,0\"\n[train]\niters = {STEPS}\nmicro_batch_size = {MICRO_BATCH}\n"
        f"global_batch_size = {BATCH}\neval_interval = 0\n[optimizer]\n{settings}")
    return path


def model_section(folder):
    """Returns [model] and [moe] of the configuration in an imported checkpoint."""
    manifest = json.loads(next(folder.rglob("manifest.json")).read_text())
    sections = manifest["state"]["config_toml"].split("\n[")
    return "\n".join("[" + s for s in sections if s.startswith(("model]", "moe]")))


def norm_in_double(norm):
    def forward(x):
        return norm.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)
                                              + norm.variance_epsilon))
    return forward


def llama_in_double(model):
    """transformers computes rotary angles and RMSNorm in 32 bits, whatever the type of the model.
    Returns False if this script does not implement a form of the angles."""
    config = model.config
    parameters = config.rope_parameters
    if parameters["rope_type"] not in ("default", "linear", "longrope"):
        return False
    head_dim = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    turned = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
    pairs = torch.arange(0, turned, 2, dtype=torch.float64)
    frequencies = parameters["rope_theta"] ** (-pairs / turned)
    scaling = model.model.rotary_emb.attention_scaling

    def forward(x, position_ids):
        divisors = parameters.get("factor", 1.0)
        if parameters["rope_type"] == "longrope":
            long = position_ids.max() >= parameters["original_max_position_embeddings"]
            divisors = torch.tensor(parameters["long_factor" if long else "short_factor"],
                                    dtype=torch.float64)
        angles = position_ids[..., None].double() * frequencies / divisors
        if config.model_type != "gpt_oss":
            angles = torch.cat([angles, angles], -1)
        return angles.cos() * scaling, angles.sin() * scaling

    model.model.rotary_emb.forward = forward
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm_in_double(module)
    return True


def double_model(kind, rng):
    """Returns a model that PyTorch trains in 64 bits throughout."""
    while True:
        model = make_model(kind, rng)
        if kind == "gpt_oss":
            model.set_experts_implementation("eager")  # other implementations lack fp64
        if kind == "gpt2" or llama_in_double(model):
            # PyTorch leaves out the gradient of a padding token; here it is like any other.
            model.get_input_embeddings().padding_idx = None
            return model


def train_in_pytorch(model, samples, settings):
    # Biases of experts are vectors that are stored together.
    def is_vector(name, parameter):
        return parameter.dim() == 1 or name.endswith("_bias")
    matrices = [p for n, p in model.named_parameters() if not is_vector(n, p)]
    vectors = [p for n, p in model.named_parameters() if is_vector(n, p)]
    optimizer = OPTIMIZERS[settings["name"]](
        [dict(params=matrices, weight_decay=settings["weight_decay"]),
         dict(params=vectors, weight_decay=0.0)], settings)
    losses = []
    for step in range(STEPS):
        batch = torch.tensor(samples[step * BATCH:(step + 1) * BATCH])
        logits = model(input_ids=batch[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))
        if settings["clip_grad"] > 0:
            for p in model.parameters():
                p.grad *= min(1.0, settings["clip_grad"] / (norm.item() + 1e-6))
        optimizer.step()
        losses.append(loss.item())
    return losses


def without_key_bias(name, weight):
    """A key bias does not affect the probabilities: its gradient is noise, which Adam turns into full steps."""
    if name.endswith("c_attn.bias"):
        third = weight.shape[0] // 3
        return torch.cat([weight[:third], weight[2 * third:]])
    return weight[:0] if name.endswith("k_proj.bias") else weight


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gpt_oss", "phi3_longrope"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_fp64_training_follows_pytorch(trireme, tmp_path, rng, tries, kind, optimizer):
    for number in range(tries(2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = double_model(kind, rng)
        model.save_pretrained(folder / "hf")
        trireme("convert", "--from", "hf", folder / "hf", folder / "start")
        settings = optimizer_settings(optimizer, rng)
        if kind == "gpt_oss":
            settings["lr"] /= 10  # routers amplify rounding differences
        tokens = [rng.randrange(model.config.vocab_size) for _ in range(4000)]
        file = run_file(folder, model_section(folder / "start"), tokens, settings)
        samples = [s["tokens"] for s in trireme.lines(
            "data", "samples", file, "--tokens", "--json", "--first", STEPS * BATCH)]
        trireme("train", file, f"run.dir={folder / 'run'}", f"checkpoint.load={folder / 'start'}",
                "checkpoint.finetune=true", "model.hidden_dropout=0", "model.attention_dropout=0",
                *(["moe.aux_loss_coeff=0"] if kind == "gpt_oss" else []))
        expected_losses = train_in_pytorch(model.double(), samples, settings)
        metrics = [json.loads(line) for line in
                   (folder / "run/metrics.jsonl").read_text().splitlines()]
        tolerance = 1e-9 if kind == "gpt_oss" else 1e-12
        assert [m["loss"] for m in metrics] == pytest.approx(expected_losses, rel=tolerance)

        trireme("convert", "--to", "hf", folder / "run", folder / "trained")
        trained = type(model).from_pretrained(folder / "trained", dtype=torch.float64)
        ours, theirs = trained.state_dict(), model.state_dict()
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name].dtype == torch.float64
            a, b = (without_key_bias(name, w[name]) if optimizer != "sgd" else w[name]
                    for w in (ours, theirs))
            if a.numel():
                difference = ((a - b).abs().max() / b.abs().max()).item()
                assert difference <= tolerance, f"{name}: {difference:.1e} with {settings}"
