"""Hosts: namespaces with their own name, processes, /tmp, /run, /dev/shm and two networks, and one shared folder."""
import os
import signal
import subprocess
import threading
import time

SHARED = "/mnt"  # shared by all hosts; /tmp, /run and /dev/shm are private to each host
PIDS = "/run/hosts"  # on the machine that starts jobs, invisible to the hosts
CONTROL, DATA = "10.77.0", "10.78.0"  # networks of launchers and daemons, and of MPI messages
AGENT = f"""#!/bin/bash
# What launchers take for ssh: a shell on a host, where the control network reaches it.
while [[ $1 == -* ]]; do shift; done
host=$1; shift
answer=$(timeout 3 bash -c ": </dev/tcp/$host/22" 2>&1)
case $answer in
  *refused*) ;;
  *"No route"*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
  *) echo "ssh: connect to host $host port 22: Connection timed out" >&2; exit 255 ;;
esac
exec nsenter --target "$(<{PIDS}/$host)" --net --uts --mount --ipc --pid -- bash -c "cd {SHARED}; $*"
"""
# An init process that reaps orphans.
INIT = f"""
mount --make-rprivate / && mount -t tmpfs -o mode=1777 tmp /tmp && mount -t tmpfs run /run &&
mkdir /run/lock /run/cgroup && mount --rbind /sys/fs/cgroup /run/cgroup && mount -t sysfs sys /sys && mount --rbind /run/cgroup /sys/fs/cgroup &&
mount -t tmpfs -o mode=1777,size=1g shm /dev/shm && hostname $1 && echo up > {SHARED}/up-$1
while :; do sleep 3600 & wait $!; done
"""


def shell(*commands):
    for command in commands:
        subprocess.run(command, shell=True, check=True)


def wait_until(what, condition, seconds):
    end = time.time() + seconds
    while not condition():
        if time.time() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Host:
    def __init__(self, number):
        self.number = number
        self.name = f"node{number}"
        self.process = self.pid = None
        self.changed = True  # true: its state can only be undone by a restart

    def start(self):
        """Starts or restarts the host."""
        self.power_off()
        up = f"{SHARED}/up-{self.name}"
        if os.path.exists(up):
            os.unlink(up)
        self.process = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
             "bash", "-c", INIT, "init", self.name], stdin=subprocess.DEVNULL)
        wait_until(f"start of {self.name}", lambda: os.path.exists(up), 10)
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            self.pid = int(file.read().split()[0])
        with open(f"{PIDS}/{self.name}", "w", encoding="ascii") as file:
            file.write(str(self.pid))
        n = self.number
        for net, base in (("control", CONTROL), ("data", DATA)):
            # The address is the same at every start, since other hosts cache it.
            address = f"02:00:00:00:{'01' if net == 'control' else '02'}:{n:02x}"
            shell(f"ip link add name {net}{n} type veth peer name {net} address {address} netns {self.pid}",
                  f"ip link set {net}{n} master {net} up")
            self.do(f"ip addr add {base}.{n}/24 dev {net} && ip link set {net} up && ip link set lo up")
        self.changed = False

    def power_off(self):
        """Emulates a power failure: neither processes nor connections shut down cleanly."""
        if not self.process:
            return
        for net in ("control", "data"):
            subprocess.run(f"ip link set {net}{self.number} nomaster", shell=True, check=False, stderr=subprocess.DEVNULL)
        self.process.kill()
        self.process.wait()
        for net in ("control", "data"):
            subprocess.run(f"ip link del {net}{self.number}", shell=True, check=False, stderr=subprocess.DEVNULL)
        self.process, self.changed = None, True

    def inside(self, command):
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--ipc", "--pid", "--",
                "bash", "-c", command]

    def do(self, command, check=True):
        """Runs a command on the host and returns what it printed."""
        done = subprocess.run(self.inside(command), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {command}: {done.stdout}{done.stderr}")
        return done.stdout

    def cut(self, *nets):
        for net in nets or ("control", "data"):
            shell(f"ip link set {net}{self.number} nomaster")

    def join(self, *nets):
        for net in nets or ("control", "data"):
            shell(f"ip link set {net}{self.number} master {net}")

    def lose(self, share):
        """Drops this fraction of incoming packets on the data network."""
        self.changed = True
        self.do(f"iptables -A INPUT -i data -m statistic --mode random --probability {share} -j DROP")

    def narrow(self, rate):
        self.changed = True
        limit = f"root tbf rate {rate} burst 64kb latency 50ms"
        shell(f"tc qdisc add dev data{self.number} {limit}")
        self.do(f"tc qdisc add dev data {limit}")

    def ranks(self):
        """Returns the process IDs of the ranks on this host."""
        return self.do("pgrep -f '^[^ ]*/trireme train '", check=False).split()

    def signal(self, number):
        """Sends a signal to the ranks on this host."""
        for pid in self.ranks():
            self.do(f"kill -{int(number)} {pid}", check=False)


class Napping:
    """Context that stops a host's ranks most of the time: for `seconds` of each `seconds` + 0.05."""

    def __init__(self, host, seconds=0.2):
        self.host, self.seconds, self.over = host, seconds, threading.Event()
        self.thread = threading.Thread(target=self.nap)

    def nap(self):
        while not self.over.is_set():
            self.host.signal(signal.SIGSTOP)
            self.over.wait(self.seconds)
            self.host.signal(signal.SIGCONT)
            self.over.wait(0.05)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.host.signal(signal.SIGCONT)


def make_network(hosts):
    """Sets up this machine, 'head', which starts the jobs: it is only on the control network."""
    with open(f"{SHARED}/hosts", "w", encoding="ascii") as file:
        file.write(f"127.0.0.1 localhost\n{CONTROL}.254 head\n")
        file.writelines(f"{CONTROL}.{host.number} {host.name}\n" for host in hosts)
    os.makedirs(PIDS)
    with open(f"{SHARED}/agent", "w", encoding="ascii") as file:
        file.write(AGENT)
    os.chmod(f"{SHARED}/agent", 0o755)
    shell("hostname head", f"mount --bind {SHARED}/hosts /etc/hosts", "ip link set lo up")
    for net in ("control", "data"):
        shell(f"ip link add name {net} type bridge", f"ip link set {net} up")
    shell(f"ip addr add {CONTROL}.254/24 dev control")
