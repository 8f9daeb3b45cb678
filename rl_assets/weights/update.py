"""Updates: a step's batch applied to the weights, once, and recorded when the new weights are stored."""

import time

from rl_assets.core.model import Frozen
from rl_assets.core.tally import Tally
from rl_assets.store.bundles import load_bundle, save_bundle
from rl_assets.store.journal import Journal
from rl_assets.version import VERSION
from rl_assets.weights.trainer import WEIGHTS_KIND, Batch, Trainer, update_key

UPDATE_KIND = "update"


class Update(Frozen):
    """What an update did."""

    key: str
    base_digest: str
    weights_digest: str
    """Equal to `base_digest` when the batch had nothing to teach."""
    n_examples: int
    off_policy: bool
    """Whether trials were sampled from other weights than those updated."""
    behaviour: tuple[str, ...]
    """Digests of the policies that the trials were sampled from."""
    elapsed_s: float = 0.0
    version: str = ""


async def run_update(trainer: Trainer, base_digest: str, batch: Batch, journal: Journal, tally: Tally) -> Update:
    """The update of these weights by this batch: the recorded one, or made now.

    Raises:
        UpdateRefused: the trainer refuses the batch.
        MissingInput: the base weights are not in the store.
    """
    key = update_key(trainer, base_digest, batch)

    async def make() -> bytes:
        started = time.perf_counter()
        base = load_bundle(journal.store, WEIGHTS_KIND, base_digest)
        weights = trainer.update(base, batch)
        update = Update(
            key=key,
            base_digest=base_digest,
            weights_digest=save_bundle(journal.store, WEIGHTS_KIND, weights),
            n_examples=len(batch.examples),
            off_policy=any(digest != base_digest for digest in batch.behaviour),
            behaviour=batch.behaviour,
            elapsed_s=round(time.perf_counter() - started, 6),
            version=VERSION,
        )
        return update.model_dump_json().encode()

    recorded = await journal.once(UPDATE_KIND, key, make)
    (tally.updates_recovered if recorded.recovered else tally.updates_run).add(key)
    return Update.model_validate_json(recorded.data)
