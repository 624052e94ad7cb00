"""Tests of exported Weights & Biases runs, read with wandb's own message classes.

wandb is not among the requirements: `pip install wandb` in the virtual environment adds it. Its version
0.31 has no reader in Python, so the pieces of the file are joined here.
"""
import importlib.util
import json
import struct
import zlib

import pytest

BLOCK, HEAD = 32768, 7


def records(data):
    """Returns the records of a .wandb file, after verifying every piece's checksum."""
    assert data[:7] == b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    at, record = 7, b""
    while at < len(data):
        if BLOCK - at % BLOCK < HEAD:
            at += BLOCK - at % BLOCK
            continue
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        assert crc == zlib.crc32(data[at + 6:at + HEAD + size])
        record += data[at + HEAD:at + HEAD + size]
        at += HEAD + size
        if kind in (1, 4):
            yield record
            record = b""


def random_metrics(rng, steps):
    """Returns lines as a run writes them: sometimes with a validation of the same step, or a non-finite loss."""
    for step in range(1, steps + 1):
        loss = None if rng.random() < 0.05 else rng.gauss(0, 1) * 10.0 ** rng.randint(-300, 300)
        yield {"step": step, "loss": loss, "lr": rng.random(), "consumed_samples": rng.randrange(2**53)}
        if rng.random() < 0.2:
            yield {"step": step, "valid_loss": rng.random()}


@pytest.mark.skipif(not importlib.util.find_spec("wandb"), reason="wandb is not installed")
def test_wandb_reads_every_row(trireme, tmp_path, rng):
    from wandb.proto import wandb_internal_pb2 as messages

    lines = list(random_metrics(rng, 3000))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    trireme("export-wandb", tmp_path / "run", "--out", tmp_path, "--project", "ships")
    (path,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    got, kinds, run = {}, [], None
    for data in records(path.read_bytes()):
        record = messages.Record.FromString(data)
        kinds.append(record.WhichOneof("record_type"))
        if kinds[-1] == "history":
            row = {item.key: json.loads(item.value_json) for item in record.history.item}
            assert row["_step"] == record.history.step.num
            got[row["_step"]] = {name: value for name, value in row.items() if not name.startswith("_")}
        elif kinds[-1] == "run":
            run = record.run
    want = {}
    for line in lines:
        row = want.setdefault(line["step"], {})
        row.update({name: value for name, value in line.items() if name != "step" and value is not None})
    assert got == want
    assert (run.project, run.display_name) == ("ships", "run")
    assert kinds == ["header", "run"] + ["history"] * len(want) + ["summary", "exit"]
