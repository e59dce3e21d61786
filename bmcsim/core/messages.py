"""The Message object that answers, tasks and logs of a Redfish service share."""

from collections.abc import Sequence
from typing import Any


def message_object(id_: str, text: str, args: Sequence[str], severity: str, resolution: str) -> dict[str, Any]:
    """A Message (DSP0266 9.5.11). id_: with its registry. text: with its arguments filled in."""
    return {
        "@odata.type": "#Message.v1_2_1.Message",
        "MessageId": id_,
        "Message": text,
        "MessageArgs": list(args),
        "MessageSeverity": severity,
        "Resolution": resolution,
    }
