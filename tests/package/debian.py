"""A bare Debian 12 and the packages of this build, made once for a build and shared by the tests of this folder."""
import contextlib
import fcntl
import glob
import os
import shutil
import subprocess
import time

from daemon import PATIENCE, SOURCE

BUILD = os.environ["BRR_BUILD_DIR"]
MIRROR = "http://deb.debian.org/debian"
NAMES = ("brrd", "brrctl", "libbrr1", "libbrr-dev", "python3-brr")
BASE_AGE_S = 7 * 86400  # then Debian has other packages


def run(*command, **options):
    r = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **options)
    assert r.returncode == 0, f"{' '.join(command)}\n{r.stdout[-4000:]}{r.stderr[-4000:]}"
    return r.stdout


@contextlib.contextmanager
def locked(name):
    """One test at a time makes what all of them use."""
    folder = f"{BUILD}/debian"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{name}.lock", "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield folder


def base_archive():
    """The path of a tar of a bare Debian 12."""
    with locked("base") as folder:
        path = f"{folder}/base.tar"
        if not os.path.exists(path) or time.time() - os.path.getmtime(path) > BASE_AGE_S:
            shutil.rmtree(f"{folder}/base", ignore_errors=True)
            run("debootstrap", "--variant=minbase", "bookworm", f"{folder}/base", MIRROR)
            with open(f"{folder}/base/etc/dpkg/dpkg.cfg.d/unsafe-io", "w", encoding="ascii") as f:
                f.write("force-unsafe-io\n")  # nobody needs this Debian after a power cut
            run("tar", "-C", f"{folder}/base", "-cf", f"{path}.new", ".")
            shutil.rmtree(f"{folder}/base")
            os.rename(f"{path}.new", path)
        return path


class Root:
    """A bare Debian 12, with what programs expect of a running system, in a mount namespace whose / it is: podman and user namespaces refuse a
    chroot. Node.js knows the authorities that this machine's own Node.js was given. It ends with close(), or with this process."""

    AUTHORITIES = os.environ.get("NODE_EXTRA_CA_CERTS")
    ENTER = """cd "$0" && mount --bind . . && cd "$0"
mount -t proc proc proc && mount -t sysfs sysfs sys && mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount -t devpts devpts dev/pts && mount -t tmpfs tmpfs dev/shm
mkdir old && pivot_root . old && umount -l /old && rmdir /old
echo ready && exec cat"""

    def __init__(self, directory):
        self.dir = directory
        os.makedirs(directory)
        run("tar", "-C", directory, "-xf", base_archive())
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", f"{directory}/etc/{name}")
        if self.AUTHORITIES:
            shutil.copy(self.AUTHORITIES, f"{directory}/etc/authorities.crt")
        words = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", self.ENTER, directory)
        self.holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "ready\n", "the mount namespace of a bare Debian could not be made"

    def close(self):
        self.holder.communicate(timeout=PATIENCE)

    def inside(self, user="root"):
        """The words before a command that runs there; the process is the command's."""
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "chroot", f"--userspec={user}", "/"]

    def __call__(self, *command, user="root"):
        return run(*self.inside(user), "env", "HOME=/", "TMPDIR=/tmp", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
                   "BRR_ENDPOINT=unix:/run/brrd/brrd.sock", *(["NODE_EXTRA_CA_CERTS=/etc/authorities.crt"] if self.AUTHORITIES else []), *command)

    def apt(self, *words):
        return self("apt-get", "-y", "-q", "--no-install-recommends", *words)


def contents():
    """What goes into the packages, and what says how."""
    built = [path for pattern in ("bin/*", "lib/*.so*", "CMakeCache.txt") for path in glob.glob(f"{BUILD}/{pattern}")]
    written = [path for folder in ("configs", "deploy/debian", "systemd", "models", "examples", "proto", "client") for path in glob.glob(f"{SOURCE}/{folder}/**", recursive=True)]
    return sorted(path for path in built + written if os.path.isfile(path))


def packages():
    """The folder of the packages, which are made anew when something in them has changed."""
    run("ninja", "-C", BUILD, "package_files")
    with locked("packages") as folder:
        made = f"{folder}/packages"
        stamp = "".join(f"{path} {os.path.getmtime(path)}\n" for path in contents())
        if not os.path.exists(f"{made}/stamp") or open(f"{made}/stamp", encoding="utf-8").read() != stamp:
            shutil.rmtree(made, ignore_errors=True)
            run("cpack", "-G", "DEB", "-B", made, cwd=BUILD)
            with open(f"{made}/stamp", "w", encoding="utf-8") as f:
                f.write(stamp)
        return made


def package(name):
    (path,) = glob.glob(f"{packages()}/{name}_*.deb")
    return path
