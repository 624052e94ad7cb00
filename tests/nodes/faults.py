"""Random faults: their kind, host and time follow from a seed."""
import dataclasses
import random
import re
import signal
import threading
import time

from cases_mpi import supervised
from lab import Case, expect
from machines import Napping

STEPS, LAST_STEP = 40, 35  # steps of a run; last step at which a fault can come
LIMIT = 400  # seconds for a run, restart included


@dataclasses.dataclass
class Fault:
    mpi: str
    kind: str
    host: int  # 0 or 1; the third host is a spare
    step: int
    seconds: float  # duration of temporary faults

    def __str__(self):
        return f"{self.mpi}: {self.kind}, node{self.host + 1}, after step {self.step}, for {self.seconds:.1f} s where it passes"


def draw(lab, seed, number):
    rng = random.Random(f"{seed} {number}")
    kinds = ["kill", "stop", "power", "cut", "cut for a while", "slow"] + ([] if "iptables" in lab.lacking else ["loss"])
    mpis = [mpi for mpi in ("openmpi", "mpich") if mpi not in lab.lacking]
    return Fault(rng.choice(mpis), rng.choice(kinds), rng.randrange(2), rng.randint(1, LAST_STEP), rng.uniform(0.2, 8))


def strike(lab, fault):
    host = lab.hosts[fault.host]
    if fault.kind == "kill":
        host.signal(signal.SIGKILL)
    elif fault.kind == "stop":
        host.signal(signal.SIGSTOP)
    elif fault.kind == "power":
        host.power_off()
    elif fault.kind == "loss":
        host.lose(0.02 + fault.seconds / 50)
    elif fault.kind == "slow":
        with Napping(host):
            time.sleep(fault.seconds)
    else:
        host.cut("data")
        if fault.kind == "cut for a while":
            time.sleep(fault.seconds)
            host.join("data")


def expect_nothing_lost(text):
    """Checks that every start continues from the step reported as saved, or from a later one."""
    saved = 0
    for what, step in re.findall(r"(saved|resumed from) \S*step-(\d+)", text):
        if what == "saved":
            saved = max(saved, int(step))
        else:
            expect(int(step) >= saved, f"step {saved} was saved, and the run continued from {step}")


class Pauses(threading.Thread):
    """Returns the longest time in which a run made no step."""

    def __init__(self, lab, run, job):
        super().__init__(daemon=True)
        self.lab, self.run_folder, self.job, self.longest = lab, run, job, 0.0

    def run(self):
        lines, since = 0, time.time()
        while self.job.process.poll() is None:
            now = self.lab.metrics(self.run_folder).count(b"\n")
            self.longest = max(self.longest, time.time() - since)
            if now != lines:
                lines, since = now, time.time()
            time.sleep(0.1)


def random_case(seed, number):
    def function(lab):
        fault = draw(lab, seed, number)
        case.name = f"{number}: {fault}"
        run = lab.folder()
        settings = f"train.iters={STEPS}"
        job = supervised(lab, fault.mpi, run, flags="--launcher-wait 15", settings=settings)
        pauses = Pauses(lab, run, job)
        pauses.start()
        lab.wait_for_step(run, fault.step, LIMIT)
        strike(lab, fault)
        code = job.wait(LIMIT)
        expect(code == 0, f"exit code {code}")
        lab.expect_same_bits(run, settings)
        expect_nothing_lost(job.text())
        starts = job.text().count("trireme: the run failed (")
        return f"continued, {starts} new start{'s' if starts != 1 else ''}", f"longest pause {pauses.longest:.0f} s"

    case = Case(f"random fault {number} of seed {seed}", (), function)
    return case
