"""The image really built, by buildah without a Docker engine, and run as Kubernetes would run it.

Needs root, and the Debian packages buildah, debootstrap and util-linux. The base is a stand-in made of
Debian's own Python 3.11, under the name of the real one: this proves the Dockerfile's steps, paths, user and
entry point, not the base.

The root file system of a container is a plain folder with buildah's `vfs` driver. It is run from there in a
mount namespace of its own: read-only, with an empty /tmp, as the user of the image. `buildah run` could not
do that: it has no read-only root, and with chroot isolation buildah 1.28 answers SIGTERM by killing what it
runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BASE = "python:3.11-slim-bookworm"
TOOLS = {"buildah": "buildah", "debootstrap": "debootstrap", "unshare": "util-linux", "chroot": "coreutils"}
OWN_CERTIFICATES = "usr/local/share/ca-certificates"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

#: Arguments: the root file system, the folder for /etc/relay, the user, and the command.
_ENTER = """
set -e
root=$1 config=$2 user=$3
shift 3
mkdir -p "$root/etc/relay"
# Engines of containers let the machine's own name have an address, for which Spark asks.
printf '127.0.0.1 localhost %s\\n' "$(uname -n)" > "$root/etc/hosts"
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$config" "$root/etc/relay"
exec chroot --userspec="$user" --groups="" "$root" "$@"
"""


def missing() -> str:
    """What this machine lacks for building the image; empty for nothing."""
    lacks = [f"{tool} (package {package})" for tool, package in TOOLS.items() if not shutil.which(tool)]
    if os.geteuid() != 0:
        lacks.append("root")
    return ", ".join(lacks)


class Image:
    """A store of buildah's in `folder` with the image in it. The caller removes the folder.

    `target`: the stage to build; "" for the last one.
    """

    def __init__(self, folder: Path, target: str = "") -> None:
        self._folder = folder
        # Downloads that the build caches go to the temporary folder, too.
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._make_base()
        self._build(target)
        self.settings: dict[str, Any] = json.loads(
            self.buildah("inspect", "--type", "image", "localhost/relay:test")
        )["OCIv1"]["config"]
        self.container = self.buildah("from", "--pull-never", "localhost/relay:test").strip()
        self.root = Path(self.buildah("mount", self.container).strip())

    def _build(self, target: str) -> None:
        chosen = ["--target", target] if target else []
        self.buildah(
            *("bud", "--isolation", "chroot", "--pull-never", *chosen),
            *("--tag", "localhost/relay:test", str(ROOT)),
        )

    def buildah(self, command: str, *arguments: str) -> str:
        """Run a command of buildah's on the store; gives what it prints."""
        where = [
            "--root",
            f"{self._folder}/store",
            "--runroot",
            f"{self._folder}/run",
            "--storage-driver",
            "vfs",
        ]
        return self._run(["buildah", *where, command, *arguments])

    def _run(self, command: list[str]) -> str:
        environment = os.environ | {"TMPDIR": str(self._temporary)}
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, (command, (done.stdout + done.stderr)[-3000:])
        return done.stdout

    def _make_base(self) -> None:
        base = self._folder / "base"
        # The real base has the headers, too.
        packages = "python3,python3-dev,python3-venv,ca-certificates"
        self._run(["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(base)])
        (base / "usr/bin/python").symlink_to("python3")
        # Where the machine trusts a proxy's certificate, the build has to as well: Java, which has a store of
        # its own, by what Debian's tools make of it.
        for own in Path("/", OWN_CERTIFICATES).glob("*.crt"):
            shutil.copy(own, base / OWN_CERTIFICATES)
        self._run(["chroot", str(base), "env", "TMPDIR=/tmp", "update-ca-certificates"])
        shutil.copyfile(f"/{CERTIFICATES}", base / CERTIFICATES)
        self._run(["tar", "-C", str(base), "-cf", "base.tar", "."])
        shutil.rmtree(base)
        trust = f"ENV PIP_CERT=/{CERTIFICATES} SSL_CERT_FILE=/{CERTIFICATES}"
        (self._folder / "Dockerfile").write_text(f"FROM scratch\nADD base.tar /\n{trust}\n", encoding="utf-8")
        self.buildah("bud", "--isolation", "chroot", "--tag", f"localhost/{BASE}", ".")
        (self._folder / "base.tar").unlink()

    def command(self, config: Path, *arguments: str, environment: dict[str, str] | None = None) -> list[str]:
        """The command line that runs `arguments` in the container, with `config` as /etc/relay and the
        image's user and variables.

        Every program on it replaces the one before, so that a signal reaches the container's own process.
        """
        variables = [
            *self.settings["Env"],
            *(f"{name}={value}" for name, value in (environment or {}).items()),
        ]
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh"]
        return [
            *enter,
            str(self.root),
            str(config),
            self.settings["User"],
            "/usr/bin/env",
            "-i",
            *variables,
            *arguments,
        ]
