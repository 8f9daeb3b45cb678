"""The version of rl_assets, recorded beside what it makes."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("rl_assets")
except PackageNotFoundError:
    VERSION = "unknown"
