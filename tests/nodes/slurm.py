"""Runs SLURM's own daemons: slurmctld on the machine that starts jobs, munged and slurmd on every host."""
import os
import re
import subprocess
import time

from machines import CONTROL, SHARED, shell, wait_until

CONFIG = f"""ClusterName=nodes
SlurmctldHost=head({CONTROL}.254)
AuthType=auth/munge
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/tmp/slurmd
StateSaveLocation={SHARED}/slurm/state
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
SwitchType=switch/none
SlurmctldTimeout=30
SlurmdTimeout=20
KillWait=5
MessageTimeout=10
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldLogFile={SHARED}/slurm/slurmctld.log
SlurmdLogFile={SHARED}/slurm/%n.log
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
MUNGE = """mkdir -p /run/munge /tmp/munge && cp KEY /tmp/munge/key && chown -R munge:munge /run/munge /tmp/munge &&
chmod 755 /run/munge && chmod 700 /tmp/munge && chmod 400 /tmp/munge/key &&
runuser -u munge -- munged --key-file=/tmp/munge/key --pid-file=/run/munge/munged.pid --seed-file=/tmp/munge/seed \\
  --log-file=/tmp/munge/log --force"""


class Slurm:
    def __init__(self, lab):
        self.lab = lab
        folder = f"{SHARED}/slurm"
        os.makedirs(f"{folder}/state")
        with open(f"{folder}/slurm.conf", "w", encoding="ascii") as file:
            file.write(CONFIG)
            file.writelines(f"NodeName={h.name} NodeAddr={CONTROL}.{h.number} CPUs=4 State=UNKNOWN\n" for h in lab.hosts)
        with open(f"{folder}/munge.key", "wb") as file:
            file.write(os.urandom(1024))
        self.munge = MUNGE.replace("KEY", f"{folder}/munge.key")
        self.environment = {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        os.environ.update(self.environment)
        shell(self.munge, "slurmctld")
        self.repair()

    def repair(self):
        """Resets: no jobs, and a daemon on every host."""
        subprocess.run("scancel --user=root; scancel --user=root --signal=KILL", shell=True, check=False, capture_output=True)
        for host in self.lab.hosts:
            if not host.do("pgrep -x slurmd", check=False):
                host.changed = True  # its daemons must not outlive the case
                host.do(f"export SLURM_CONF={self.environment['SLURM_CONF']} PATH=$PATH:/usr/sbin:/sbin; "
                        f"{{ pgrep -x munged || {{ {self.munge}; }}; }} && mkdir -p /tmp/slurmd && slurmd -N {host.name}")
        wait_until("four idle nodes", self.are_idle, 60)

    def are_idle(self):
        states = self.do("sinfo -N -h -o %T").split()
        if any(state.startswith(("down", "drain")) for state in states):
            subprocess.run("scontrol update nodename=ALL state=resume", shell=True, check=False, capture_output=True)
        if states != ["idle"] * len(self.lab.hosts):
            time.sleep(0.5)
            return False
        return True

    def do(self, command):
        return subprocess.run(command, shell=True, check=False, capture_output=True, text=True, cwd=SHARED).stdout

    def stop(self):
        for host in self.lab.hosts:
            host.do("pkill -KILL 'slurmd|slurmstepd|munged'; true")

ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class BatchJob:
    """A script from `trireme slurm`, submitted with sbatch."""

    def __init__(self, lab, run, flags, settings="", mpi="pmix", sbatch=""):
        name = os.path.basename(run)
        program = lab.program("openmpi" if mpi == "pmix" else "mpich")
        lab.do(f"{program} slurm run.toml run.dir={run} {settings} --cluster generic --ranks-per-node 1 --cores-per-rank 1 "
               f"--program {program} --mpi {mpi} --name {name} {flags} -o {name}.sh")
        said = lab.do(f"sbatch {sbatch} {name}.sh")
        self.lab, self.number = lab, re.search(r"Submitted batch job (\d+)", said).group(1)
        self.output = f"{SHARED}/{name}-{self.number}.out"

    def text(self):
        try:
            with open(self.output, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def state(self):
        """Returns (state, number of requeues, exit code)."""
        said = self.lab.slurm.do(f"scontrol show job {self.number}")
        return (re.search(r"JobState=(\w+)", said).group(1), int(re.search(r"Restarts=(\d+)", said).group(1)),
                int(re.search(r"ExitCode=(\d+)", said).group(1)))

    def batch_host(self):
        return re.search(r"BatchHost=(\S+)", self.lab.slurm.do(f"scontrol show job {self.number}")).group(1)

    def wait(self, seconds):
        def is_over():
            time.sleep(0.3)
            state, requeued, _ = self.state()
            # SLURM would wait for two minutes. Any earlier, ending the old steps would also end the new ones.
            if state == "PENDING" and requeued:
                time.sleep(10)
                self.lab.slurm.do(f"scontrol update jobid={self.number} starttime=now")
            return state in ENDS
        wait_until(f"end of job {self.number}", is_over, seconds)
        return self.state()
