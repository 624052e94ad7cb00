"""Cases of SLURM jobs, with the scripts that `trireme slurm` writes."""
import signal

from lab import case, expect
from machines import Host, Napping, wait_until
from slurm import BatchJob, Slurm


def with_slurm(lab):
    if not lab.slurm:
        lab.slurm = Slurm(lab)
    return lab.slurm


def continues_without(lab, fault, mpi="pmix", restarts=1, seconds=300):
    """The fault hits a node in mid-run that has a rank but not the batch script; the job must continue on its spare node,
    and end with identical bits."""
    with_slurm(lab)
    run = lab.folder()
    job = BatchJob(lab, run, f"--nodes 2 --spare 1 --restarts 3 --time 20:00", mpi=mpi)
    lab.follow(job)
    lab.wait_for_step(run, 15)
    host = next(host for host in lab.hosts if host.name != job.batch_host() and host.ranks())
    fault(host)
    state, requeued, code = job.wait(seconds)
    expect((state, requeued, code) == ("COMPLETED", 0, 0), f"{state}, requeued {requeued} times, exit code {code}")
    said = lab.last_restart(job.text(), host.name, restarts)
    lab.expect_same_bits(run)
    return "continued on the spare node of the job", said


@case("slurm: the same bits", "openmpi", "slurm")
def same_bits(lab):
    with_slurm(lab)
    for settings in ("", "parallel.pp=2", "parallel.zero=3"):
        run = lab.folder()
        job = BatchJob(lab, run, "--nodes 4 --time 10:00", f"train.iters=20 {settings}")
        lab.follow(job)
        ended = job.wait(120)
        expect(ended == ("COMPLETED", 0, 0), str(ended))
        lab.expect_same_bits(run, "train.iters=20")
    return "done", "metrics.jsonl of 3 layouts on 4 nodes: the bytes of one process"


@case("slurm: the same bits with MPICH", "mpich", "slurm")
def same_bits_mpich(lab):
    with_slurm(lab)
    run = lab.folder()
    job = BatchJob(lab, run, "--nodes 4 --time 10:00", "train.iters=20", mpi="pmi2")
    lab.follow(job)
    ended = job.wait(200)
    expect(ended == ("COMPLETED", 0, 0), str(ended))
    lab.expect_same_bits(run, "train.iters=20")
    return "done", "metrics.jsonl on 4 nodes: the bytes of one process"


@case("slurm: a rank is killed", "openmpi", "slurm")
def killed(lab):
    return continues_without(lab, lambda host: host.signal(signal.SIGKILL))


@case("slurm: a node loses its power", "openmpi", "slurm")
def power(lab):
    return continues_without(lab, Host.power_off)


@case("slurm: a node is cut off from messages", "openmpi", "slurm")
def data(lab):
    """With two nodes, nobody can tell which one is cut off: the other may be left out first."""
    return continues_without(lab, lambda host: host.cut("data"), restarts=2, seconds=400)


@case("slurm: a node loses its power, with MPICH", "mpich", "slurm")
def power_mpich(lab):
    return continues_without(lab, Host.power_off, mpi="pmi2")


@case("slurm: the time of the job is over", "openmpi", "slurm")
def time_limit(lab):
    """SIGUSR1 comes before the end, the run saves and is requeued, until it is done."""
    with_slurm(lab)
    run = lab.folder()
    job = BatchJob(lab, run, "--nodes 2 --time 1:00 --save-seconds 35")
    lab.follow(job)
    lab.wait_for_step(run, 3)
    # Long enough that the signal, which comes after 25 to 60 seconds, finds the run in progress.
    with Napping(next(host for host in lab.hosts if host.ranks()), 0.95):
        wait_until("the job is queued again", lambda: job.state()[1] > 0, 120)
    state, requeued, code = job.wait(400)
    expect(state == "COMPLETED", f"{state}, requeued {requeued} times, exit code {code}")
    lab.expect_same_bits(run)
    return f"continued, queued again {requeued} time{'s' * (requeued > 1)}", lab.line_with(job.text(), "interrupted")


@case("slurm: doctor --nodes", "openmpi", "slurm")
def doctor(lab):
    with_slurm(lab)
    said = lab.do(f"srun --mpi=pmix --nodes=3 --ntasks-per-node=1 {lab.program('openmpi')} doctor --nodes --slow 0.05 "
                  "--seconds 0.2 --hosts good")
    with open("good", encoding="ascii") as file:
        good = file.read().split()
    expect(len(good) == 3, f"--hosts lists {good}")
    return "all are good", said.strip().splitlines()[-1]
