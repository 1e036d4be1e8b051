"""Do one run: prepare it, simulate, return its result."""

import json
import math
import os
import re
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcore import models
from fedcore.base import MIRROR, core_yaml
from fedcore.base.errors import BrokenContract, DamagedCheckpoint, DataError, SpecError, say, shown
from fedcore.base.files import canonical_json, digest, read_object, stamps
from fedcore.base.lazy import torch
from fedcore.base.options import differences
from fedcore.base.registry import Plugin, chosen, find
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Partition, Source, misfits
from fedcore.data.files import images_of
from fedcore.data.standardise import standardise_by_client
from fedcore.engines import choose
from fedcore.engines import problem as problems
from fedcore.execution import checkpoint, integrity, metrics
from fedcore.execution.integrity import CHECKPOINT, MODEL, PROVENANCE, SPEC, SUMMARY, TIMING, hashes, listed
from fedcore.execution.machine import limited_threads, usable_device, watched
from fedcore.execution.output import gathered, summarise, timing_of, write
from fedcore.execution.progress import Note, reporter
from fedcore.execution.result import Result
from fedcore.execution.simulation import simulate
from fedcore.execution.track import Send, tracking
from fedcore.partitions import build, file, joined
from fedcore.parts import Run, State
from fedcore.parts.pooled import Divergence
from fedcore.spec import Spec, parse


@dataclass(frozen=True)
class Settings:
    """How a run is executed: nothing that is part of its specification.

    Only ``device`` and ``threads`` can change its numbers, about as much as another kind of processor does:
    sums are then taken in another order. timing.json states both. One thread, on one kind of processor, gives
    the same bytes each time.

    Attributes:
        partition: a partition file made before, or None to make the partition now.
        source: where data come from.
        device: ``cpu``, ``cuda``, or ``auto``: a GPU if there is one.
        threads: threads of one run, 1 to ``MOST_THREADS``.
        resume: go on from a checkpoint in the output folder.
        save_model: write model.npz.
        checkpoint_seconds: least time between two checkpoints, more for large ones; 0 saves after each round.
        stall_seconds: longest time without a finished round, before the process ends itself; 0 for any.
        provenance: values of the caller's, such as a code hash, kept in provenance.json.
        force: replace another specification's result in the output folder, or write beside files of no run.
    """

    partition: Path | None = None
    source: Source = field(default_factory=Source)
    device: str = "auto"
    threads: int = 1
    resume: bool = True
    save_model: bool = False
    checkpoint_seconds: float = 30.0
    stall_seconds: float = 0.0
    provenance: Mapping[str, Any] | None = None
    force: bool = False

    def __post_init__(self) -> None:
        """Take text for the path of a partition too."""
        if self.partition is not None:
            object.__setattr__(self, "partition", Path(self.partition))


def run(
    spec: Spec | dict[str, Any],
    out: Path | str | None = None,
    settings: Settings | None = None,
    progress: Note | bool = True,
    track: Sequence[str] = (),
) -> Result:
    """Do one federated run.

    Args:
        spec: the specification, as plain values or parsed.
        out: folder for the run's files; None keeps everything in memory.
        settings: how to execute it; unless given, data also come from the mirror FEDCORE_MIRROR.
        progress: True draws a bar in a notebook or, on standard error, in a terminal; False draws nothing. A
            function is called after each measured round with (round, rounds, record).
        track: where measurements are sent too, such as ``tensorboard:DIR``; see docs/watch.md.

    Raises:
        SpecError: the specification or a setting is wrong, or does not fit the data, or ``out`` holds the
            result of another one, files of no run or one that is read, or ``track`` names no place. Nothing
            is written then, unless a plug-in's part returns something wrong in a later round.
        DataError: data or a package can't be had, data are damaged, or ``out`` is a file. Nothing is written.
        CheckpointError: ``out`` holds a checkpoint of another specification, data, partition or model file.
    """
    spec = spec if isinstance(spec, Spec) else parse(spec)
    settings = settings or Settings(source=Source(mirror=os.environ.get(MIRROR)))
    name = f"{Path(out or spec.algorithm.name).name}-{spec.sha256()[:8]}"
    with (
        reporter(spec.algorithm.name, spec.training.rounds, progress is not True, lines=False) as bar,
        tracking(track, name, spec.resolved()) as send,
    ):
        note = progress if callable(progress) else bar
        return execute(spec, None if out is None else Path(out), settings, note, send)


