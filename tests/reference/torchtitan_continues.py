"""Training that torchtitan continues from FOLDER/checkpoint/step-FIRST, with its own model, optimizers and checkpoint manager, on
the CPU, for STEPS steps, saves, and continues for STEPS more (needs torch and torchtitan):

    torchtitan_continues.py FOLDER CASE(json)

A case has what those of make_torchtitan_folder.py have, the numbers first and steps, and may have apart: norms that do not decay.
FOLDER/samples.json has the batches of all steps; FOLDER/losses.json will have the losses. Attention is torchtitan's
ScaledDotProductAttention, since the one of its language models has no backward pass on the CPU."""
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.multiprocessing
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats/data"))
import make_torchtitan_folder as folders  # noqa: E402


def use_plain_attention(config):
    from torchtitan.models.common.attention import ScaledDotProductAttention
    for layer in config.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()


def groups_of(case):
    if not case.get("apart"):
        return {".*": folders.SETTINGS}
    return {"norm": dict(folders.SETTINGS, weight_decay=0.0), ".*": folders.SETTINGS}


def run_steps(model, optimizers, batches, rank, ranks):
    """Each rank has its part of the samples, and FSDP averages the gradients."""
    losses = []
    for batch in batches:
        batch = torch.tensor(batch[rank * len(batch) // ranks:(rank + 1) * len(batch) // ranks])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizers.zero_grad()
        loss.backward()
        optimizers.step()
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        losses.append(total.item() / ranks)
    return losses


def worker(rank, folder, case, store):
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=case["ranks"])
    model, _ = folders.make_model(case, use_plain_attention)
    optimizers = folders.make_optimizers(model, groups_of(case))
    progress = folders.TrainState()
    progress.state = dict(step=0, ntokens_seen=0)
    manager = folders.make_manager(folder, model, optimizers, progress)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    first, steps = case["first"], case["steps"]
    manager.load(first)
    batches = json.loads((folder / "samples.json").read_text())
    tokens = sum(len(sample) - 1 for batch in batches[:first] for sample in batch)
    assert progress.state == dict(step=first, ntokens_seen=tokens), progress.state
    losses = run_steps(model, optimizers, batches[first:first + steps], rank, case["ranks"])
    progress.state = dict(step=first + steps, ntokens_seen=tokens // first * (first + steps))
    manager.save(first + steps)
    losses += run_steps(model, optimizers, batches[first + steps:], rank, case["ranks"])
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder, case = Path(sys.argv[1]), json.loads(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(worker, (folder, case, scratch + "/store"), case["ranks"])
