"""The training loop of an Accelerate script, written for Trireme: prepare, step, gather, log, save, resume.

    python accelerate_loop.py run.toml [section.key=value ...]         on several processes: mpirun -n 4 python ...

| Accelerate                                             | here                                               |
| Accelerator()                                          | Trainer(...).job                                   |
| prepare(model, optimizer, loader, scheduler)           | Trainer(config): the configuration defines them    |
| accumulate(), backward(), step(), clip_grad_norm_()    | trainer.step()                                     |
| gather_for_metrics(x)                                  | trainer.job.gather(x), sum(x), max(x)              |
| log(), init_trackers()                                 | trainer.log(name=value)                            |
| save_state(), load_state()                             | trainer.save(); a trainer resumes automatically    |
| is_main_process                                        | trainer.job.leads                                  |
"""

import math
import sys
import time

import trireme


def main() -> None:
    with trireme.Trainer(sys.argv[1], sys.argv[2:], note_signals=True) as trainer:
        every = trainer.config["train.eval_interval"] or 100
        best = math.inf
        while not trainer.done:
            begin = time.perf_counter()
            step = trainer.step()
            slowest = trainer.job.max(time.perf_counter() - begin)
            stop = not trainer.done and trainer.should_stop()  # a signal, or train.exit_interval
            if step.step % every == 0 or trainer.done:
                loss = trainer.evaluate()
                trainer.log(perplexity=math.exp(loss), slowest_process_s=slowest)
                if loss < best:
                    best = loss
                    trainer.save()  # in your own loop, nothing else saves
            if stop:
                trainer.save()
                break
        if trainer.job.leads:
            print(f"{trainer.step_number} steps, best loss {best:.4f}")


if __name__ == "__main__":
    main()