def execute(
    spec: Spec, folder: Path | None, settings: Settings, note: Note | None, send: Send = lambda row: None
) -> Result:
    """Do one run, as ``run`` does; ``note`` is called after each measured round, ``send`` with each row."""
    with limited_threads(settings.threads), watched(settings.stall_seconds) as alive:
        began = time.perf_counter()
        provenance = dict(settings.provenance or {})
        _refuse_provenance(provenance)
        if folder:
            _refuse_folder(folder, spec, settings)
        prepared, identity, notes = prepare(spec, settings)
        state = _first_state(prepared, folder, identity, settings)
        pause = settings.checkpoint_seconds
        save = folder and checkpoint.regularly(folder / CHECKPOINT, identity, pause, began)
        rounds: list[float] = []
        sent = 0
        for seconds in simulate(prepared, state):
            if seconds is not None:
                rounds.append(seconds)
            if note and state.history[-1]["round"] == state.round:
                note(state.round, spec.training.rounds, state.history[-1])
            for row in state.history[sent:]:
                send(row)
            sent = len(state.history)
            alive()
            if save:
                save(state)
        timing = timing_of(prepared, state.seconds + time.perf_counter() - began, rounds)
        clients = metrics.by_client(prepared, state) if spec.evaluation.clients else []
        if unscored := sum(math.isnan(row["test_accuracy"]) for row in clients):
            notes["clients_without_score"] = unscored
        summary = summarise(prepared, state, identity, notes)
        tables = gathered(prepared, state, "tables", "history", "clients")
        arrays = gathered(prepared, state, "arrays", "model", "checkpoint")
        buffers = {name: tensor.cpu().numpy() for name, tensor in prepared.problem.buffers.items()}
        model = prepared.problem.model.trainable.arrays(state.model) | buffers
        result = Result(spec.resolved(), state.history, summary, model, clients, tables, arrays, timing)
    if folder:
        write(folder, spec, result, settings.save_model, provenance)
    return result


def prepare(spec: Spec, settings: Settings) -> tuple[Run, dict[str, Any], dict[str, Any]]:
    """Return a run with all it needs, its identity (as a checkpoint must have it), and notes on its data."""
    device = usable_device(settings.device)
    streams = Streams(spec.seed, spec.repetition)
    dataset, data_hash, partition = _dealt(spec, settings)
    shape = models.Shape(
        inputs=dataset.train.x.shape[1:],
        classes=dataset.classes,
        vocabulary=dataset.vocabulary,
        embeddings=dataset.embeddings,
        source=settings.source,
        scaling=getattr(spec.data.options, "scaling", ""),
    )
    model = spec.model.build(shape)
    init, dtype = spec.model.options.init, getattr(torch, spec.dtype)
    start, buffers = models.initialise(model, init, streams.get("model"), dtype)
    buffers = {name: tensor.to(device) for name, tensor in buffers.items()}
    whole = problems.make(dataset, partition, model, start, buffers, device, spec.evaluation.tested_on)
    problem = problems.precompute_trunk(whole)
    metrics.check(spec, problem)
    divergence = (Divergence(),) if spec.evaluation.divergence else ()
    observers = (choice.build(spec) for _, choice in sorted(spec.evaluation.observe.items()))
    recipe = replace(spec.recipe, observers=(*divergence, *observers))
    engine = choose.select_engine(spec, problem)
    prepared = Run(spec, engine.problem, recipe, engine, streams, problems.local_steps(spec, problem))
    read = {MODEL: files} if (files := _files_of_model(spec)) else {}
    identity = {
        "provenance": dict(settings.provenance or {}),
        "spec": spec.resolved(),
        "data_sha256": data_hash,
        "partition_sha256": digest([rows.tolist() for rows in partition.clients]),
        **read,
    }
    notes = {"data_state": dataset.state, "data_note": dataset.note, "partition_note": partition.note, **read}
    if note := getattr(model, "note", ""):
        notes["model_note"] = note
    return prepared, identity, notes


def _dealt(spec: Spec, settings: Settings) -> tuple[Dataset, str, Partition]:
    """Return the data as the clients hold them, their hash as loaded, and the partition."""
    dataset, data_hash = load_data(canonical_json(spec.data.resolved()), settings.source)
    partition = _partition(spec, settings, dataset, data_hash)
    if partition.test is None and getattr(spec.data.options, "pool", False):
        raise SpecError("data.pool: true makes test rows training rows; give partition.fold or test")
    return _as_held(spec, dataset, partition), data_hash, partition


def _partition(spec: Spec, settings: Settings, dataset: Dataset, data_hash: str) -> Partition:
    """Make the partition, or read the one that was made before."""
    if settings.partition is None:
        return build.make(spec.partition.plugin, spec.partition.options, dataset, spec.seed)
    expected = file.identity(spec.partition.resolved(), spec.data.resolved(), spec.seed, data_hash)
    partition, origin = file.load(settings.partition)
    file.refuse_other(settings.partition, origin, expected)
    build.check(partition, len(dataset.train), str(settings.partition))
    return partition


def _as_held(spec: Spec, dataset: Dataset, partition: Partition) -> Dataset:
    """Standardise each client's inputs and add noise to them, where the data and the partition ask for it."""
    train, options = dataset.train, spec.partition.options
    if dataset.standardise_by_client:
        held = joined(rows for name, rows in partition.sets().items() if name != "dropped")
        if partition.test is None or not np.isin(held, joined(partition.held_out)).all():
            raise SpecError(
                "data.scaling: 'by_client' needs test, validation and selection rows that belong to clients; "
                "give partition.fold in place of shares"
            )
        train = replace(train, x=standardise_by_client(train.x, [*partition.clients, *partition.held_out]))
    if options.noise:
        streams = Streams(options.seed_or(spec.seed))
        train = replace(train, x=build.noisy(train.x, partition.clients, options.noise, streams))
    return replace(dataset, train=train)


