"""Requests made from what a tree has: its URIs, actions, writable properties and members, and what is almost that.

Everything is drawn from a `random.Random`, so that a seed says which requests these were; hypothesis brings its own.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import orjson

from bmcsim.tree.compile import Action, Node
from bmcsim.tree.profile import ParameterFacts, WritableFacts
from tests.conftest import PASSWORD, Client, basic
from tests.fuzz.der import odd_pem

METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
DOCUMENTS = ("/redfish", "/redfish/v1/odata", "/redfish/v1/$metadata", "/redfish/v1/openapi.yaml")
RULES = "/Injection/rules"
USERS = ("root", "operator", "reader", "locked", "disabled", "nobody")
"""User names that logins are tried with; `handling` makes accounts of some of them."""

_ODD_METHODS = ("TRACE", "CONNECT", "PROPFIND", "get", "", "G\u00cbT")
_STRINGS = (
    "",
    "On",
    "ForceOff",
    "ForceRestart",
    "Pxe",
    "Once",
    "Administrator",
    "ReadOnly",
    "root",
    "127.0.0.1",
    "http://192.0.2.9/image.iso",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "+14:00",
    "${serial}",
    "\x00tag\x00",
    "\x00",
    "\u202e\ufeff\U0001f600",
    "%s%n{0}",
    "../../etc/passwd",
    "x" * 1025,
    "x" * 70_000,
)
_NUMBERS = (0, -1, 1, 30, 86400, 2**31, 2**53, 2**63 - 1, 2**64 - 1, -(2**63), 1e308, -0.0, 0.1, 5e-324)
_NAMES = ("", "a", "a/b", "a.b", "a~1b", "/", ".", "#/x", "a@b", "@", "Oem", "Links", "Members", "\x00", "x" * 2000)
_RAW_BODIES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b'{"@odata.id":"/redfish/v1"}',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":-1e999}',
    b'{"a":1' + b"0" * 5000 + b"}",
    b'{"a":"\\ud800"}',
    b'{"a":"\xff\xfe"}',
    b'{"a":"\x00"}',
    b'{"\\u0000":"\\u0000"}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"Password":"a","Password":"b"}',
    b'{"Boot":{"BootSourceOverrideTarget":"Pxe"},"Boot":1}',
    b'{"a":' * 1100 + b"1" + b"}" * 1100,
    b'{"a":' * 200 + b"1" + b"}" * 200,
    b"[" * 1000 + b"]" * 1000,
    b'{"Boot":' * 900 + b"{}" + b"}" * 900,
    b"\x00" * 64,
)
_CONDITIONS = (
    "Name eq 'x'",
    "Id gt 9",
    "Id le '9'",
    "Created ge 2026-01-01T00:00:00Z",
    "Created lt '0001-01-01T00:00:00+23:59'",
    "Created gt 9999-12-31T23:59:59-23:59",
    "Status/Health ne 'OK'",
    "Reading gt 1e999",
    "Reading lt -" + "9" * 400,
    "Reading eq \u0661\u0662",
    "'1' eq 1",
    "null lt null",
    "true gt false",
    "@odata.id eq '/redfish/v1'",
    "Members@odata.count gt 0",
    "not",
    "not (" * 40 + "a eq b" + ")" * 40,
    "not " * 500 + "a eq b",
    "(" * 1000,
    "a eq " + "'" * 999,
    " " * 1500 + "!",
    "a/" * 700 + "a eq 1",
    "a eq 1 or " * 180 + "a eq 1",
    "a eq 'x' garbage",
    "Id eq '\U0001f600'",
    "9999999999999999999999 gt 2026-01-01T00:00:00.999999999999999999999Z",
)
_SELECTIONS = (
    "Name",
    "*",
    "Status/Health,Links(Chassis,ManagedBy)",
    "Members/Name,Id",
    "Members(@odata.id)",
    "(" * 30,
    "a/" * 20 + "a",
    "a(" * 15 + "b" + ")" * 15,
    ",",
    "Name,Name/a,Name(b)",
    "Reading@odata.count,@odata.id",
)
_EXPANSIONS = (".", "*", "~", ".($levels=1)", "*($levels=2)", "*($levels=6)", "~($levels=6)", ".($levels=7)")
_BAD_EXPANSIONS = (".($levels=0)", "*($levels=-1)", "*($levels=99999)", ".(", "", "x", "*($levels=\u0662)", "..")
_COUNTS = ("0", "1", "2", "-1", "2147483647", "2147483648", "9" * 100, "x", "", "1.5", "\u0663", " 1", "%31")
_MEDIA = (
    b"application/json",
    b"application/json;charset=utf-8",
    b"APPLICATION/JSON ; x=y",
    b"text/plain",
    b"multipart/form-data; boundary=x",
    b"multipart/form-data",
    b"application/octet-stream",
    b"",
    b";",
    b"\xff\x80",
    b"application/json" + b";a=b" * 2000,
)
_ACCEPTED = (
    b"*/*",
    b"application/json",
    b"application/*;q=0.1",
    b"text/html",
    b"application/json;q=0",
    b"application/xml, application/yaml",
    b"",
    b",",
    b";;;,;q=,q=0",
    b"a/b," * 5000,
    b"\xff",
)
_CODINGS = (b"gzip", b"gzip;q=0", b"br, gzip;q=0.5", b"identity", b"*", b"gzip;q=0.000", b"gzip;q=x", b"x-gzip", b",;,")
_TAGS = (
    b"*",
    b'"x"',
    b'W/"x"',
    b'"x", W/"y"',
    b'"',
    b"x",
    b'"a"' * 3000,
    b'W/"' + b"a" * 9000 + b'"',
    b"",
    b",,,",
    b'"\xff"',
)
_VERSIONS = (b"4.0", b"4.01", b"", b"5", b"4.0" * 1000, b"\xff")
_QUERY_MARKS = ("&", "=", "%", "+", "%24", "$top", "only", "excerpt", "$expand", "'", "(", ")", "%00", "%ff", ";", "?")


class Ask(msgspec.Struct):
    """A request as it would be on the wire: the target still encoded, in Latin-1."""

    method: str
    target: str
    fields: dict[bytes, bytes]
    body: bytes = b""


class Asker:
    """Makes requests to the BMC of a client.

    admin: the credentials that most of them have. tokens, etags, uris: what came with answers so far.
    """

    def __init__(self, client: Client, random: Random, admin: bytes) -> None:
        self._client, self._random, self._admin = client, random, admin
        self.tokens: list[bytes] = []
        self.etags: list[bytes] = []
        self.uris: list[str] = []
        tree = client.bmc.tree
        self._nodes = list(tree.nodes.values())
        self._actions = list(tree.actions.values())
        self._targets = {id(action): uri for uri, action in tree.actions.items()}
        self._writable = [node for node in self._nodes if node.writable or node.handlers]
        self._collections = [node for node in self._nodes if node.collection]
        self._items = list(tree.items.values())
        self._uploads = list(tree.updates.uploads)

    def ask(self) -> Ask:
        """Any request. What changes something, or almost does, is as frequent as reading."""
        kinds: tuple[Callable[[], Ask], ...] = (
            self._read,
            self._read,
            self._queried,
            self._patch,
            self._patch,
            self._echo,
            self._action,
            self._action,
            self._create,
            self._item,
            self._certificate,
            self._anything,
        )
        made = self._random.choice(kinds)()
        if self._random.random() < 0.05:
            made.method = self._random.choice(METHODS)
        if self._random.random() < 0.05:
            made.body = self._body()
        return made

    def reading(self) -> Ask:
        """A plain or queried read, with any header fields."""
        return self._read() if self._random.random() < 0.5 else self._queried()

    # kinds

    def _read(self) -> Ask:
        return Ask(self._one(("GET", "GET", "GET", "HEAD", "OPTIONS")), self._uri(), self._fields())

    def _queried(self) -> Ask:
        collection = self._collections and self._random.random() < 0.6
        uri = self._random.choice(self._collections).uri if collection else self._uri()
        return Ask(self._one(("GET", "GET", "GET", "HEAD", "PATCH")), f"{uri}?{self._query()}", self._fields())

    def _patch(self) -> Ask:
        node = self._random.choice(self._writable or self._nodes)
        return Ask(
            self._one(("PATCH", "PATCH", "PATCH", "PUT", "DELETE")), node.uri, self._fields(), self._changes(node)
        )

    def _echo(self) -> Ask:
        """A PATCH of what a GET shows, with changes, or of part of it; also of resources that it links to."""
        node = self._random.choice(self._writable if self._random.random() < 0.5 and self._writable else self._nodes)
        client = self._client
        shown = orjson.loads(client.bmc.body(node).render(client.bmc, client.clock.now())[1])
        return Ask("PATCH", node.uri, self._fields(), self._spoilt(self._changed(shown, 4)))

    def _changed(self, value: Any, depth: int) -> Any:
        random = self._random
        if isinstance(value, dict) and value and depth:
            uri = value.get("@odata.id") if len(value) == 1 else None
            linked = self._client.bmc.tree.nodes.get(uri) if isinstance(uri, str) else None
            if linked is not None and random.random() < 0.5:
                return {**(value if random.random() < 0.5 else {}), **orjson.loads(self._changes(linked, spoilt=False))}
            keys = random.sample(list(value), min(len(value), self._one((1, 2, 3, 99))))
            return {key: self._changed(value[key], depth - 1) for key in keys}
        if isinstance(value, list) and depth:
            return [self._changed(one, depth - 1) for one in value[: self._one((1, 3, 99))]]
        return value if random.random() < 0.6 else self._one((self._value(1), {}, []))

    def _action(self) -> Ask:
        if not self._actions:
            return self._read()
        action = self._random.choice(self._actions)
        uri = self._targets[id(action)]
        return Ask(self._one(("POST", "POST", "POST", "GET", "OPTIONS")), uri, self._fields(), self._parameters(action))

    def _create(self) -> Ask:
        node = self._random.choice(self._items or self._nodes)
        uri = node.container + self._one(("", "", "/Members", "/"))
        return Ask("POST", uri, self._fields(), self._members_body(node))

    def _item(self) -> Ask:
        node = self._random.choice(self._items or self._nodes)
        ids = [*self._client.bmc.members(node, self._client.clock.now()), "1", "root", "nope", "Administrator"]
        uri = f"{node.container}/{self._random.choice(ids)}"
        method = self._one(("GET", "PATCH", "PATCH", "DELETE", "POST"))
        return Ask(method, uri, self._fields(), self._members_body(node) if method in ("PATCH", "POST") else b"")

    def _certificate(self) -> Ask:
        """What installs a certificate whose fields are odd, or puts it in the place of another one."""
        bmc, random = self._client.bmc, self._random
        if not bmc.tree.certificates:
            return self._read()
        collection = random.choice(list(bmc.tree.certificates))
        body: dict[str, Any] = {"CertificateString": odd_pem(random), "CertificateType": self._one(("PEM", "PEMchain"))}
        replacing = [uri for uri, action in bmc.tree.actions.items() if "CertificateUri" in action.parameters]
        if not replacing or random.random() < 0.5:
            return Ask("POST", collection, self._fields(), self._spoilt(body))
        present = list(bmc.members(bmc.tree.items[collection], self._client.clock.now())) or ["1"]
        body["CertificateUri"] = {"@odata.id": f"{collection}/{random.choice(present)}"}
        return Ask("POST", random.choice(replacing), self._fields(), self._spoilt(body))

    def _anything(self) -> Ask:
        method = self._one((*METHODS, *_ODD_METHODS))
        if self._uploads and self._random.random() < 0.2:
            return Ask("POST", self._random.choice(self._uploads), self._fields(), self._body())
        if self._random.random() < 0.2:
            return Ask(self._one(("GET", "PUT", "POST", "DELETE")), RULES, self._fields(), self._rules())
        target = self._uri() + (f"?{self._query()}" if self._random.random() < 0.3 else "")
        return Ask(method, target, self._fields(), self._body())

    # targets

    def _uri(self) -> str:
        random = self._random
        uri = random.choice(self._nodes).uri if random.random() < 0.8 or not self.uris else random.choice(self.uris)
        if random.random() < 0.7:
            return uri
        twists: tuple[Callable[[str], str], ...] = (
            lambda one: one + "/",
            lambda one: one + "//",
            lambda one: one + "/Members",
            lambda one: one + "/*",
            lambda one: one + "/1",
            lambda one: one.upper(),
            lambda one: one.replace("/", "//", 2),
            lambda one: one[:-1],
            lambda one: one + "x",
            lambda one: one.rpartition("/")[0],
            lambda one: "".join(f"%{ord(letter):02x}" for letter in one),
            lambda one: one.replace("/redfish", "/%72edfish"),
            lambda one: one + "%00",
            lambda one: one + "%ff%fe",
            lambda one: one + "%2f",
            lambda one: one + "%",
            lambda one: one + "%zz",
            lambda one: one + "#/Status",
            lambda one: one + "?",
            lambda one: one + "/.." * 3,
            lambda one: one + "/" + "x" * 3000,
            lambda one: one + "\xff\xe4",
            lambda one: random.choice(DOCUMENTS),
            lambda one: random.choice(("", "*", "/", "//", "?", "/?", "/redfish/v2", "http:", RULES, RULES + "/x")),
        )
        return random.choice(twists)(uri)

    def _query(self) -> str:
        random = self._random
        if random.random() < 0.1:
            return "".join(random.choices(_QUERY_MARKS, k=random.randrange(40)))
        return "&".join(self._option() for _ in range(self._one((1, 1, 1, 2, 3))))

    def _option(self) -> str:
        random = self._random
        name = self._one(
            ("$filter", "$filter", "$expand", "$expand", "$select", "$top", "$skip", "only", "excerpt", "$x", "y")
        )
        match name:
            case "$filter":
                some = [random.choice(_CONDITIONS) for _ in range(self._one((1, 1, 2, 3)))]
                value = self._one((" and ", " or ", " and not ", "")).join(some)
            case "$expand":
                value = self._one((*_EXPANSIONS, *_EXPANSIONS, *_BAD_EXPANSIONS))
            case "$select":
                value = random.choice(_SELECTIONS)
            case "$top" | "$skip":
                value = random.choice(_COUNTS)
            case _:
                value = self._one(("", "", "", "1", "true"))
        if random.random() < 0.1:
            value = self._garbled(value)
        option = f"{name}={value}" if value or random.random() < 0.5 else name
        return option.encode("utf-8", "replace").decode("latin-1").replace("#", "%23").replace("+", "%2b")

    # header fields

    def _fields(self) -> dict[bytes, bytes]:
        random = self._random
        fields = {b"content-type": b"application/json"}
        if random.random() < 0.8:
            fields[b"authorization"] = self._admin
        else:
            fields |= self._credentials()
        if random.random() < 0.6:
            return fields
        for name, values in _OPTIONAL.items():
            if random.random() < 0.25:
                fields[name] = random.choice(values)
        if self.etags and random.random() < 0.3:
            fields[self._one((b"if-match", b"if-none-match"))] = random.choice(self.etags)
        return fields

    def _credentials(self) -> dict[bytes, bytes]:
        random = self._random
        if self.tokens and random.random() < 0.4:
            return {b"x-auth-token": random.choice(self.tokens)}
        user, password = random.choice(USERS), self._one((PASSWORD, PASSWORD, "wrong", "", "\u00e4:\u20ac"))
        odd = (
            b"",
            b"Basic",
            b"Basic ====",
            b"Basic " + b"QQ" * 9000,
            b"Bearer x",
            b"basic " + basic(user, password)[6:],
            basic("x" * 5000, "y"),
            b"Basic \xff\xff",
            b"Basic " + b"/w==",
        )
        if random.random() < 0.3:
            return self._one(
                ({b"authorization": random.choice(odd)}, {b"x-auth-token": b"x" * 5000}, {b"x-auth-token": b"\xff"})
            )
        return {b"authorization": basic(user, password)}

    # bodies

    def _body(self) -> bytes:
        if self._random.random() < 0.7:
            return self._random.choice(_RAW_BODIES)
        return orjson.dumps(self._value(4))

    def _value(self, depth: int) -> Any:
        random = self._random
        kind = random.randrange(8 if depth else 5)
        if kind >= 6:
            return {self._name(): self._value(depth - 1) for _ in range(random.randrange(4))}
        if kind == 5:
            return [self._value(depth - 1) for _ in range(self._one((0, 1, 2, 70 if depth == 1 else 3)))]
        if kind == 0:
            return self._one((None, True, False))
        return random.choice(_STRINGS if kind < 4 else _NUMBERS)

    def _name(self) -> str:
        node = self._random.choice(self._nodes)
        return self._one((*list(node.template)[:8], "Password", "UserName", "RoleId", "Id", "@odata.id", *_NAMES))

    def _changes(self, node: Node, *, spoilt: bool = True) -> bytes:
        random = self._random
        body: dict[str, Any] = {}
        names = list(node.writable)
        for name in random.sample(names, min(len(names), self._one((1, 1, 2, 3, 20)))):
            place = body
            *path, last = name.split(".")
            for step in path:
                below = place.setdefault(step, {})
                place = below if isinstance(below, dict) else place
            place[last] = self._writable_value(node, name, node.writable[name])
        if not names or random.random() < 0.2:
            body[self._name()] = self._value(2)
        if random.random() < 0.05:
            body["@Redfish.SettingsApplyTime"] = {"ApplyTime": self._one(("OnReset", "Immediate", "x", 1, None))}
        return self._spoilt(body) if spoilt else orjson.dumps(body)

    def _writable_value(self, node: Node, name: str, facts: WritableFacts) -> Any:
        random = self._random
        if random.random() < 0.2:
            return self._value(2)
        if facts.nullable and random.random() < 0.1:
            return None
        if facts.type == "attributes":
            return self._attributes(node, name, facts)
        if facts.type == "boolean":
            return random.random() < 0.5
        if facts.type in ("integer", "number"):
            ends = [end for end in (facts.min, facts.max) if end is not None]
            low, high = int(facts.min or 0), int(min(facts.max or 1000, 2**53))
            return self._one((*[int(end) for end in ends], random.randint(min(low, high), high), *_NUMBERS[:4]))
        values = facts.values if isinstance(facts.values, list) else _STRINGS
        if isinstance(facts.values, str):
            values = self._strings_at(node, facts.values)
        if facts.type == "objects":
            return [self._element(node, name, facts) for _ in range(self._one((0, 1, 2, 5, 65)))]
        if facts.type == "strings":
            return [random.choice(values or _STRINGS) for _ in range(self._one((0, 1, 2, 3, 64, 65)))]
        return random.choice(values or _STRINGS)

    def _element(self, node: Node, name: str, facts: WritableFacts) -> Any:
        """One of an array of objects; null and {} stand for those that are there."""
        if self._random.random() < 0.2:
            return self._one((None, {}, 1, {"": 1}))
        return {
            key: self._writable_value(node, f"{name}.{key}", own)
            for key, own in facts.properties.items()
            if own.required or self._random.random() < 0.7
        }

    def _strings_at(self, node: Node, place: str) -> list[str]:
        value: Any = self._client.bmc.template(node)
        for step in place.removeprefix("$").split("."):
            value = value.get(step, {}) if isinstance(value, dict) else {}
        return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []

    def _attributes(self, node: Node, name: str, facts: WritableFacts) -> Any:
        random = self._random
        table: Any = self._client.bmc.template(node).get(name)
        if not isinstance(table, dict):
            settings = node.settings
            of = self._client.bmc.tree.nodes.get(settings.of) if settings is not None else None
            table = of.template.get(name) if of is not None else {}
        present: dict[str, Any] = table if isinstance(table, dict) else {}
        chosen = random.sample(list(present), min(len(present), self._one((1, 2, 5))))
        return {
            key: random.choice(facts.choices[key])
            if facts.choices.get(key) and random.random() < 0.8
            else self._one((present[key], self._value(0)))
            for key in chosen
        }

    def _parameters(self, action: Action) -> bytes:
        random = self._random
        body = {
            name: self._parameter(facts)
            for name, facts in action.parameters.items()
            if facts.required or random.random() < 0.7
        }
        if random.random() < 0.05:
            body[self._name()] = self._value(1)
        if not body and random.random() < 0.5:
            return b""
        return self._spoilt(body)

    def _parameter(self, facts: ParameterFacts) -> Any:
        if self._random.random() < 0.15:
            return self._value(2)
        if facts.values:
            return self._random.choice(facts.values)
        match facts.type:
            case "boolean":
                return self._random.random() < 0.5
            case "integer" | "number":
                return self._random.choice(_NUMBERS)
            case "object":
                return self._given_object(facts)
            case "objects":
                return [self._given_object(facts) for _ in range(self._one((0, 1, 2)))]
            case "strings":
                return [self._random.choice(_STRINGS) for _ in range(self._one((0, 1, 3)))]
        return self._one((*_STRINGS, *self._uris()))

    def _given_object(self, facts: ParameterFacts) -> Any:
        given: dict[str, Any] = {
            name: self._parameter(own) for name, own in facts.properties.items() if self._random.random() < 0.8
        }
        return given or {self._name(): self._value(1)}

    def _uris(self) -> list[str]:
        return [self._random.choice(self._nodes).uri, *self.uris[-2:]]

    def _members_body(self, node: Node) -> bytes:
        random = self._random
        common: dict[str, Any] = {
            "UserName": self._one((*USERS, f"user{random.randrange(40)}")),
            "Password": self._one((PASSWORD, PASSWORD, "Other-2", "wrong", *_STRINGS[:3])),
            "RoleId": self._one(("Administrator", "Operator", "ReadOnly", "x")),
            "Enabled": random.random() < 0.8,
            "Locked": False,
            "Id": self._one(("Custom1", "Custom2", "Administrator", "", "a/b", "x" * 300)),
            "AssignedPrivileges": self._one((["Login"], ["Login", "ConfigureSelf"], [], ["x"], "Login")),
            "PasswordExpiration": self._one(("2027-01-01T00:00:00Z", None, "x", "0001-01-01T00:00:00Z")),
            "PasswordChangeRequired": self._one((True, False, None)),
        }
        if node.items not in ("accounts", "roles", "sessions"):
            common = {
                "Destination": self._one(
                    ("https://192.0.2.1/x", "http://[::1]:9/", "snmp://x", "ftp://x", "", "x" * 5000)
                ),
                "Protocol": self._one(("Redfish", "SNMPv2c", "x", 1)),
                "Context": self._one(("c", None, "x" * 300)),
                "EventFormatType": self._one(("Event", "MetricReport", "x")),
                "RegistryPrefixes": self._one(([], ["Base"], ["x"], "Base")),
                "HttpHeaders": self._one(([], [{"X-A": "b"}], [{"A\r\nB": "c"}], [{"A": "b\r\nC: d"}], [{}], [1])),
                "CertificateString": self._one(("-----BEGIN CERTIFICATE-----", "", "x" * 70_000, "\x00")),
                "CertificateType": self._one(("PEM", "PKCS7", "x")),
                **{
                    name: self._value(1)
                    for name in self._random.sample(list(node.template), min(2, len(node.template)))
                },
            }
            return self._spoilt({name: value for name, value in common.items() if self._random.random() < 0.6})
        names = ("UserName", "Password", "RoleId") if random.random() < 0.5 else tuple(common)
        if node.items == "sessions":
            names = ("UserName", "Password")
        body = {name: common[name] for name in names if random.random() < 0.85}
        if random.random() < 0.2:
            body[self._one((*node.template, "x"))] = self._value(2)
        return self._spoilt(body)

    def _rules(self) -> bytes:
        random = self._random
        some = [_rule(random, index, random.choice(self._nodes).uri) for index in range(random.randrange(4))]
        return self._spoilt(some if random.random() < 0.7 or not some else some[0])

    def _spoilt(self, value: Any) -> bytes:
        """JSON, most of the time as it should be."""
        body = orjson.dumps(value)
        random = self._random
        if random.random() > 0.08:
            return body
        at = random.randrange(len(body) + 1)
        return self._one((body[:at], body + body, body[:at] + b"\x00" + body[at:], body[:at] + b"\xff" + body[at:]))

    def _garbled(self, text: str) -> str:
        at = self._random.randrange(len(text) + 1)
        return (
            text[:at] + self._random.choice(("'", "(", ")", "/", "%", "\x7f", "\u00e9", "$", "@", ",", " ")) + text[at:]
        )

    def _one(self, choices: Any) -> Any:
        return self._random.choice(choices)


_OPTIONAL: dict[bytes, tuple[bytes, ...]] = {
    b"content-type": _MEDIA,
    b"accept": _ACCEPTED,
    b"accept-encoding": _CODINGS,
    b"if-match": _TAGS,
    b"if-none-match": _TAGS,
    b"odata-version": _VERSIONS,
}

_EFFECTS: tuple[Any, ...] = (
    {"Status": 503},
    {"Error": {"status": 400, "message": "GeneralError"}},
    {"Unauthorized": {}},
    "Close",
    {"Latency": {"mean": "10ms"}},
    "LostWrite",
    {"Headers": {"ETag": None, "X-Odd": "{} \u00e4"}},
    {"CloseAfter": {"bytes": 10}},
    {"Truncate": {"keep": 0.5}},
    {"Drip": {"bytes_per_second": 100_000_000}},
    {"JsonMerge": {"Name": None, "Status": {"Health": "Critical"}}},
    {"JsonRemove": ["/Members/0", "/@odata.id", "/Status"]},
    {"Replace": [1, "x"]},
    {"IgnorePowerOn": {"count": 2}},
    "IgnoreShutdown",
    {"UpdateFails": {"at_percent": 50}},
    {"SlowLogin": {"delay": "1s"}},
    {"LateJobs": {"delay": "1s"}},
    "MediaFails",
    {"Nonsense": {}},
)
_OF_THE_MACHINE = 13


def _rule(random: Random, index: int, uri: str) -> dict[str, Any]:
    """A fault rule, mostly of the right form."""
    chosen = random.randrange(len(_EFFECTS))
    rule: dict[str, Any] = {"id": f"r{index}", "action": _EFFECTS[chosen]}
    if chosen < _OF_THE_MACHINE:
        rule["selector"] = random.choice(({"OdataId": uri}, {"OdataId": "/redfish/v1/**"}, {"Path": {"glob": uri}}, {}))
    if random.random() < 0.3:
        rule["remaining"] = random.choice((1, 3, None, 0, -1))
    return rule
