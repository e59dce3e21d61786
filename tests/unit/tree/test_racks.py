"""Rack types."""

from collections import Counter
from pathlib import Path

import pytest

from bmcsim.tree import library, racks
from bmcsim.tree.source import ProfileError

NVL72 = "wiwynn_gb200_nvl72"


def test_an_nvl72_has_35_units_at_their_positions() -> None:
    elevation = racks.load(NVL72).elevation
    assert Counter(unit.profile for unit in elevation) == {
        "wiwynn_gb200_nvl": 18,
        "nvidia_switch_nd5200_ld": 9,
        "liteon_power_shelf": 8,
    }
    assert [unit.position for unit in elevation] == [*range(6, 10), *range(11, 38), *range(39, 43)]
    trays = {unit.position: unit.index for unit in elevation if unit.profile == "wiwynn_gb200_nvl"}
    assert (trays[11], trays[18], trays[28], trays[37]) == (0, 7, 8, 17)


def test_the_profile_id_is_what_nico_derives() -> None:
    type_ = racks.load(NVL72)
    assert type_.profile_id(shelves=True) == "GB200_NVL72R1_C2G4_WIWYNN"
    assert type_.profile_id(shelves=False) == "GB200_NVL72R1_C2G4_WIWYNN_NO_POWERSHELF"


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("[{positions: 6-9, profile: bluefield3}, {positions: 9, profile: b}]", "position 9 has a bluefield3 already"),
        ("[{positions: 9-6, profile: a}]", "must be like 6 or 6-9, from 1 to 60, not '9-6'"),
        ("[{positions: 60-61, profile: a}]", "must be like 6 or 6-9, from 1 to 60, not '60-61'"),
        ("[{positions: top, profile: a}]", "must be like 6 or 6-9, from 1 to 60, not 'top'"),
        ("[{positions: 0, profile: a}]", "must be like 6 or 6-9, from 1 to 60, not 0"),
        ("[{positions: 9, profile: a}]", "units.0.profile: no profile 'a'; there are: bluefield3, "),
        ("[]", "length >= 1"),
        ("[{position: 6, profile: a}]", "unknown field `position`"),
    ],
)
def test_a_wrong_type_names_the_place(
    units: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "racks").mkdir()
    (tmp_path / "racks" / "mine.yaml").write_text(f"title: T\ntopology: t\nvendor: v\nunits: {units}\n")
    monkeypatch.setattr(library, "directories", lambda: [tmp_path])
    with pytest.raises(ProfileError, match=r"mine\.yaml") as caught:
        racks.load.__wrapped__("mine")
    assert message in str(caught.value)


def test_an_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(ProfileError, match=NVL72):
        racks.load("../profiles/bluefield3")
