"""What a real process logs at its most talkative, with a secret everywhere where a client can put one."""

import base64
import re
from pathlib import Path

import orjson
import pytest
import requests
import urllib3

from tests.serving import Process, serving

pytestmark = pytest.mark.system

SECRET = "Marker-5f0c1e9a7b-Secret"
NEW = "Marker-77aa01c3d2-Newer"
TOKEN = "Marker-e4b8d6f290-Token-of-the-API"
MARKS = ("5f0c1e9a7b", "77aa01c3d2", "e4b8d6f290")
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"


def _talk(process: Process, address: str) -> list[str]:
    """Ask with secrets everywhere; those that the server made."""
    urllib3.disable_warnings()
    made = []
    client = requests.Session()
    client.verify, client.trust_env = False, False
    client.auth = ("root", SECRET)
    url = process.url(address)
    assert client.get(url + SYSTEM).status_code == 200
    client.get(f"{url}{SYSTEM}?password={SECRET}&X-Auth-Token={NEW}")
    client.get(f"{url}{SYSTEM}%3Fpassword={SECRET}")
    client.get(url + SYSTEM, auth=("root", NEW))
    client.get(url + SYSTEM, auth=(SECRET, NEW))
    for headers in (
        {"Authorization": f"Bearer {SECRET}"},
        {"X-Auth-Token": SECRET},
        {"Authorization": SECRET, "Cookie": f"a={NEW}"},
        {"X-Request-Id": "of-the-client", "X-Secret": SECRET},
    ):
        requests.get(url + SYSTEM, headers=headers, verify=False, timeout=10)
    login = {"UserName": "root", "Password": SECRET}
    session = client.post(f"{url}/redfish/v1/SessionService/Sessions", json=login)
    assert session.status_code == 201
    made.append(session.headers["X-Auth-Token"])
    client.post(f"{url}/redfish/v1/SessionService/Sessions", json={"UserName": "root", "Password": NEW})
    client.post(f"{url}/redfish/v1/SessionService/Sessions", data=b"{" + SECRET.encode())
    client.post(f"{url}/redfish/v1/SessionService/Sessions", data=iter([b'{"Password":', f'"{NEW}"}}'.encode()]))
    subscription = {
        "Destination": f"https://u:{SECRET}@127.0.0.1:9/{NEW}?token={SECRET}",
        "Protocol": "Redfish",
        "Context": NEW,
        "HttpHeaders": [{"Authorization": f"Bearer {SECRET}"}],
    }
    client.post(f"{url}/redfish/v1/EventService/Subscriptions", json=subscription)
    subscription["Destination"] = f"https://127.0.0.1:9/{NEW}?token={SECRET}"
    assert client.post(f"{url}/redfish/v1/EventService/Subscriptions", json=subscription).status_code == 201
    client.post(f"{url}/redfish/v1/EventService/Actions/EventService.SubmitTestEvent", json={"MessageId": SECRET})
    upload = {"UpdateParameters": (None, f'{{"a": "{SECRET}"}}', "application/json"), "UpdateFile": ("f", SECRET)}
    client.post(f"{url}/redfish/v1/UpdateService/MultipartUpload", files=upload)
    client.post(f"{url}/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate",
                json={"ImageURI": f"https://u:{SECRET}@127.0.0.1/x", "Username": "u", "Password": NEW})  # fmt: skip
    accounts = client.get(f"{url}/redfish/v1/AccountService/Accounts").json()["Members"]
    for account in accounts:
        client.patch(url + account["@odata.id"], json={"Password": NEW})
    return made


def _steer(process: Process) -> None:
    """Ask the control API with secrets."""
    api = f"http://127.0.0.1:{process.admin}/api/v1"
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for headers in (bearer, {"Authorization": f"Bearer {SECRET}"}, {}):
        order = {"operation": {"type": "credentials", "set": "password", "password": NEW}, "all": True}
        requests.post(f"{api}/operations", json=order, headers=headers, timeout=10)
        requests.post(
            f"{api}/operations", json={"operation": {"type": SECRET, SECRET: NEW}}, headers=headers, timeout=10
        )
        requests.get(f"{api}/bmcs/host-0?token={SECRET}", headers=headers, timeout=10)
    requests.post(f"{api}/recordings", json={"selection": {}, "all": True}, headers=bearer, timeout=10)


def test_no_secret_is_ever_logged(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = ["--hosts", "2", "--dpus", "0", "--host-password", SECRET, "--token-file", str(tmp_path / "token")]
    options += ["--log-level", "debug", "--log-format", "json", "--access-log", "1", "--state-dir", str(tmp_path / "s")]
    with serving(tmp_path / "serve.log", *options) as process:
        found = re.search(r"Try: curl .*https://([0-9.]+):", process.output)
        assert found is not None
        made = _talk(process, found[1])
        _steer(process)
        assert process.stop() == 0
        output = process.output
    encoded = [base64.b64encode(f"root:{one}".encode()).decode() for one in (SECRET, NEW)]
    for secret in (*MARKS, *made, *encoded):
        assert secret not in output
    logged = [orjson.loads(line) for line in output.splitlines() if line.startswith("{")]
    access = [one for one in logged if one["logger"] == "bmcsim.access"]
    assert len(access) > 15
    assert "of-the-client" in {one["request_id"] for one in access}
    assert {one["status"] for one in access} >= {200, 201, 401}
    assert any(one["logger"] == "bmcsim.audit" for one in logged)
    # Besides, only what is said at the start.
    assert not [line for line in output.splitlines() if "Traceback" in line or line.startswith("  File")]


def test_the_variables_for_all_commands_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMCSIM_LOG_FORMAT", "json")
    monkeypatch.setenv("BMCSIM_LOG_LEVEL", "info")
    with serving(tmp_path / "serve.log", "--hosts", "1", "--dpus", "0") as process:
        assert process.stop() == 0
        logged = [orjson.loads(line) for line in process.output.splitlines() if line.startswith("{")]
    assert "stopping" in {one["message"] for one in logged}
    assert {one["logger"] for one in logged} <= {"bmcsim.edges.http.server", "uvicorn.error"}
