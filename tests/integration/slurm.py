"""slurm: a Slurm cluster of simulated nodes on one machine, for tests (root, Debian's packages slurmctld, slurmd, slurm-client, munge,
libpmix-dev). A node has host name, processes, network and shared memory of its own, made of namespaces and joined by a bridge, so that
it can lose its power or its network. Without the right to make namespaces there is no cluster: unavailable() says why."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from daemon import make_corpus, temporary, until

os.environ["PATH"] = "/usr/sbin:/sbin:" + os.environ["PATH"]  # Debian keeps daemons there

# A job gives way to all other work of its machine, which here would be other tests.
AWAKE = "#!/bin/sh\n(for i in $(seq 60); do sleep 1; echo 0 >/proc/$$/autogroup || break; done) 2>/dev/null &\nexec {}/brrd \"$@\"\n"
# What a training on the cluster needs beside its job file, and what its ranks need in this place.
KEYS = ["training.batch_size=16", "training.micro_batch_size=4", "training.reduction=tree", "training.validate_every=6", "data.loader_workers=1"]
RANKS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "self,vader,tcp"}
CONFIG = """
ClusterName=test
SlurmctldHost=ctl({net}.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={dir}/munge/socket,cred_expire=5
StateSaveLocation={dir}/state
SlurmctldPidFile={dir}/ctl.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdSpoolDir={dir}/node/%n/spool
SlurmdPidFile={dir}/%n.pid
SlurmdLogFile={dir}/log/%n.log
TmpFS={dir}/node/%n/tmp
SlurmdParameters=config_overrides
CommunicationParameters=NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
JobRequeue=1
ReturnToService=2
SlurmctldTimeout=15
SlurmdTimeout=15
KillWait=5
MpiDefault=pmix
MailProg=/bin/true
"""
PARTITIONS = """
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=20 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""
# Process 1 of a node; it ends with slurmd.
NODE = """
hostname {name} && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount --bind {dir}/hosts /etc/hosts && ip link set lo up || exit 1
for i in $(seq 100); do ip link show eth0 >/dev/null 2>&1 && break; sleep 0.1; done
ip addr add {net}.{number}/24 dev eth0 && ip link set eth0 up || exit 1
slurmd -D -N {name} -f {dir}/slurm.conf &
wait $!
"""
CONTROLLER = "hostname ctl && mount --bind {dir}/hosts /etc/hosts && exec slurmctld -D {fresh} -f {dir}/slurm.conf"
SPACES = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def unavailable():
    """What a cluster lacks here, with its class, or None."""
    missing = [name for name in ("slurmctld", "slurmd", "sbatch", "munged", "unshare", "ip") if not shutil.which(name)]
    if missing:
        return f"package: no {', '.join(missing)} (slurmctld, slurmd, slurm-client, munge, libpmix-dev)"
    if os.getuid() or subprocess.run([*SPACES, "true"], capture_output=True).returncode:
        return "rights: namespaces cannot be made here"
    return None


def write_program(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, 0o755)


def main(make_side, checks, always=(), end=lambda side: None):
    """Runs the checks, or those that the command line names and `always`, with what make_side(cluster, directory) returns; recordings lie in
    the directory's eeg. Returns the exit status."""
    why = unavailable()
    if not why and not os.path.exists(f"{os.environ['BRR_BUILD_DIR']}/lib/libbrr_mpi.so"):
        why = "package: a build without libopenmpi-dev"
    if why:
        print(f"skipped: {why}")
        return 77
    with temporary() as tmp:
        os.chmod(tmp, 0o755)
        make_corpus(f"{tmp}/eeg", seed=21, patients=4, hours=0.12)
        with Cluster(f"{tmp}/slurm") as cluster:
            side = make_side(cluster, tmp)
            for check in [c for c in checks if not sys.argv[1:] or c in always or c.__name__ in sys.argv[1:]]:
                started = time.monotonic()
                check(side)
                print(f"{check.__name__}: {time.monotonic() - started:.1f} s", flush=True)
            end(side)
    return 0


class Cluster:
    """Nodes n1, n2, …; `with` starts and ends it."""

    def __init__(self, directory, nodes=2, cpus=4):
        self.dir, self.nodes, self.cpus = directory, nodes, cpus
        self.running = {}
        self.env = {**os.environ, "SLURM_CONF": f"{directory}/slurm.conf"}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        for name in ("munge", "state", "log"):
            os.makedirs(f"{self.dir}/{name}")
        os.chmod(self.dir, 0o755)
        os.chmod(f"{self.dir}/munge", 0o755)
        self.bridge = self._make_bridge()
        self._write_config()
        with open(f"{self.dir}/key", "wb") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(os.urandom(128))
        self._launch("munged", ["munged", "-F", f"--key-file={self.dir}/key", f"--socket={self.dir}/munge/socket",
                                f"--pid-file={self.dir}/munge/pid", f"--log-file={self.dir}/log/munged.log",
                                f"--seed-file={self.dir}/munge/seed"])
        until(lambda: os.path.exists(f"{self.dir}/munge/socket"), "munged")
        self.start_controller(fresh=True)
        for number in range(1, self.nodes + 1):
            self.start(number)
        until(self._all_idle, f"idle nodes, see {self.dir}/log")

    def __exit__(self, *_):
        for name in [n for n in self.running if n.startswith("n")] + ["ctl", "munged"]:
            self._end(name)
        if getattr(self, "bridge", None):
            subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)

    def _make_bridge(self):
        for number in random.sample(range(200), 200):
            name = f"brrs{number}"
            if subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True).returncode == 0:
                self.net = f"10.232.{number}"
                subprocess.run(["ip", "addr", "add", f"{self.net}.254/24", "dev", name], check=True)
                subprocess.run(["ip", "link", "set", name, "up"], check=True)
                return name
        raise AssertionError("no bridge can be made")

    def _write_config(self):
        with open(f"{self.dir}/hosts", "w", encoding="ascii") as f:
            f.write(f"127.0.0.1 localhost\n{self.net}.254 ctl\n")
            f.writelines(f"{self.net}.{i} n{i}\n" for i in range(1, self.nodes + 1))
        with open(f"{self.dir}/slurm.conf", "w", encoding="ascii") as f:
            f.write(CONFIG.format(dir=self.dir, net=self.net))
            f.writelines(f"NodeName=n{i} NodeAddr={self.net}.{i} CPUs={self.cpus}\n" for i in range(1, self.nodes + 1))
            f.write(PARTITIONS)

    def _launch(self, name, command):
        with open(f"{self.dir}/log/{name}.out", "ab") as log:
            self.running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                                  start_new_session=True)

    def _end(self, name, how=signal.SIGKILL):
        process = self.running.pop(name, None)
        if process:
            process.send_signal(how)
            process.wait()

    def start_controller(self, fresh=False):
        script = CONTROLLER.format(dir=self.dir, fresh="-c" if fresh else "")
        self._launch("ctl", ["unshare", "--uts", "--mount", "sh", "-c", script])

    def kill_controller(self):
        self._end("ctl")

    def start(self, number):
        """The node has power (again)."""
        name = f"n{number}"
        for folder in ("spool", "tmp"):
            os.makedirs(f"{self.dir}/node/{name}/{folder}", exist_ok=True)
        script = NODE.format(name=name, dir=self.dir, net=self.net, number=number)
        self._launch(name, [*SPACES, "sh", "-c", script])
        link = f"{self.bridge}.{number}"
        subprocess.run(["ip", "link", "del", link], capture_output=True)  # of the node's earlier life
        until(lambda: subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns",
                                         str(self.running[name].pid)], capture_output=True).returncode == 0, f"a link for {name}")
        subprocess.run(["ip", "link", "set", link, "master", self.bridge, "up"], check=True)

    def kill(self, number):
        """The node loses its power: all of its processes end at once."""
        self._end(f"n{number}")

    def cut(self, number):
        subprocess.run(["ip", "link", "set", f"{self.bridge}.{number}", "down"], check=True)

    def join(self, number):
        subprocess.run(["ip", "link", "set", f"{self.bridge}.{number}", "up"], check=True)

    def call(self, *command, check=True, **options):
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=check, **options).stdout.strip()

    def _all_idle(self):
        out = self.call("sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N", check=False)
        return len(set(out.split())) == self.nodes

    def state(self, job):
        """RUNNING, PENDING, …; "" once Slurm has forgotten the job or it has ended."""
        return self.call("squeue", "-h", "-j", str(job), "-t", "PD,R,CG,CF", "-o", "%T", check=False)
