"""Roles: the privileges that an account has by the role it is in (DSP0266 13.2)."""

import msgspec


class Role(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One role. privileges: AssignedPrivileges; oem: OemPrivileges."""

    id: str
    privileges: tuple[str, ...]
    oem: tuple[str, ...] = ()
    predefined: bool = False


ADMINISTRATOR = "Administrator"

PREDEFINED: dict[str, Role] = {
    role.id: role
    for role in (
        Role(
            ADMINISTRATOR,
            ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"),
            predefined=True,
        ),
        Role("Operator", ("Login", "ConfigureComponents", "ConfigureSelf"), predefined=True),
        Role("ReadOnly", ("Login", "ConfigureSelf"), predefined=True),
    )
}
"""Id -> the roles that every service has."""
