"""Which requests each era has, and what goes with them."""

from __future__ import annotations

from weft.upstreams.headers import MODERN

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
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

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
ASKED_OF = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""What a client must be able to do to be asked."""

PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION = f"{PREFIX}protocolVersion"
CLIENT_CAPABILITIES = f"{PREFIX}clientCapabilities"
CLIENT_INFO = f"{PREFIX}clientInfo"
LOG_LEVEL = f"{PREFIX}logLevel"
SERVER_INFO = f"{PREFIX}serverInfo"
SUBSCRIPTION_ID = f"{PREFIX}subscriptionId"
