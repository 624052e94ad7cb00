"""The hosts, their programs, and building blocks of cases: jobs, their output, and comparisons with an undisturbed run."""
import dataclasses
import os
import shutil
import signal
import subprocess

from machines import CONTROL, DATA, SHARED, Host, make_network, shell, wait_until

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = []


class Failed(Exception):
    """A case ended differently than promised."""


class Skipped(Exception):
    """A requirement is missing on this machine."""


@dataclasses.dataclass
class Case:
    name: str
    needs: tuple
    function: object


def case(name, *needs):
    """Registers a function of the lab that returns how the run ended and its message."""
    def register(function):
        CASES.append(Case(name, needs, function))
        return function
    return register


def expect(condition, what):
    if not condition:
        raise Failed(what)


MISSING = {
    "openmpi": (("mpirun.openmpi", "mpicxx.openmpi"), "Open MPI (Debian: libopenmpi-dev)"),
    "mpich": (("mpiexec.hydra", "mpicxx.mpich"), "MPICH (Debian: libmpich-dev)"),
    "slurm": (("slurmctld", "slurmd", "munged", "sbatch"), "SLURM (Debian: slurm-wlm)"),
    "iptables": (("iptables",), "iptables"),
    "tc": (("tc",), "tc (Debian: iproute2)"),
}

CONFIG = f"""[model]
num_layers = 4
hidden_size = 32
num_heads = 4
seq_length = 64
vocab_size = 257
[data]
path = ["{SHARED}/text_text_document"]
split = "100,0,0"
tokenizer = "null"
[train]
iters = 100
global_batch_size = 12
micro_batch_size = 1
log_interval = 1
timeout_s = 10
[checkpoint]
interval = 10
[parallel]
numerics = "exact"
[optimizer]
lr = 1e-3
[run]
precision = "fp32"
"""

ENVIRONMENT = {
    "TRIREME_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": f"{SHARED}/agent", "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_oob_tcp_if_include": f"{CONTROL}.0/24", "OMPI_MCA_btl_tcp_if_include": f"{DATA}.0/24",
    "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,vader,self",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": f"{SHARED}/agent", "HYDRA_IFACE": "control",
    "UCX_NET_DEVICES": "data", "UCX_TLS": "tcp,self,sm",
}


