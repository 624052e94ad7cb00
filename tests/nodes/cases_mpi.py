"""Cases of runs that mpirun and mpiexec start over several hosts, and of faults in them."""
import signal
import time

from lab import case, expect
from machines import Napping

LAUNCH = {"openmpi": "mpirun.openmpi --hostfile {hosts} --map-by ppr:RANKS:node -n ALL",
          "mpich": "mpiexec.hydra -f {hosts} -ppn RANKS -n ALL"}


def launch(lab, mpi, nodes, ranks=1, hosts="{hosts}"):
    words = LAUNCH[mpi].replace("RANKS", str(ranks)).replace("ALL", str(nodes * ranks)).replace("{hosts}", hosts)
    return f"{words} {lab.program(mpi)}"


def trained(lab, mpi, run, hosts=(1, 2, 3), settings=""):
    """Starts a run with one rank on each of these hosts."""
    return lab.start(f"{launch(lab, mpi, len(hosts), hosts=lab.host_file(*hosts))} train run.toml run.dir={run} {settings}")


def supervised(lab, mpi, run, hosts=(1, 2, 3), nodes=2, flags="", settings=""):
    """Starts a supervised run on the first of these hosts, which restarts with the others."""
    return lab.start(f"{lab.program(mpi)} supervise --run {run} --hosts {lab.host_file(*hosts)} --nodes {nodes} "
                     f"--restart-wait 1 {flags} -- {launch(lab, mpi, nodes)} train run.toml run.dir={run} {settings}")


def continues_without(lab, mpi, lost, fault=None, before=None, hosts=(1, 2, 3), nodes=2, restarts=1, flags="--launcher-wait 15"):
    """The fault comes in mid-run, or before the start; the run must continue on the other hosts, with identical bits."""
    run = lab.folder()
    if before:
        before()
    job = supervised(lab, mpi, run, hosts, nodes, flags)
    if fault:
        lab.wait_for_step(run, 15)
        fault()
    code = job.wait(400)
    expect(code == 0, f"exit code {code}")
    said = lab.last_restart(job.text(), lost, restarts)
    lab.expect_same_bits(run)
    return "continued on the spare host", said


def same_bits(lab, mpi, layouts):
    for layout in layouts:
        run = lab.folder()
        job = trained(lab, mpi, run, (1, 2, 3, 4), f"train.iters=20 {layout}")
        expect(job.wait(120) == 0, f"exit code {job.process.returncode}")
        lab.expect_same_bits(run, "train.iters=20")
    return "done", f"metrics.jsonl of {len(layouts)} layouts on 4 hosts: the bytes of one process"


@case("openmpi: the same bits", "openmpi")
def openmpi_same_bits(lab):
    return same_bits(lab, "openmpi", ["", "parallel.pp=4", "parallel.pp=2 checkpoint.async=true", "parallel.zero=1",
                                      "parallel.zero=3", "parallel.zero=2 train.guard_interval=5"])


@case("mpich: the same bits", "mpich")
def mpich_same_bits(lab):
    return same_bits(lab, "mpich", ["", "parallel.pp=4", "parallel.zero=3"])


@case("openmpi: a host loses its power", "openmpi")
def openmpi_power(lab):
    return continues_without(lab, "openmpi", "node2", lab.hosts[1].power_off)


@case("openmpi: the host of rank 0 loses its power", "openmpi")
def openmpi_power_of_first(lab):
    return continues_without(lab, "openmpi", "node1", lab.hosts[0].power_off)


@case("openmpi: a host is cut off from messages", "openmpi")
def openmpi_data(lab):
    return continues_without(lab, "openmpi", "node2", lambda: lab.hosts[1].cut("data"))


@case("openmpi: of three hosts that of rank 0 is cut off from messages", "openmpi")
def openmpi_data_of_first(lab):
    return continues_without(lab, "openmpi", "node1", lambda: lab.hosts[0].cut("data"), hosts=(1, 2, 3, 4), nodes=3)


@case("openmpi: a rank is killed", "openmpi")
def openmpi_killed(lab):
    return continues_without(lab, "openmpi", "node2", lambda: lab.hosts[1].signal(signal.SIGKILL))


@case("openmpi: a rank is stopped", "openmpi")
def openmpi_stopped(lab):
    return continues_without(lab, "openmpi", "node2", lambda: lab.hosts[1].signal(signal.SIGSTOP))


@case("openmpi: mpirun loses a host when the run is nearly done", "openmpi")
def openmpi_control(lab):
    """The launcher hangs; the run is over, and its own status counts."""
    run = lab.folder()
    job = supervised(lab, "openmpi", run, flags="--launcher-wait 10")
    lab.wait_for_step(run, 70)
    lab.hosts[1].cut("control")
    code = job.wait(200)
    expect(code == 0, f"exit code {code}")
    lab.expect_same_bits(run)
    return "done", next((line for line in job.text().splitlines() if line.startswith("trireme: ")), "nothing")


