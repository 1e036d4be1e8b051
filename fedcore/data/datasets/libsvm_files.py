"""Files of the LIBSVM sets: sizes, checksums, licences. Facts only; ``libsvm.py`` loads them.

Checksums are of plain content: first of the bytes, then of the words row by row, which copies with other
line ends or trailing spaces share.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fedcore.data.download import Declaration, Edition, File, Form

HOST = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
FEATURES: Mapping[str, int] = MappingProxyType(
    {
        "a1a": 123,
        "svmguide1": 4,
        "splice": 60,
        "vehicle": 18,
        "dna": 180,
        "pendigits": 16,
        "satimage": 36,
        "usps": 256,
        "letter": 16,
    }
)
SEEN: Mapping[str, tuple[int, str, str]] = MappingProxyType(
    {
        "a1a": (
            114818,
            "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e",
            "740f16ebaee4597b2f8f5286686d77fc297b1ceb2f67ed9510362b7cf6101166",
        ),
        "a1a.t": (
            2214693,
            "b98244653c31ac5b151097866216831b962cb5a2857c91e8b276cdfcc4c44771",
            "d5ae97f9731698ccd9e42866c6b851d252edf217117d3ac018865a1914642935",
        ),
        "svmguide1": (
            192781,
            "6af4ac2c8dff259b69186ba7f04f6f11ba883f864a8203eb39dfd8361b92d380",
            "2b9ab55b6236f62cee6b7739b52f9e7cb033771f39b9c22c1f1790d80ef14d7f",
        ),
        "svmguide1.t": (
            249612,
            "f9c2fd4c725172aeb4476fc1e2327d537f7fbc2f53f49dfd073f80efbe1ba8f7",
            "f9c2fd4c725172aeb4476fc1e2327d537f7fbc2f53f49dfd073f80efbe1ba8f7",
        ),
        "splice": (
            294483,
            "049917a9fce002627c1ed334f6ae10193d83762d165881002c2e5ef6dea97d81",
            "2604e92095a6e27d828ac704d53b75e603bc2e3d42adba3777dfea039ae31b1d",
        ),
        "splice.t": (
            640494,
            "1040745e7eeadde550675efa7b85b62b18970e01d2b7956f8a08c5fa90102cfc",
            "462265a7a8b61328308df882a715aaf895c7aa13db2e11da707bb98898eab8ff",
        ),
        "vehicle.scale": (
            180523,
            "f5bcfc5545c0f674b372e8dc3e41752efa287d4e04cb920150c51cd9c3df7b86",
            "49874b5f05c556b30064dd361c7362f4609ae8219aed1d1fa406801468583377",
        ),
        "dna.scale": (
            499248,
            "03d39477c5e48415e9cd18e006efc8f7a3b5c3deaee8289a72511c35070e3cfe",
            "3a3770a061d739deb994f00a748b12d267422ff1f3af98068922e9177de107a9",
        ),
        "dna.scale.t": (
            293744,
            "d2eeed170e4e38ae2aba6aa4cd27a8ca4ecceb01a7751e8e509bb4e1a6bcef39",
            "7ba2fe272a9d4f14245f69b910708243c2bf7fe6304fd8b1a638ad2c4acf41e4",
        ),
        "pendigits": (
            589456,
            "f3823d204ed5a3e9088267b4e141aac32503b8f2eb18c3469ad1212235db5ee6",
            "6e8a2f318a24d97d26a9c381642621dc955fed73ec44c4d417bd7afbb47ed67c",
        ),
        "pendigits.t": (
            274928,
            "8a5f65e742447d6b6d77d4e0cf70714f75d2801966ebfe492d7ffaf24acd9d9f",
            "5ddb2f034e1c5ca8a47b8a7e78510f8a9d68015cf40a5031534c693fba9773d3",
        ),
        "satimage.scale": (
            1880204,
            "b7150252d3117712588d9d5dfeb1a409234340313a93b458f66449a2678d5542",
            "c1afc19406043a89db8aeb3d8bc8cb99c7a79bcc67c7d980830b3dfa0df44b0d",
        ),
        "satimage.scale.t": (
            847958,
            "c48114206b41c93888ce254b237e8437081500d2d6c78647459c509732495a68",
            "320b204d0e84718a90af1e4622e4e642ff414aaf606847db1cc19bb207e33bdd",
        ),
        "letter.scale": (
            2630396,
            "ce2c7df15cc5742dc4382d59079181c97c21e0beaa0af53c84cc5745c69f1020",
            "f013ad9d4c703bb7c075dff68c56f9790f6755a822dae54bd720a4eea27a9061",
        ),
        "letter.scale.t": (
            877223,
            "07522ccbf54187fae6d560d1712b88c41ea1f7e8d19491c5adcc22ee37a075da",
            "17b9ab4ced41dba5e171a125c008e5ff51787d6e2d6ea50397c4ae01955c1179",
        ),
    }
)
USPS_TEST = File(
    "libsvm/usps.t",
    "3839faa29aa5f6bfa0516cdd599fae8ad59b7a3777d09f7ca971d9f1cd8b6c6b",
    6850221,
    forms=(Form("usps.t.bz2", "md5:8ea070ee2aca1ac39742fdd1ef5ed118", (f"{HOST}/multiclass/usps.t.bz2",)),),
)
USPS_TRAIN = File(
    "libsvm/usps",
    forms=(Form("usps.bz2", "md5:ec16c51db3855ca6c91edd34d0e9b197", (f"{HOST}/multiclass/usps.bz2",)),),
)
USPS_REBUILT = File(
    "libsvm/usps.rebuilt",
    "39d6d5838d4476143de38cc67a8372990daf9a1a70f91cc0db67e20d4b626651",
    24913800,
    forms=(
        Form("usps.rebuilt.bz2", "sha256:a6e01f2026b3288ff7c4b3ccc41cf3421177353866a80ecc27ead7e70d6df3f0"),
    ),
)


def _known(kind: str, name: str) -> File:
    """A file whose content is known, from upstream or from copies that agree."""
    size, sha256, rows = SEEN[name]
    return File(f"libsvm/{name}", sha256, size, rows, (Form(name, urls=(f"{HOST}/{kind}/{name}",)),))


def _unseen(kind: str, name: str, rows: int) -> File:
    """Upstream's file where only a rebuilt copy of it is known: its rows are counted instead."""
    return File(f"libsvm/{name}", forms=(Form(name, urls=(f"{HOST}/{kind}/{name}",)),), rows=rows)


