"""The lab: everything an experiment does, without Dagster. The assets are thin calls of these methods."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from filelock import FileLock

from rl_assets.core.digest import digest, short
from rl_assets.core.errors import ConfigError, UpdateRefused
from rl_assets.core.home import Home
from rl_assets.core.tally import Tally
from rl_assets.graph.experiment import Experiment
from rl_assets.graph.lineage import UNPARTITIONED, Lineage, step_key, version_key
from rl_assets.rewards import table as rewards_table
from rl_assets.rewards.judge import build_judge
from rl_assets.rewards.rubric import Rubric
from rl_assets.rewards.scoring import Reward, Scorer
from rl_assets.sandbox.memory import MemorySandboxes
from rl_assets.store.bundles import load_bundle, save_bundle
from rl_assets.store.journal import Journal
from rl_assets.store.objects import ObjectStore
from rl_assets.store.tables import TableRef, current_version, read_table, write_table
from rl_assets.trajectories import table as trials_table
from rl_assets.trajectories.rollout import Rollout, run_trials
from rl_assets.trajectories.trial import TRIAL_KIND, Trial, TrialSpec
from rl_assets.weights import table as updates_table
from rl_assets.weights.bandit import load_priors
from rl_assets.weights.trainer import WEIGHTS_KIND, build_batch
from rl_assets.weights.update import Update, run_update
from rl_assets.worlds.documents import ANSWER_FILE
from rl_assets.worlds.world import VERIFIER_KIND, WORLD_KIND, World

SCHEMAS = {"trajectories": trials_table.SCHEMA, "rewards": rewards_table.SCHEMA, "weights": updates_table.SCHEMA}
"""The columns of each table."""

Landed = Callable[[Trial], None]
"""Told of each trial that has ended, for progress bars."""


class Lab:
    """One experiment at work in one process."""

    def __init__(self, experiment: Experiment, home: Home, tally: Tally | None = None, on_trial: Landed | None = None) -> None:
        self.experiment = experiment
        self.home = home
        self.tally = tally or Tally()
        self.on_trial = on_trial
        self.retry_failed = False
        """Whether trials and verdicts that failed before get another go."""
        self._scored_under: object = None
        self._scored: dict[str, Reward] = {}
        """What was scored as its trial ended, for the scoring of the whole step that follows."""
        worlds = experiment.settings.worlds
        self.lineage = Lineage(experiment.settings.steps, tuple(worlds.names), worlds.per_step)

    @cached_property
    def store(self) -> ObjectStore:
        """Opened when first needed."""
        return ObjectStore(self.home.store_url, self.home.store_sync)

    @cached_property
    def journal(self) -> Journal:
        """Opened when first needed."""
        return Journal(self.store)

    @cached_property
    def lock(self) -> FileLock:
        """Held by whoever works on the experiment on this machine; freed by the system when its holder dies."""
        self.home.locks.mkdir(parents=True, exist_ok=True)
        return FileLock(self.home.locks / f"{self.experiment.name}.lock", thread_local=False)

    def close(self) -> None:
        """Give the lease back, if one was taken."""
        if "journal" in self.__dict__:
            self.journal.close()

    def table(self, asset: str, step: int) -> TableRef:
        """Names the table of an asset's step."""
        return TableRef(self.experiment.name, asset, step_key(step))

    def found(self) -> dict[str, dict[str, str]]:
        """Data versions of what is observed, as the files and the store have it now: rubric, verifiers, policy.

        Raises:
            ConfigError: a file is not right.
        """
        policy = {version_key(0): self.initial_policy()}
        for step in range(self.lineage.steps):
            version = current_version(self.store, self.table("weights", step))
            if version is not None:
                policy[version_key(step + 1)] = version.data_version
        verifiers = {name: world.verifier_digest for name, world in self.worlds().items()}
        return {"rubric": {UNPARTITIONED: self.keep_rubric().digest}, "verifiers": verifiers, "policy": policy}

    def worlds(self, names: Sequence[str] | None = None) -> dict[str, World]:
        """Worlds (all by default) as their sources are now."""
        return {name: self.experiment.world(name) for name in names or self.lineage.world_names}

    def initial_policy(self) -> str:
        """The digest of the policy before any update, which is put into the store."""
        return save_bundle(self.store, WEIGHTS_KIND, self.experiment.trainer().initial())

    def keep_rubric(self) -> Rubric:
        """The rubric as it is on disk now; a copy goes to the store, to tell changes by."""
        rubric = self.experiment.rubric()
        path = _rubric_path(rubric.digest)
        if self.store.get(path) is None:
            self.store.put_new(path, rubric.model_dump_json().encode())
        return rubric

    def rubric_kept(self, digest: str) -> Rubric | None:
        """A rubric that was in use once."""
        data = self.store.get(_rubric_path(digest))
        return None if data is None else Rubric.model_validate_json(data)

    def seal_world(self, name: str) -> World:
        """Build a world and keep what an agent sees of it, under its digest."""
        self.journal.owner.start()
        world = self.experiment.world(name)
        save_bundle(self.store, WORLD_KIND, world.agent_files)
        return world

    def sample(self, step: int, worlds: Mapping[str, str], policy: str) -> tuple[str, list[Trial]]:
        """Run a step's trials and keep them; each is judged as soon as it ends, so that scoring waits for no straggler.

        Args:
            step: the training step.
            worlds: the digests of the worlds to use, by name.
            policy: the digest of the weights to sample from.

        Returns:
            The data version, and the trials in canonical order.
        """
        self.journal.owner.start()
        settings = self.experiment.settings
        agent = self.experiment.agent()
        specs = [
            TrialSpec(
                world=name,
                world_digest=worlds[name],
                policy_digest=policy,
                agent=agent.identity,
                seed=settings.seed,
                step=step,
                sample=sample,
            )
            for name in sorted(worlds)
            for sample in range(settings.rollouts.samples)
        ]
        rollout = Rollout(
            agent=agent,
            priors=load_priors(load_bundle(self.store, WEIGHTS_KIND, policy)),
            worlds={name: load_bundle(self.store, WORLD_KIND, digest) for name, digest in worlds.items()},
            sandboxes=MemorySandboxes(),
            journal=self.journal,
            settings=settings.rollouts,
            tally=self.tally,
            faults=settings.faults,
            retry_failed=self.retry_failed,
        )

        self._scored_under = None

        async def run() -> list[Trial]:
            scorer = self._early_scorer(sorted(worlds))

            async def landed(trial: Trial) -> None:
                if scorer is not None:
                    await scorer.score(trial)
                if self.on_trial is not None:
                    self.on_trial(trial)

            return await run_trials(rollout, specs, landed)

        trials = asyncio.run(run())
        version = trials_table.data_version(trials)
        write_table(self.store, self.table("trajectories", step), version, trials_table.to_table(trials, ANSWER_FILE))
        return version, trials

    def trials(self, step: int, version: str) -> list[Trial]:
        """The trials of a step, by data version; MissingInput when the store does not have it."""
        return trials_table.from_table(read_table(self.store, self.table("trajectories", step), version))

    def rewards(self, step: int, version: str) -> list[Reward]:
        """The rewards of a step, by data version; MissingInput when the store does not have it."""
        return rewards_table.from_table(read_table(self.store, self.table("rewards", step), version))

    def score(
        self, step: int, trials: Sequence[Trial], rubric: Rubric, worlds: Mapping[str, World]
    ) -> tuple[str, list[Reward]]:
        """Score a step's trials and keep the rewards; verdicts that are recorded are not asked for again.

        Args:
            step: the training step.
            trials: its trials.
            rubric: what they are scored on.
            worlds: their worlds, for the verifiers.

        Returns:
            The data version, and the rewards in the order of the trials.
        """
        self.journal.owner.start()

        async def run() -> list[Reward]:
            return await self._scorer(rubric, worlds).score_all(trials)

        rewards = asyncio.run(run())
        version = rewards_table.data_version(rewards, rubric.digest)
        write_table(self.store, self.table("rewards", step), version, rewards_table.to_table(rewards, rubric.digest))
        return version, rewards

    def _early_scorer(self, names: Sequence[str]) -> Scorer | None:
        """Scores trials as they end; None when the rubric or a verifier is not right, which is for rewards to say."""
        try:
            return self._scorer(self.keep_rubric(), self.worlds(names))
        except ConfigError:
            return None

    def _scorer(self, rubric: Rubric, worlds: Mapping[str, World]) -> Scorer:
        verifiers = {
            name: (world.verifier_files, save_bundle(self.store, VERIFIER_KIND, world.verifier_files))
            for name, world in worlds.items()
        }
        scored_under = (rubric, tuple(sorted((name, digest) for name, (_, digest) in verifiers.items())))
        if self._scored_under != scored_under:
            self._scored_under, self._scored = scored_under, {}
        settings = self.experiment.settings
        return Scorer(
            rubric=rubric,
            judge=build_judge(rubric.judge, settings.judging.latency_s),
            verifiers=verifiers,
            journal=self.journal,
            tally=self.tally,
            settings=settings.judging,
            faults=settings.faults,
            retry_failed=self.retry_failed,
            known=self._scored,
        )

    def learn(self, step: int, rewards: Sequence[Reward], policy: str, rubric_digest: str) -> Update:
        """Update the policy by a step's rewards and keep the new weights.

        Raises:
            UpdateRefused: the trainer, or the experiment's faults, refuse.
        """
        self.journal.owner.start()
        if step in self.experiment.settings.faults.refused_updates:
            raise UpdateRefused(f"the update of step {step_key(step)} refused (injected)")

        async def run() -> Update:
            keys = [reward.trial_key for reward in rewards if reward.reward is not None]
            records = [await self.journal.get(TRIAL_KIND, key) for key in keys]
            trials = [Trial.model_validate_json(record) for record in records if record is not None]
            return await run_update(self.experiment.trainer(), policy, build_batch(trials, rewards), self.journal, self.tally)

        update = asyncio.run(run())
        table = updates_table.to_table(update, rubric_digest)
        file = digest("update table", 1, [update.key, rubric_digest, update.behaviour])
        write_table(self.store, self.table("weights", step), update.weights_digest, table, file)
        return update


def _rubric_path(digest: str) -> str:
    return f"rubrics/{digest}.json"


def describe_rubric_change(old: Rubric | None, new: Rubric | None) -> str:
    """What changed from one rubric to another, by criterion, in one line."""
    if old is None or new is None:
        return "the rubric changed"
    before = {criterion.name: criterion for criterion in old.criteria}
    after = {criterion.name: criterion for criterion in new.criteria}
    changes = [f"{name} is new" for name in after if name not in before]
    changes += [f"{name} is gone" for name in before if name not in after]
    for name in before.keys() & after.keys():
        was, now = before[name].model_dump(), after[name].model_dump()
        fields = [field for field in was if was[field] != now[field]]
        if fields == ["weight"]:
            changes.append(f"{name}: weight {was['weight']:g} to {now['weight']:g}")
        elif fields:
            changes.append(f"{name}: {', '.join(fields)}")
    if old.judge != new.judge:
        changes.append("the judge")
    what = "; ".join(sorted(changes)) or f"{short(old.digest)} to {short(new.digest)}"
    return f"the rubric changed ({what})"
