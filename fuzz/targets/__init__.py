"""All targets by name."""

from fuzz.targets import avro, batches, codecs, files, foreign, manifests, metadata, segments, texts
from fuzz.targets.base import Target

TARGETS: dict[str, Target] = {
    **avro.TARGETS,
    **batches.TARGETS,
    **codecs.TARGETS,
    **files.TARGETS,
    **foreign.TARGETS,
    **manifests.TARGETS,
    **metadata.TARGETS,
    **segments.TARGETS,
    **texts.TARGETS,
}
