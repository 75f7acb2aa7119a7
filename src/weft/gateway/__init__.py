"""The gateway: what is served under which name, and what happens when it is asked for; no wire format."""
