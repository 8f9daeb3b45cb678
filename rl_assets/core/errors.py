"""Every error that rl_assets raises on purpose, each one line that says what, where, and what to do.

RlAssetsError
├── UsageError                what a person wrote is wrong: exit code 2, nothing was changed
│   └── ConfigError           a file or a field of it
├── InfrastructureError       the machinery failed, not the policy: an attempt, open to another go
│   ├── SandboxDied
│   └── DeadlineExceeded
└── Refused                   it could run and must not: exit code 1, with the way back
    ├── MissingInput          something upstream was never made
    └── UpdateRefused         training on this would be wrong
"""


class RlAssetsError(Exception):
    """The root of the tree."""


class UsageError(RlAssetsError):
    """What a person asked for cannot be done as they wrote it."""


class ConfigError(UsageError):
    """A settings file is wrong; the message names the file and the field."""


class InfrastructureError(RlAssetsError):
    """A machine, a process or a service failed. Says nothing about the policy, so it never becomes a reward."""


class SandboxDied(InfrastructureError):
    """The sandbox of a trial is gone."""


class DeadlineExceeded(InfrastructureError):
    """A trial did not end within its deadline."""


class Refused(RlAssetsError):
    """The work would go wrong and was not started; the message names the way back."""


class MissingInput(Refused):
    """Something that this needs was never made."""


class UpdateRefused(Refused):
    """An update must not be made from this batch."""