def _files_of_model(spec: Spec) -> dict[str, str]:
    """Return the SHA-256 of each file that the model's options name, by its path; words are no paths."""
    options = {key: value for key, value in spec.model.values().items() if isinstance(value, str)}
    paths = {value for value in options.values() if Path(value).suffix} | {options["init"]}
    return hashes(sorted(paths - {"zeros", "default"}))


def load_data(section: str, source: Source) -> tuple[Dataset, str]:
    """Load the data of a specification's section (canonical JSON) and hash them.

    The last two are kept, until another plug-in has the name, or a file or folder that the section names, as
    a path of its own or below the data folder, has changed, or an image that its table names.
    """
    named = [folder / text for text in _texts(section) for folder in (Path(), source.root)]
    places = (*named, *images_of(json.loads(section)))
    plugin = find("data", json.loads(section)["name"])
    return _loaded(plugin, section, source, tuple(map(stamps, places)))


def _texts(section: str) -> list[str]:
    """Return the texts of a section as canonical JSON, some of which may be paths."""
    return sorted({json.loads(text) for text in re.findall(r'"(?:[^"\\]|\\.)+"', section)})


@lru_cache(maxsize=2)
def _loaded(plugin: Plugin, section: str, source: Source, files: Hashable) -> tuple[Dataset, str]:
    choice = chosen("data", json.loads(section))
    dataset: Dataset = choice.build(source)
    for wrong in misfits(dataset):
        raise BrokenContract(f"data '{choice.plugin.name}': {wrong}")
    return dataset, dataset.sha256()


def _refuse_provenance(provenance: dict[str, Any]) -> None:
    """Refuse keys that provenance.json has itself, and what JSON would not give back unchanged."""
    for key in integrity.KEYS & provenance.keys():
        raise SpecError(f"provenance: got the key '{key}', which {PROVENANCE} has itself; expected another")
    with suppress(TypeError, ValueError):
        if json.loads(canonical_json(provenance)) == provenance:
            return
    raise SpecError(f"provenance: got {shown(provenance)}, expected keys and values as JSON has them")


def _refuse_folder(folder: Path, spec: Spec, settings: Settings) -> None:
    """Refuse what is no folder, holds a file that the run reads, or, unless forced, another result."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise DataError(f"{folder}: cannot be a folder (something else is there)")
    _refuse_inputs(folder, spec, settings)
    if not settings.force:
        _refuse_another_result(folder, spec)


def _refuse_inputs(folder: Path, spec: Spec, settings: Settings) -> None:
    """Refuse to write where a file that the run reads would be replaced, or deleted with a former result."""
    written = {SPEC, SUMMARY, PROVENANCE, TIMING, integrity.HISTORY} | listed(folder)
    written |= {integrity.CLIENTS} if spec.evaluation.clients else set()
    written |= {integrity.PARAMETERS} if settings.save_model else set()
    refuse_inputs(folder, written, spec, *([settings.partition] if settings.partition else []))


def refuse_inputs(folder: Path, written: set[str], spec: Spec, *read: Path) -> None:
    """Refuse a folder where a file of the names ``written`` is ``read``, or named by the specification."""
    for path in [*map(Path, _texts(canonical_json(spec.resolved()))), *read]:
        ours = path.name in written and os.path.realpath(path.parent) == os.path.realpath(folder)
        if ours and path.is_file():
            raise SpecError(f"{path}: is read, and would be replaced; take another folder than {folder}")


def _refuse_another_result(folder: Path, spec: Spec) -> None:
    found = sorted(path.name for path in folder.glob("[!.]*"))
    if found and not {SPEC, CHECKPOINT, PROVENANCE, SUMMARY}.intersection(found):
        raise SpecError(f"{folder}: holds {shown(found[0])}, expected an empty folder or that of a run")
    if not (folder / PROVENANCE).is_file():
        return
    kind = "that can't be read"
    with suppress(OSError, ValueError, SpecError):
        sealed = read_object(folder / PROVENANCE).get("spec_sha256")
        if sealed == spec.sha256():
            return
        others = differences(core_yaml.read(folder / SPEC), spec.resolved())
        (key, there, here), *more = others or [("seal", sealed, spec.sha256())]
        kind = f"of another specification: {key} is {shown(there)} there, {shown(here)} here"
        kind += f" (and {len(more)} more)" if more else ""
    raise SpecError(
        f"{folder}: holds a result {kind}; take another folder or replace it: --force, in Python force=True"
    )


def _first_state(prepared: Run, folder: Path | None, identity: dict[str, Any], settings: Settings) -> State:
    """Return the state to go on from; a damaged checkpoint is not used, and standard error says so."""
    start, state = prepared.problem.start, None
    if folder and settings.resume and (folder / CHECKPOINT).exists():
        try:
            state = checkpoint.load(folder / CHECKPOINT, identity, start.device)
        except DamagedCheckpoint as error:
            say(f"{error}; starting anew", error=True)
    return state or State(round=0, models=start.clone().unsqueeze(0))
