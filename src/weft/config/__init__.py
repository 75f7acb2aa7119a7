"""weft.yaml: its settings as frozen models, read with every problem in one run, secrets only by reference."""

from weft.config.model import Config
from weft.config.read import load_config
from weft.config.secrets import Secret
from weft.config.server import Server

__all__ = ["Config", "Secret", "Server", "load_config"]
