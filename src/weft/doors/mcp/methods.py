"""Which requests each era has, and what goes with them."""

from __future__ import annotations

from weft.upstreams import eras
from weft.upstreams.headers import MODERN

LEGACY = eras.LEGACY[::-1]
"""The versions with a handshake and sessions, newest first."""
VERSIONS = (MODERN, *LEGACY)

CALLS = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The requests that a modern client may be asked to send again, with input."""

SHARED = CALLS | {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "completion/complete"}
MODERN_METHODS = SHARED | {"server/discover", "subscriptions/listen"}
LEGACY_METHODS = SHARED | {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}

CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""The results that say how long, and for whom, they may be kept."""

OFFERED_BY = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
    "completion/complete": "completions",
}
"""The capability without which there is no such method."""

PREFIX = eras.RESERVED
PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO = eras.VERSION, eras.CAPABILITIES, eras.INFO
LOG_LEVEL, SERVER_INFO = eras.LOG_LEVEL, eras.SERVER_INFO
SUBSCRIPTION_ID = f"{PREFIX}subscriptionId"
