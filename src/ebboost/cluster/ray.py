"""Workers of a Ray cluster: actors that live as long as a job."""

import os
from collections.abc import Callable
from typing import Any

from ebboost._common import check_number
from ebboost.cluster.communicator import Membership, start_tracker
from ebboost.cluster.engines import Engine, Progress, watch, without_parts
from ebboost.cluster.tables import Share, shares_of
from ebboost.cluster.worker import Task
from ebboost.learners.base import import_library


class Ray(Engine):
    """Actors on a Ray cluster, which ``ray.init(...)`` has connected to.

    Parameters
    ----------
    n_workers : int
        How many, up to one a part of the nodes.
    n_threads : int, default=1
        Processors that Ray reserves for each.
    """

    def __init__(self, n_workers: int, n_threads: int = 1) -> None:
        check_number("n_workers", n_workers, integer=True, low=1)
        check_number("n_threads", n_threads, integer=True, low=1)
        self.n_workers, self.n_threads = n_workers, n_threads

    def run(self, function: Callable[..., Any], task: Task) -> list[Any]:
        """Run the function in all actors; see :meth:`Engine.run`."""
        ray = import_library("ray", "engine=eb.cluster.Ray(...)", "ray")
        if not ray.is_initialized():
            raise RuntimeError("Ray is not connected: call ray.init() first.")
        if task.prepared.nodes.is_dask or task.prepared.edges.is_dask:
            raise TypeError(
                "Ray does not read Dask dataframes: write them to Parquet, prepare that."
            )
        available = ray.cluster_resources().get("CPU", 0.0)
        shares = shares_of(task.prepared, self.n_workers)
        if len(shares) * self.n_threads > available:
            wanted = f"{len(shares)} workers with {self.n_threads} processors each"
            raise ValueError(f"Ray has {available:g} processors, too few for {wanted}.")
        kind = ray.remote(num_cpus=self.n_threads, max_restarts=0)(Actor)
        actors = [kind.remote() for _ in shares]
        try:
            names = ray.get([one.name.remote() for one in actors])
            tracker = ray.get(actors[0].start.remote(len(actors)))
            own, secret = ray.put(without_parts(task)), os.urandom(16)
            references = [
                actor.call.remote(
                    function, own, share, Membership(rank, len(actors), tracker, secret),
                    self.n_threads,
                )
                for rank, (actor, share) in enumerate(zip(actors, shares, strict=True))
            ]  # fmt: skip
            watch(len(actors), lambda: self._look(ray, references, names))
            return ray.get(references)
        finally:
            for one in actors:
                ray.kill(one)

    def _look(self, ray: Any, references: list[Any], names: list[str]) -> Progress:
        done, waiting = ray.wait(references, num_returns=len(references), timeout=0)
        errors, lost = {}, []
        for one in done:
            name = names[references.index(one)]
            try:
                ray.get(one)
            except ray.exceptions.RayActorError:
                lost.append(name)
            except Exception as error:
                errors[name] = error
        return Progress(not (waiting or errors or lost), errors, lost)


class Actor:
    """A process of a job."""

    def name(self) -> str:
        """Return where it runs."""
        return f"{_host()}, process {os.getpid()}"

    def start(self, size: int) -> dict[str, Any]:
        """Start the tracker."""
        return start_tracker(size, _host())

    def call(
        self,
        function: Callable[..., Any],
        task: Task,
        share: Share,
        member: Membership,
        n_threads: int,
    ) -> Any:
        """Run the function."""
        with member.join(_host(), n_threads) as workers:
            return function(workers, task, share)


def _host() -> str:
    import ray

    return str(ray.util.get_node_ip_address())