def _rebuilt(name: str) -> File:
    """A copy put together from other sources of the same data."""
    size, sha256, rows = SEEN[name]
    return File(f"libsvm/rebuilt/{name}", sha256, size, rows, (Form(f"libsvm/{name}"),))


def _declare(
    name: str,
    title: str,
    classes: int,
    papers: tuple[str, ...],
    licence: str,
    counts: tuple[int, int],
    demo: tuple[int, int],
    full: tuple[File, ...],
    rebuilt: tuple[File, ...] = (),
    how: str = "",
) -> Declaration:
    rows = {"train": counts[0], "test": counts[1]}
    few = {"train": demo[0], "test": demo[1]}
    share = f"{demo[0]:,} + {demo[1]:,} rows of {name}" if few != rows else name
    editions = {"full": Edition("real", name, full, rows)}
    if rebuilt:
        editions["rebuilt"] = Edition("rebuilt", f"{name}, {how}", rebuilt, rows)
    editions["demo"] = Edition("subset" if few != rows else "real", share, counts=few)
    return Declaration(
        name=name,
        title=title,
        papers=papers,
        citation="Chang, Lin: LIBSVM data, 2011",
        licence=licence,
        redistributable=True,
        shape=f"[{FEATURES[name]}]",
        classes=classes,
        editions=MappingProxyType(editions),
        upstream="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/",
    )


UCI = "UCI, CC BY 4.0"
BOTH = ("fedavgr", "fedomw")
DECLARATIONS = (
    _declare(
        "a1a",
        "Adult income, first of nine training samples",
        2,
        ("fedavgr",),
        UCI,
        (1605, 30956),
        (1605, 1000),
        (_known("binary", "a1a"), _known("binary", "a1a.t")),
    ),
    _declare(
        "svmguide1",
        "an astroparticle application",
        2,
        ("fedavgr",),
        "none stated upstream",
        (3089, 4000),
        (2000, 1000),
        (_known("binary", "svmguide1"), _known("binary", "svmguide1.t")),
    ),
    _declare(
        "splice",
        "splice junctions in DNA, four letters as numbers 1 to 4",
        2,
        ("fedavgr",),
        UCI,
        (1000, 2175),
        (1000, 1000),
        (_unseen("binary", "splice", 1000), _unseen("binary", "splice.t", 2175)),
        (_rebuilt("splice"), _rebuilt("splice.t")),
        "put together from its scaled copy and UCI's rows",
    ),
    _declare(
        "vehicle",
        "Statlog vehicle silhouettes",
        4,
        ("fedavgr",),
        "Statlog, UCI, CC BY 4.0",
        (500, 346),
        (500, 346),
        (_known("multiclass", "vehicle.scale"),),
    ),
    _declare(
        "dna",
        "Statlog DNA, splice junctions as 180 bits",
        3,
        BOTH,
        "Statlog, UCI, CC BY 4.0",
        (2000, 1186),
        (2000, 1186),
        (_known("multiclass", "dna.scale"), _known("multiclass", "dna.scale.t")),
    ),
    _declare(
        "pendigits",
        "pen-based digits",
        10,
        BOTH,
        UCI,
        (7494, 3498),
        (2000, 1000),
        (_known("multiclass", "pendigits"), _known("multiclass", "pendigits.t")),
    ),
    _declare(
        "satimage",
        "Statlog satellite images",
        6,
        BOTH,
        "Statlog, UCI, CC BY 4.0",
        (4435, 2000),
        (2000, 1000),
        (_known("multiclass", "satimage.scale"), _unseen("multiclass", "satimage.scale.t", 2000)),
        (_known("multiclass", "satimage.scale"), _rebuilt("satimage.scale.t")),
        "test rows of UCI's file scaled with the training ranges",
    ),
    _declare(
        "usps",
        "handwritten digits of the US Postal Service",
        10,
        BOTH,
        "none stated upstream",
        (7291, 2007),
        (1000, 500),
        (USPS_TRAIN, USPS_TEST),
        (USPS_REBUILT, USPS_TEST),
        "training rows smoothed anew from the ESL copy",
    ),
    _declare(
        "letter",
        "printed capital letters",
        26,
        ("fedomw",),
        UCI,
        (15000, 5000),
        (2600, 1300),
        (_known("multiclass", "letter.scale"), _known("multiclass", "letter.scale.t")),
    ),
)
