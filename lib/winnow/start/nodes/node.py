"""A node whose log directories were given: its metadata log, its quorum, and its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.survey import LogDir, survey_as
from winnow.policy.describe import DescribedConfigs
from winnow.policy.server_properties import ZOOKEEPER
from winnow.policy.sources import Settings
from winnow.start.homes import Present, present_on
from winnow.start.metadata_choice import metadata_home
from winnow.start.metadata_log import own_metadata_log
from winnow.start.named import Named, named_places, with_kraft
from winnow.start.node_files import (
    MetaProblem,
    meta_problems,
    zookeeper_meta_problems,
    zookeeper_problem,
)
from winnow.start.nodes.quorum import MetadataStart, Quorum, quorum_at, with_quorum
from winnow.start.nodes.refused_settings import why_refused
from winnow.start.values import Fate, KnownTopics
from winnow.storage.contract import Storage


@dataclass(frozen=True, kw_only=True)
class Node:
    """What was given of one node: its log directories, and what its files say."""

    storage: Storage
    node_id: int | None
    log_dirs: Sequence[LogDir]
    settings: Settings
    now: int
    """Its clock, ms."""
    named: Named
    kraft: bool
    home: str | None
    """The log directory with its metadata log, None if it has none or that is unknown."""
    problem: str | None
    """Why it does not start with the metadata logs that it finds."""

    @classmethod
    def of(
        cls,
        storage: Storage,
        node_id: int | None,
        log_dirs: Sequence[LogDir],
        settings: Settings,
        now: int,
    ) -> Node:
        named = named_places(storage, settings, node_id, [d.path for d in log_dirs])
        kraft = with_kraft(log_dirs, settings.server_of(node_id))
        home, problem = metadata_home(storage, log_dirs, settings, named, kraft=kraft)
        return cls(
            storage=storage,
            node_id=node_id,
            log_dirs=log_dirs,
            settings=settings,
            now=now,
            named=named,
            kraft=kraft or home is not None,
            home=home,
            problem=problem,
        )

    @property
    def cluster_id(self) -> str | None:
        return self.log_dirs[0].meta.cluster_id

    @cached_property
    def quorum(self) -> Quorum:
        server = self.settings.server_of(self.node_id)
        ids = (one.meta.directory_id for one in self.log_dirs if one.path == self.home)
        directory = f"{self.home}/{METADATA_DIR}"
        return quorum_at(
            self.storage, directory, self.node_id, server, directory_id=next(ids, None)
        )

    @cached_property
    def own_metadata_log(self) -> MetadataStart | None:
        """None: it uses none, or does not come to read it."""
        if self.problem is not None or self.home is None:
            return None
        kafka = self.settings.kafka
        return own_metadata_log(self.storage, self.home, self.quorum, kafka=kafka, now=self.now)

    def others(self, nodes: Mapping[int | None, Node]) -> dict[int, Node]:
        """Return the other nodes of its cluster, by their ids."""
        return {
            node_id: node
            for node_id, node in nodes.items()
            if node_id is not None and node is not self and node.cluster_id == self.cluster_id
        }

    def start_of_metadata_log(self, others: Mapping[int, Node]) -> MetadataStart | None:
        """Return what a start does with it. `others`: the other nodes that were given."""
        own = self.own_metadata_log
        if own is None:
            return None
        logs = {
            node_id: found
            for node_id, node in others.items()
            if (found := node.own_metadata_log) is not None
        }
        return with_quorum(own, self.quorum.with_keys(own.voters), logs)

    def present(self, topics: KnownTopics) -> Present:
        """Return which partitions have a directory on it. `topics`: with the log directories of
        all nodes.
        """
        registered = () if self.node_id is None else topics.log_dirs.get(self.node_id, ())
        return present_on(self.storage, self.log_dirs, self.named, registered)


def refused_by(node: Node) -> tuple[list[MetaProblem], Sequence[LogDir]]:
    """Return why the broker refuses a log directory, or to start because of it, and the directories
    as it takes them: with ZooKeeper, it writes a `meta.properties` that is missing.
    """
    storage, log_dirs, kafka = node.storage, node.log_dirs, node.settings.kafka
    if node.kraft:
        given = [log_dir.path for log_dir in log_dirs]
        paths = [*given, *node.named.not_given(given)]
        problems = [*meta_problems(storage, paths, home=node.home)]
        return [*problems, *_refused_settings(node)], log_dirs
    read = [log_dir.path for log_dir in log_dirs if not log_dir.in_doubt]
    server = node.settings.server_of(node.node_id)
    told = server is not None and server.keeps_topics_in == ZOOKEEPER
    refused = [*zookeeper_meta_problems(storage, read, kafka, told=told), *_refused_settings(node)]
    taken = list[LogDir]()
    for log_dir in log_dirs:
        problem = None
        if log_dir.in_doubt:
            problem = zookeeper_problem(storage, log_dir.path, log_dir.error, kafka)
        refused += [] if problem is None else [problem]
        written = log_dir.in_doubt and problem is None
        taken.append(survey_as(storage, log_dir.path, log_dir.meta) if written else log_dir)
    return refused, taken


def _refused_settings(node: Node) -> Iterator[MetaProblem]:
    settings = node.settings
    own = DescribedConfigs() if settings.metadata is None else settings.metadata.configs
    setting = why_refused(settings.server_of(node.node_id), own, settings.kafka)
    if setting is not None:
        yield MetaProblem(node.log_dirs[0].path, Fate.STOPS, setting)
