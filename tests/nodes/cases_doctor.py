"""Cases of `trireme doctor --nodes` on three hosts with a disturbed network: it must name the bad one, and list the others."""
import time

from lab import case, expect
from machines import DATA

BAD = "bad node"


def start(lab, flags, ranks=3):
    """Starts one rank per host, over Open MPI; `--hosts` writes the best ones to the file 'good'."""
    hosts = lab.host_file(*range(1, ranks + 1))
    return lab.start(f"mpirun.openmpi --hostfile {hosts} --map-by ppr:1:node -n {ranks} {lab.program('openmpi')} doctor "
                     f"--nodes --timeout 10 --slow 0.2 --hosts good {flags}")


def names(lab, disturb, said, good, after=0):
    """Expects the message and the good hosts. `after`: seconds from the start to the disturbance."""
    begin = time.time()
    if after == 0:
        disturb()
    job = start(lab, f"--seconds {max(0.1, 2 * after)}")
    if after > 0:
        time.sleep(after)
        disturb()
    code = job.wait(90)
    took = time.time() - begin
    expect(code == 1, f"exit code {code} instead of 1")
    line = lab.line_with(job.text(), f"{BAD} {said}")
    with open("good", encoding="ascii") as file:
        found = file.read().split()
    expect(found == good, f"--hosts lists {found}, not {good}")
    expect(took < 60, f"it took {took:.0f} s")
    return "ended with exit code 1", line


def cut_link(a, b):
    """Sends all packets between a and b, in both directions, to an address that nobody has."""
    for host, other in ((a, b), (b, a)):
        host.changed = True
        host.do(f"ip neigh replace {DATA}.{other.number} dev data lladdr 02:00:00:00:00:99 nud permanent")


@case("doctor: nothing is disturbed", "openmpi")
def undisturbed(lab):
    for _ in range(5):
        job = start(lab, "--seconds 0.1")
        expect(job.wait(60) == 0, f"exit code {job.process.returncode}")
    return "5 checks: all hosts are good", job.text().strip().splitlines()[-1]


@case("doctor: a link is slow", "openmpi", "tc")
def slow_link(lab):
    return names(lab, lambda: lab.hosts[1].narrow("50mbit"), "node2: rank 1: link to its neighbors slow", ["node1", "node3"])


@case("doctor: a link is dead from the start", "openmpi")
def dead_link(lab):
    return names(lab, lambda: cut_link(lab.hosts[1], lab.hosts[2]),
                 "node3: rank 2: no messages are exchanged with rank 1 (node2)", ["node1", "node2"])


@case("doctor: a link of rank 0 is dead from the start", "openmpi")
def dead_link_of_first(lab):
    return names(lab, lambda: cut_link(lab.hosts[0], lab.hosts[1]),
                 "node2: rank 1: no messages are exchanged with rank 0 (node1)", ["node1", "node3"])


@case("doctor: a host is cut off from the start", "openmpi")
def cut_off(lab):
    return names(lab, lambda: lab.hosts[2].cut("data"), "node3: rank 2: the other ranks do not reach it", ["node1", "node2"])


@case("doctor: the host of rank 0 is cut off from the start", "openmpi")
def first_cut_off(lab):
    return names(lab, lambda: lab.hosts[0].cut("data"), "node1: rank 0: the other ranks do not reach it", ["node2", "node3"])


@case("doctor: a host is cut off during the check", "openmpi")
def cut_off_later(lab):
    return names(lab, lambda: lab.hosts[2].cut("data"), "node3: rank 2: the other ranks do not reach it", ["node1", "node2"],
                 after=4)
