"""`bmcsim serve --shards`: a fleet that several processes serve behind one address."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.conftest import basic
from tests.serving import free_ports

pytestmark = pytest.mark.system

HOSTS, SHARDS = 6, 3
ROOT = "/redfish/v1/Systems/System.Embedded.1"
MANAGER = "/redfish/v1/Managers/iDRAC.Embedded.1"
ACCOUNT = "/redfish/v1/AccountService/Accounts/root"
PUSH = "/redfish/v1/UpdateService/MultipartUpload"
TRUST_ALL = ssl._create_unverified_context()


class Sharded:
    """The process that watches, and its children."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.port = free_ports(1 + SHARDS)
        self.admin = self.port + 1
        self.start()

    def start(self, shards: int = SHARDS) -> None:
        """Serve, from now on or again."""
        self.output = self.folder / "serve.log"
        command = [sys.executable, "-m", "bmcsim", "serve", f"--hosts={HOSTS}", "--dpus=0", f"--shards={shards}"]
        command += [f"--listen=127.0.0.0/8:{self.port}", f"--admin=127.0.0.1:{self.admin}", *self.options]
        command += ["--host-password", "P", "--state-dir", str(self.folder / "state"), "--credentials", "persist"]
        with self.output.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    def children(self) -> list[int]:
        """Processes of the shards, in their order."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def wait(self) -> None:
        """Until every shard is ready."""
        deadline = time.monotonic() + 60
        while self.output.read_text().count("BMCs ready") < SHARDS:
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.05)

    def get(self, address: str, *, password: str = "P", **fields: str) -> tuple[int, bytes]:
        """Status and body of a GET of a host's system."""
        authorization = {"Authorization": basic("root", password).decode()}
        request = urllib.request.Request(f"https://{address}:{self.port}{ROOT}", headers={**authorization, **fields})
        try:
            with urllib.request.urlopen(request, context=TRUST_ALL, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    @contextmanager
    def connect(self, address: str) -> Iterator["Client"]:
        """One connection, by TLS."""
        with (
            socket.create_connection((address, self.port), timeout=10) as plain,
            TRUST_ALL.wrap_socket(plain) as sock,
            sock.makefile("rb") as reader,
        ):
            yield Client(sock, reader)


class Client:
    """A connection that sends requests for any BMC and reads the answers in their order."""

    def __init__(self, sock: socket.socket, reader: BinaryIO) -> None:
        self.sock, self.reader = sock, reader

    def send(self, *requests: bytes) -> None:
        """All in one piece."""
        self.sock.sendall(b"".join(requests))

    def answer(self) -> tuple[int, bytes] | None:
        """Status and body of the next answer, None where the connection is closed instead."""
        try:
            first = self.reader.readline()
        except ConnectionError:
            first = b""
        if not first:
            return None
        fields = {}
        while line := self.reader.readline().strip():
            name, _, value = line.partition(b": ")
            fields[name.lower()] = value
        return int(first.split()[1]), self.reader.read(int(fields.get(b"content-length", 0)))


def request(address: str, path: str = ROOT, method: str = "GET", body: bytes = b"", password: str = "P") -> bytes:
    """One that names its BMC by Forwarded."""
    lines = [f"{method} {path} HTTP/1.1", "Host: proxy", f"Forwarded: host={address}"]
    lines.append(f"Authorization: {basic('root', password).decode()}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@pytest.fixture
def sharded(tmp_path: Path) -> Iterator[Sharded]:
    """Three shards of two hosts each."""
    made = Sharded(tmp_path)
    try:
        made.wait()
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.wait()


def gone(pids: list[int]) -> bool:
    """Whether all processes end within some seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_each_address_reaches_its_bmc_whatever_the_process(sharded: Sharded) -> None:
    addresses = [f"127.64.0.{n}" for n in range(2, 2 + HOSTS)]
    serials = [json.loads(sharded.get(address)[1])["SerialNumber"] for address in addresses * 3]
    assert len(set(serials)) == HOSTS
    assert serials == serials[:HOSTS] * 3
    assert len(sharded.children) == SHARDS
    for number in range(SHARDS):
        ready = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{sharded.admin + number}/readyz").read())
        assert ready == {"ready": True, "bmcs": 2, "expected": 2}
    for named in ({"Host": addresses[-1]}, {"Forwarded": f"host={addresses[-1]}"}):
        for way in (addresses[0], "127.0.0.1"):
            status, body = sharded.get(way, **named)
            assert (status, json.loads(body)["SerialNumber"]) == (200, serials[-1])
    children = sharded.children
    sharded.process.send_signal(signal.SIGTERM)
    assert sharded.process.wait(20) == 0
    assert gone(children)


def test_each_part_shows_its_own_machines(sharded: Sharded) -> None:
    """As the pods of machine-a-tron do; a command over /ipmi reaches every BMC."""
    shown: dict[str, str] = {}
    for address in ADDRESSES:
        with sharded.connect(address) as client:
            client.send(request(address, "/machines/status"))
            status, body = client.answer() or (0, b"")
        machines = json.loads(body)["machines"]
        assert (status, len(machines)) == (200, HOSTS // SHARDS)
        shown |= {one["bmc"]["ip"]: one["mat_id"] for one in machines}
        assert address in {one["bmc"]["ip"] for one in machines}
    assert sorted(shown) == sorted(ADDRESSES)
    assert len(set(shown.values())) == HOSTS
    with sharded.connect(ADDRESSES[0]) as client:
        for address in ADDRESSES:
            client.send(request(address, "/ipmi", "POST", b'{"action":"chassis_power_reset"}'))
            assert client.answer() == (200, b'{"success":true}')


def test_all_stop_with_status_1_when_one_dies(sharded: Sharded) -> None:
    children = sharded.children
    os.kill(children[1], signal.SIGKILL)
    assert sharded.process.wait(40) == 1
    assert gone(children)
    assert "Error: shard 2 of 3 was killed by signal 9; the others are stopped" in sharded.output.read_text()


def test_the_shards_stop_when_the_one_that_watches_is_killed(sharded: Sharded) -> None:
    children = sharded.children
    sharded.process.kill()
    sharded.process.wait()
    assert gone(children)


ADDRESSES = [f"127.64.0.{n}" for n in range(2, 2 + HOSTS)]


def test_one_connection_carries_requests_for_bmcs_of_all_parts(sharded: Sharded) -> None:
    """In turns and pipelined; a BMC in reset closes it once what came before is answered."""
    with sharded.connect(ADDRESSES[0]) as client:
        serials = []
        for address in ADDRESSES * 3:
            client.send(request(address))
            status, body = client.answer() or (0, b"{}")
            assert status == 200
            serials.append(json.loads(body)["SerialNumber"])
        assert len(set(serials)) == HOSTS
        assert serials == serials[:HOSTS] * 3
        order = [3, 0, 5, 1, 4, 2, 0, 0, 5, 5, 3]
        client.send(*[request(ADDRESSES[place]) for place in order])
        answers = [client.answer() or (0, b"{}") for _ in order]
        assert [json.loads(body)["SerialNumber"] for _, body in answers] == [serials[place] for place in order]
        reset = json.dumps({"ResetType": "GracefulRestart"}).encode()
        client.send(request(ADDRESSES[-1], f"{MANAGER}/Actions/Manager.Reset", "POST", reset))
        assert client.answer() == (204, b"")
        client.send(request(ADDRESSES[0]), request(ADDRESSES[2]), request(ADDRESSES[-1]), request(ADDRESSES[0]))
        assert [answer and answer[0] for answer in (client.answer(), client.answer(), client.answer())] == [
            200,
            200,
            None,
        ]


def test_an_upload_reaches_a_bmc_of_another_part(sharded: Sharded) -> None:
    with sharded.connect(ADDRESSES[0]) as client:
        image = os.urandom(3 * 1024 * 1024)
        parts = b'--x\r\nContent-Disposition: form-data; name="UpdateParameters"\r\n\r\n{"Targets":[]}\r\n'
        parts += b'--x\r\nContent-Disposition: form-data; name="UpdateFile"; filename="fw.bin"\r\n\r\n' + image
        body = parts + b"\r\n--x--\r\n"
        push = request(ADDRESSES[-1], PUSH, "POST", body).replace(
            b"application/json", b"multipart/form-data; boundary=x", 1
        )
        client.send(request(ADDRESSES[0]), push, request(ADDRESSES[2]))
        answers = [client.answer() or (0, b"") for _ in range(3)]
        assert [status for status, _ in answers] == [200, 202, 200]


def test_a_connection_closes_when_the_part_of_its_request_is_dead(sharded: Sharded) -> None:
    """A stopped process answers nothing; once it is killed, nobody waits for it."""
    with sharded.connect(ADDRESSES[0]) as client:
        client.send(request(ADDRESSES[-1]))
        assert (client.answer() or (0, b""))[0] == 200
        victim = sharded.children[-1]
        os.kill(victim, signal.SIGSTOP)
        client.send(request(ADDRESSES[0]), request(ADDRESSES[-1]))
        assert (client.answer() or (0, b""))[0] == 200
        os.kill(victim, signal.SIGKILL)
        assert client.answer() is None
        assert sharded.process.wait(40) == 1


def test_passwords_of_all_parts_survive_the_death_of_the_group(sharded: Sharded) -> None:
    """By one connection, as behind a proxy. Another number of parts is refused."""
    with sharded.connect("127.0.0.1") as client:
        for address in (ADDRESSES[0], ADDRESSES[-1]):
            client.send(request(address, ACCOUNT, "PATCH", b'{"Password":"Changed-1"}'))
            assert (client.answer() or (0, b""))[0] in (200, 204)
    children = sharded.children
    for pid in (sharded.process.pid, *children):
        os.kill(pid, signal.SIGKILL)
    sharded.process.wait()
    assert gone(children)
    sharded.start(SHARDS - 1)
    assert sharded.process.wait(30) == 1
    assert f"was served by --shards {SHARDS}; serve it so again" in sharded.output.read_text()
    sharded.start()
    sharded.wait()
    for address in (ADDRESSES[0], ADDRESSES[-1]):
        assert sharded.get(address, password="Changed-1")[0] == 200
        assert sharded.get(address)[0] == 401
    assert sharded.get(ADDRESSES[2])[0] == 200


def test_parts_that_are_started_apart_find_each_other(tmp_path: Path) -> None:
    """Each at an address of its own; one that is killed closes connections, and is back after a start."""
    ports = free_ports(2)

    def start(number: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "bmcsim", "serve", f"--hosts={HOSTS}", "--dpus=0", f"--shard={number}/2"]
        command += [f"--listen=127.0.0.{number}:{ports + number - 1}", "--admin=off", "--host-password=P"]
        command += [f"--peers={tmp_path / 'peers'}", "--no-tls"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert b"BMCs ready" in process.stdout.readline()
        return process

    def ask(address: str) -> int | None:
        with socket.create_connection(("127.0.0.1", ports), timeout=10) as sock, sock.makefile("rb") as reader:
            answer = Client(sock, reader)
            answer.send(request(address))
            return (answer.answer() or (None, b""))[0]

    def soon(wanted: int | None) -> bool:
        deadline = time.monotonic() + 20
        while ask(ADDRESSES[-1]) != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        return ask(ADDRESSES[-1]) == wanted

    first = start(1)
    second = None
    try:
        assert (ask(ADDRESSES[0]), ask(ADDRESSES[-1])) == (200, None)
        second = start(2)
        assert soon(200)
        second.kill()
        second.communicate()
        assert soon(None)
        second = start(2)
        assert soon(200)
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        assert [process.wait(20) for process in (first, second)] == [0, 0]
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.communicate()
