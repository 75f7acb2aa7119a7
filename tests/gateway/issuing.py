"""An issuer of tokens with real keys, whose key set is served over real HTTP and can break."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "https://gateway.example/mcp"


class Issuer:
    """Signs tokens; an ASGI application that serves its key set."""

    def __init__(self) -> None:
        self.private: dict[str, tuple[Any, str]] = {}
        self.status = 200
        self.asked = 0
        self.add("ec-1", ec.generate_private_key(ec.SECP256R1()), "ES256")

    def add(self, kid: str, key: Any, algorithm: str) -> None:
        """Have one more key."""
        self.private[kid] = (key, algorithm)

    def add_all(self) -> None:
        """Have a key of each kind."""
        self.add("rsa-1", rsa.generate_private_key(65537, 2048), "RS256")
        self.add("ed-1", ed25519.Ed25519PrivateKey.generate(), "EdDSA")

    def key_set(self) -> bytes:
        """Return the public keys."""
        writers: dict[str, Any] = {"ES256": ECAlgorithm, "RS256": RSAAlgorithm, "EdDSA": OKPAlgorithm}
        keys = [
            {**json.loads(writers[algorithm].to_jwk(key.public_key())), "kid": kid, "use": "sig"}
            for kid, (key, algorithm) in self.private.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, kid: str = "ec-1", /, *, headers: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that holds, with these claims changed; None leaves a claim out."""
        key, algorithm = self.private[kid]
        return jwt.encode(claims_with(**claims), key, algorithm, headers={"kid": kid, **(headers or {})})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.asked += 1
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.key_set()})


def claims_with(**changed: Any) -> dict[str, Any]:
    """Return the claims of a good token, with some changed."""
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "exp": now + 300,
        "nbf": now,
        "agent_name": "research-agent",
        "agent_version": "2.1.0",
        "scope": "read write",
    }
    claims |= changed
    return {name: value for name, value in claims.items() if value is not None}
