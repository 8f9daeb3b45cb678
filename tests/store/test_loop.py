"""The whole loop on an object store: nothing in it needs a local folder."""

from rl_assets.core.home import Home
from rl_assets.graph.lab import SCHEMAS
from rl_assets.store.objects import ObjectStore
from rl_assets.store.views import open_views
from tests.rooms import open_lab, train


def test_training_on_s3_gives_the_weights_of_a_local_store_and_can_be_replayed_and_queried(tmp_path, s3_url):
    local = train(open_lab(tmp_path / "local", 0))
    lab = open_lab(tmp_path / "remote", 0, s3_url)
    assert train(lab) == local
    again = open_lab(tmp_path / "elsewhere", 0, s3_url)
    assert train(again) == local
    assert again.tally.snapshot()["trials_run"] == again.tally.snapshot()["judge_calls"] == 0
    assert list(lab.store.list("claims/")) == list(lab.store.list("leases/")) == []
    home = Home(tmp_path / "third", s3_url)
    views = open_views(ObjectStore(home.store_url), home.cache, SCHEMAS)
    rows = views.execute("SELECT step, trials, mean_turns, mean_reward FROM steps ORDER BY step").fetchall()
    assert [row[:2] for row in rows] == [(step, 6) for step in range(3)]
    means, policy = local
    assert [row[2] for row in rows] == [mean.turns for mean in means]
    assert [round(row[3], 9) for row in rows] == [round(mean.reward, 9) for mean in means]
    assert views.execute("SELECT weights_digest FROM steps WHERE step = 2").fetchall() == [(policy,)]
    assert not (tmp_path / "remote" / "store").exists()
