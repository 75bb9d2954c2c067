"""Which engines there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from spindle.errors import UsageError
from spindle.fleet.engine import Answers, Engine
from spindle.fleet.exchange import Terms
from spindle.fleet.options import RunOptions


class Chosen(msgspec.Struct, frozen=True):
    """The engine of a run."""

    make: Callable[[Answers], Engine]
    """It asks `Answers` before each model request."""
    nodes: int | None = None
    """How many machines it has; None: this one."""
    end_workers: Callable[[], None] = lambda: None
    """At once, before the process ends without waiting; for those who would not notice."""


def check_engine(options: RunOptions, *, allows_network: bool) -> None:
    """Raises UsageError where an engine cannot be used here; before anything else is started."""
    if options.engine != "ray":
        return
    from spindle.fleet.ray_engine import check_installed  # an extra

    check_installed()
    if allows_network:
        raise UsageError(
            "with --engine ray, tasks that reach the network also reach the ports of Ray on their node, where whoever "
            "has its token runs code; take the network from them, or say -c spindle.fleet.network_beside_ray=true"
        )


@contextmanager
def chosen_engine(options: RunOptions, terms: Terms, *, is_needed: bool) -> Iterator[Chosen]:
    """Open what the engine needs, and close it in the end. Raises UsageError or EngineFailed."""
    from spindle.fleet.driver_folder import DriverFolder  # only to run something

    folder = DriverFolder(terms.cache)
    try:
        if options.engine == "local" or not is_needed:
            from spindle.fleet.local_engine import LocalEngine  # one engine or the other

            yield Chosen(partial(LocalEngine, folder))
            return
        from spindle.fleet.ray_engine import RayCluster, RayEngine  # an extra

        if options.address is not None:
            cluster = RayCluster.join(options.address, os.environ, insecure=options.insecure_cluster)
        else:
            cluster = RayCluster.start(folder, os.environ)
        try:
            yield Chosen(partial(RayEngine, cluster, folder), len(cluster.nodes()), cluster.end_workers)
        finally:
            cluster.leave()
    finally:
        folder.remove()
