"""Workers of a Dask cluster."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ebboost.cluster.communicator import Membership, start_tracker
from ebboost.cluster.engines import NOTICE_SECONDS, Engine, Progress, watch, without_parts
from ebboost.cluster.tables import Share, shares_of
from ebboost.cluster.worker import Task


class Dask(Engine):
    """The workers of a Dask client: all that there are when a job begins, up to one a part."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, function: Callable[..., Any], task: Task) -> list[Any]:
        """Run the function in all workers; see :meth:`Engine.run`."""
        from distributed import MultiLock

        client = self.client
        workers = sorted(client.nthreads())
        if not workers:
            raise RuntimeError("The Dask cluster has no workers: start some, or wait for them.")
        shares = shares_of(task.prepared, len(workers))
        workers = workers[: len(shares)]
        # Two fits that each hold some of the workers would wait for each other.
        with MultiLock(workers, client):
            started = client.submit(_start, len(workers), workers=workers[0], pure=False)
            tracker, secret = started.result(), os.urandom(16)
            options = {"allow_other_workers": False, "pure": False}
            own = client.scatter(without_parts(task), broadcast=True, hash=False)
            futures = {}
            for rank, (worker, share) in enumerate(zip(workers, shares, strict=True)):
                # Partitions of dataframes become futures, which Dask replaces by what they hold.
                parts = [
                    client.compute(one, workers=[worker], allow_other_workers=False)
                    if hasattr(one[0], "dask")
                    else one
                    for one in (list(share.nodes), list(share.edges) or [None])
                ]
                outline = replace(share, nodes=(), edges=())
                member = Membership(rank, len(workers), tracker, secret)
                arguments = (function, own, outline, *parts, member)
                futures[worker] = client.submit(_call, *arguments, workers=[worker], **options)
            try:
                watch(len(futures), lambda: self._look(futures))
                return client.gather(list(futures.values()))
            except BaseException as error:
                if isinstance(error, Exception):
                    self._settle(futures)
                client.cancel(list(futures.values()))
                raise

    def _look(self, futures: Mapping[str, Any]) -> Progress:
        status = {worker: future.status for worker, future in futures.items()}
        errors = {one: futures[one].exception() for one in futures if status[one] == "error"}
        is_done = set(status.values()) == {"finished"}
        return Progress(is_done, errors, sorted(set(futures) - set(self.client.nthreads())))

    def _settle(self, futures: Mapping[str, Any]) -> None:
        """Wait until the other workers have noticed, so that they are free for another job."""
        deadline = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < deadline:
            alive = self.client.nthreads()
            running = [one for one, future in futures.items() if future.status == "pending"]
            if not any(worker in alive for worker in running):
                return
            time.sleep(0.05)


def _host() -> str:
    from distributed import get_worker
    from distributed.comm import get_address_host

    return str(get_address_host(get_worker().address))


def _start(size: int) -> dict[str, Any]:
    return start_tracker(size, _host())


def _call(
    function: Callable[..., Any],
    task: Task,
    share: Share,
    nodes: list[Any],
    edges: list[Any],
    member: Membership,
) -> Any:
    from distributed import get_worker

    share = replace(share, nodes=nodes, edges=[one for one in edges if one is not None])
    with member.join(_host(), get_worker().state.nthreads) as workers:
        return function(workers, task, share)
