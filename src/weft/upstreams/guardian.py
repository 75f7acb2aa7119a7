"""Kills what a child leaves running when the gateway itself is gone without a word."""

from __future__ import annotations

import subprocess

# The end of input is the death of the gateway, whatever killed it: no signal handler could promise that. It is not
# PR_SET_PDEATHSIG because Python can only set that in preexec_fn, which may deadlock among threads, and because that
# signal reaches the child alone, not its group, and comes already when the thread that started the child ends.
_SCRIPT = 'read -r _; kill -s TERM -- "-$1"; sleep 1; kill -s KILL -- "-$1"'


class Guardian:
    """A process of a few hundred KB that waits for the end of the gateway, to end one process group."""

    def __init__(self, group: int) -> None:
        """Start it.

        Raises:
            OSError: there is no /bin/sh; then only the end of its stdin tells a child that the gateway is gone.
        """
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "weft-guardian", str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End it; the group is gone, and its number may soon be another's."""
        # Killed before its input ends: it must not take that for the end of the gateway.
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
