"""Training as in torchtitan, written for Trireme: one configuration file, overrides on the command line, one call.

    python torchtitan_loop.py run.toml --training.steps 1000 --checkpoint.interval 100

The flags of torchtitan in KEYS are translated to Trireme's keys. Any other key can be given as section.key=value.
"""

import sys

import trireme

KEYS = {
    "--training.steps": "train.iters",
    "--training.local_batch_size": "train.micro_batch_size",
    "--training.global_batch_size": "train.global_batch_size",
    "--training.seq_len": "model.seq_length",
    "--training.max_norm": "optimizer.clip_grad",
    "--optimizer.lr": "optimizer.lr",
    "--checkpoint.interval": "checkpoint.interval",
    "--job.dump_folder": "run.dir",
    "--parallelism.tensor_parallel_degree": "parallel.tp",
    "--parallelism.pipeline_parallel_degree": "parallel.pp",
    "--parallelism.context_parallel_degree": "parallel.cp",
}


def overrides(words):
    """Translates torchtitan's flags to `section.key=value`."""
    result, words = [], list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            result.append(word)
            continue
        if word not in KEYS or not words:
            sys.exit(f"torchtitan_loop: {word} is unknown or lacks its value; known: {', '.join(KEYS)}")
        result.append(f"{KEYS[word]}={words.pop(0)}")
    return result


def main() -> None:
    with trireme.Trainer(sys.argv[1], overrides(sys.argv[2:])) as trainer:
        plan = trainer.planned_bytes / 2**30
        if trainer.job.leads:
            print(f"{plan:.2f} GiB on each of {trainer.job.size} processes, {trainer.steps} steps")
        summary = trainer.run()  # steps, evaluations and checkpoints at their intervals
        if trainer.job.leads:
            print(f"{summary.end}: loss {summary.loss:.4f}, {summary.tokens_per_second:.0f} tokens/s")


if __name__ == "__main__":
    main()