class Job:
    """A command in the shared folder, with its output in a file."""

    def __init__(self, command, output):
        self.output = output
        with open(output, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(f"exec {command}", shell=True, cwd=SHARED, env={**os.environ, **ENVIRONMENT}, stdout=file,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

    def text(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, seconds):
        """Waits for the end and returns the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"not over after {seconds} s") from late

    def signal(self, number):
        """Sends a signal to the command, which has replaced its shell."""
        os.kill(self.process.pid, number)

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Lab:
    def __init__(self, program):
        self.jobs, self.followed, self.alone, self.slurm, self.runs = [], None, {}, None, 0
        shell("mount --make-rprivate /", "mount -t tmpfs run /run", "mkdir /run/shared", "mount -t tmpfs shared /run/shared")
        self.lacking = {need: what for need, (tools, what) in MISSING.items()
                        if not all(shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") for tool in tools)}
        for mpi in ("openmpi", "mpich"):
            if mpi not in self.lacking:
                self.copy_program(program, mpi)
        # Whatever these folders contained before, perhaps the repository, is not needed from now on.
        shell(f"mount --bind /run/shared {SHARED}", "mount -t tmpfs -o mode=1777 tmp /tmp",
              "mount -t tmpfs -o mode=1777 shm /dev/shm")
        os.chdir(SHARED)
        self.hosts = [Host(number) for number in (1, 2, 3, 4)]
        make_network(self.hosts)
        self.write_data()

    def copy_program(self, program, mpi):
        """Builds the MPI part for one MPI next to the program, as a cluster's users do."""
        folder = f"/run/shared/{mpi}"
        os.makedirs(f"{folder}/mpi")
        shutil.copy(os.path.join(REPOSITORY, program), f"{folder}/trireme")
        shutil.copy(f"{REPOSITORY}/packaging/build-mpi", folder)
        for name in ("trireme_mpi.cpp", "trireme_mpi.h"):
            shutil.copy(f"{REPOSITORY}/src/comm/mpi/{name}", f"{folder}/mpi")
        subprocess.run([f"{folder}/build-mpi", f"mpicxx.{mpi}"], check=True, stdout=subprocess.DEVNULL)

    def write_data(self):
        with open(f"{SHARED}/run.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG)
        with open(f"{SHARED}/text.txt", "w", encoding="utf-8") as file:
            file.writelines(" ".join(str((i * i + j * j * 7) % 256) for j in range(500)) + "\n" for i in range(200))
        self.do(f"{self.program()} preprocess --input text.txt --documents line --tokenizer-type null --vocab-size 256 "
                "--output-prefix text")

    def program(self, mpi=None):
        mpi = mpi or ("openmpi" if "openmpi" not in self.lacking else "mpich")
        return f"{SHARED}/{mpi}/trireme"

    def require(self, needs):
        for need in needs:
            if need in self.lacking:
                raise Skipped(f"{self.lacking[need]} was not found")

    def repair(self):
        """Resets all hosts, and removes everything of the previous case."""
        for job in self.jobs:
            job.end()
        self.jobs, self.followed = [], None
        for host in self.hosts:
            if host.changed or not host.process:
                host.start()
            host.join()
            host.do("pkill -KILL 'trireme|orted|hydra' ; true")
        if self.slurm:
            self.slurm.repair()

    def do(self, command, code=0, seconds=120):
        """Runs a command to its end and returns what it printed."""
        job = self.start(command)
        ended = job.wait(seconds)
        expect(ended == code, f"exit code {ended} instead of {code}: {command}")
        return job.text()

    def start(self, command):
        self.runs += 1
        job = Job(command, f"{SHARED}/output-{self.runs}")
        self.jobs.append(job)
        return job

    def follow(self, job):
        """Follows a job: its output is shown if the case fails."""
        self.followed = job

    def last_output(self):
        job = self.followed or (self.jobs[-1] if self.jobs else None)
        lines = [line for line in job.text().splitlines() if " | loss " not in line and " saved " not in line] if job else []
        return "\n".join(lines[-80:])

    def folder(self):
        """Returns a new folder for a run."""
        self.runs += 1
        return f"{SHARED}/run-{self.runs}"

    def host_file(self, *numbers):
        path = f"{SHARED}/hosts-{'-'.join(map(str, numbers))}"
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"node{n}\n" for n in numbers)
        return path

    def metrics(self, folder):
        try:
            with open(f"{folder}/metrics.jsonl", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def wait_for_step(self, folder, step, seconds=90):
        def is_there():
            expect(not self.jobs or self.jobs[-1].process.poll() is None or self.followed, f"it ended before step {step}")
            return self.metrics(folder).count(b"\n") >= step
        wait_until(f"step {step} of {folder}", is_there, seconds)

    def expect_same_bits(self, folder, settings=""):
        """Expects the metrics of all steps to equal those of an undisturbed single process."""
        if settings not in self.alone:
            self.alone[settings] = self.folder()
            self.do(f"{self.program()} train run.toml {settings} run.dir={self.alone[settings]}")
        mine, alone = self.metrics(folder), self.metrics(self.alone[settings])
        expect(alone.count(b"\n") > 0, "the undisturbed run has no metrics")
        expect(mine == alone, f"metrics.jsonl of {folder} differs from that of one process")

    def last_restart(self, text, lost, most=1):
        """Returns the supervisor's message of the last restart (one of at most `most`), which must leave out this host."""
        lines = [line for line in text.splitlines() if line.startswith("trireme: the run failed (")]
        expect(lines, "it was not started again")
        expect(lines[-1].endswith(f", without the node {lost}"), f"'{lost}' was not left out: {lines[-1]}")
        expect(len(lines) <= most, f"it took {len(lines)} restarts")
        return lines[-1].removeprefix("trireme: ")

    def line_with(self, text, words):
        """Returns the first line of a text with these words."""
        for line in text.splitlines():
            if words in line:
                return line.strip()
        raise Failed(f"'{words}' was not said")