@case("openmpi: mpirun does not reach a host at the start", "openmpi")
def openmpi_unreached(lab):
    return continues_without(lab, "openmpi", "node2", before=lab.hosts[1].cut)


@case("openmpi: messages do not reach a host at the start", "openmpi")
def openmpi_unreached_by_messages(lab):
    return continues_without(lab, "openmpi", "node2", before=lambda: lab.hosts[1].cut("data"))


def continues(lab, run, job, begin, settings=""):
    code = job.wait(200)
    expect(code == 0, f"exit code {code}")
    lab.expect_same_bits(run, settings)
    expect("restart" not in job.text(), "it was started again")
    return f"continued, done after {time.time() - begin:.0f} s"


@case("openmpi: messages do not reach the host of rank 0 at the start", "openmpi")
def openmpi_first_unreached_by_messages(lab):
    """With two hosts, nobody can tell which one is cut off: the other is left out first."""
    return continues_without(lab, "openmpi", "node1", before=lambda: lab.hosts[0].cut("data"), restarts=2)


@case("openmpi: a link is down for 5 s", "openmpi")
def openmpi_down_briefly(lab):
    run, begin = lab.folder(), time.time()
    job = trained(lab, "openmpi", run)
    lab.wait_for_step(run, 15)
    lab.hosts[1].cut("data")
    time.sleep(5)
    lab.hosts[1].join("data")
    return continues(lab, run, job, begin), "nothing"


@case("openmpi: a link is down for longer than train.timeout_s", "openmpi")
def openmpi_down(lab):
    """Without a supervisor, the message names the host."""
    run = lab.folder()
    job = trained(lab, "openmpi", run)
    lab.wait_for_step(run, 15)
    lab.hosts[1].cut("data")
    code = job.wait(60)
    lab.hosts[1].join("data")
    expect(code == 1, f"exit code {code}")
    said = lab.line_with(job.text(), "suspect nodes: node2")
    return "ended with exit code 1", said


@case("openmpi: 5% of the packets of a host are lost", "openmpi", "iptables")
def openmpi_loss(lab):
    run, begin = lab.folder(), time.time()
    lab.hosts[1].lose(0.05)
    return continues(lab, run, trained(lab, "openmpi", run, settings="train.iters=60"), begin, "train.iters=60"), "nothing"


@case("openmpi: a link of 10 Mbit/s", "openmpi", "tc")
def openmpi_narrow(lab):
    run, begin = lab.folder(), time.time()
    lab.hosts[1].narrow("10mbit")
    return continues(lab, run, trained(lab, "openmpi", run), begin), "nothing"


@case("openmpi: a host is slow", "openmpi")
def openmpi_slow(lab):
    run, begin = lab.folder(), time.time()
    job = lab.start(f"env TRIREME_SLOW_RANK_SECONDS=0.5 {launch(lab, 'openmpi', 3, hosts=lab.host_file(1, 2, 3))} train run.toml "
                    f"run.dir={run}")
    lab.wait_for_step(run, 5)
    with Napping(lab.hosts[1]):
        ended = continues(lab, run, job, begin)
    return ended, lab.line_with(job.text(), "warning: rank 1 (node2) is slow")


@case("openmpi: SIGUSR1 to mpirun", "openmpi")
def openmpi_signal(lab):
    run = lab.folder()
    job = trained(lab, "openmpi", run)
    lab.wait_for_step(run, 15)
    job.signal(signal.SIGUSR1)
    code = job.wait(60)
    expect(code == 3, f"exit code {code} instead of 3")
    said = lab.line_with(job.text(), "interrupted")
    again = trained(lab, "openmpi", run)
    expect(again.wait(100) == 0, f"exit code {again.process.returncode} of the same command again")
    lab.expect_same_bits(run)
    return "saved, exit code 3; the same command continued", said


@case("mpich: a rank is killed", "mpich")
def mpich_killed(lab):
    return continues_without(lab, "mpich", "node2", lambda: lab.hosts[1].signal(signal.SIGKILL))


@case("mpich: a host loses its power", "mpich")
def mpich_power(lab):
    return continues_without(lab, "mpich", "node2", lab.hosts[1].power_off)


@case("mpich: a host is cut off from messages", "mpich")
def mpich_data(lab):
    return continues_without(lab, "mpich", "node2", lambda: lab.hosts[1].cut("data"))


@case("mpich: mpiexec does not reach a host at the start", "mpich")
def mpich_unreached(lab):
    return continues_without(lab, "mpich", "node2", before=lab.hosts[1].cut)