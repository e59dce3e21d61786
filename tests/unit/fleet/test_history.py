"""The incidents of a fleet are bounded, for each BMC and for all."""

from bmcsim.fleet.history import History, incident, is_incident, refusal
from bmcsim.machine.history import Presented
from bmcsim.redfish.exchange import DROP, Delivery, Head, Request, Response
from tests.conftest import PASSWORD, basic, make_client


def test_of_each_bmc_the_latest_are_kept() -> None:
    history, bmc = History(per_bmc=3), make_client("bluefield3").bmc
    for wall in range(5):
        history.note(bmc, refusal(float(wall), ""))
    assert [one.wall for one in history.of(bmc)] == [2, 3, 4]
    assert (len(history), history.errors(bmc)) == (3, 5)


def test_of_all_the_oldest_make_room() -> None:
    history = History(per_bmc=3, most=4)
    first, second, third = [make_client("bluefield3", index=index).bmc for index in range(3)]
    for wall, bmc in enumerate((first, first, second, first, second, third, third)):
        history.note(bmc, refusal(float(wall), ""))
    assert len(history) == 4
    assert [[one.wall for one in history.of(bmc)] for bmc in (first, second, third)] == [[], [2, 4], [5, 6]]
    assert history.errors(first) == 3
    history.forget(second)
    assert (len(history), history.errors(second), list(history.of(second))) == (2, 0, [])


def test_what_went_well_is_no_incident() -> None:
    assert not any(is_incident(Response(status, b"")) for status in (200, 201, 204, 304))
    assert all(is_incident(Response(status, b"")) for status in (400, 401, 404, 500, 503))
    assert is_incident(Response(200, b"", faults=("slow",)))
    assert is_incident(Response(200, b"", delivery=Delivery(delay=1)))


def test_an_incident_has_no_query_and_bounded_texts() -> None:
    client = make_client("dell_poweredge_r750")
    head = Head(authorization=basic("u" * 100, PASSWORD))
    request = Request("GET", "/" + "p" * 1000, client.clock.now(), head, "token=secret")
    seen = incident(client.bmc, request, Response(503, b"", delivery=DROP, faults=("gone",)), "192.0.2.7")
    assert (len(seen.path), seen.status, seen.outcome) == (512, 0, "dropped")
    assert (seen.presented, seen.client, seen.faults) == (
        Presented("basic", "u" * 64, "unknown"),
        "192.0.2.7",
        ("gone",),
    )


def test_a_change_of_the_password_was_asked_for_with_the_one_before_it() -> None:
    client = make_client("dell_poweredge_r750")
    account = client.bmc.accounts.accounts[0]
    request = Request("PATCH", "/x", client.clock.now(), Head(authorization=basic(account.user, PASSWORD)))
    client.bmc.set_password(account.id, "Another-1", client.clock.now())
    assert incident(client.bmc, request, Response(500, b""), "").presented.generation == "current"
    client.bmc.committed()
    assert incident(client.bmc, request, Response(401, b""), "").presented.generation == "previous"


def test_who_wants_to_know_hears_of_new_errors() -> None:
    history, bmc = History(), make_client("bluefield3").bmc
    history.fresh = set()
    history.note(bmc, refusal(0.0, ""))
    assert history.fresh == {bmc.id}
