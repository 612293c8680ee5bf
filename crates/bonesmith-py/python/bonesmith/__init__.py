"""Bonesmith turns mesh animations into skinned rigs: bones, sparse weights, bone animation.

>>> import bonesmith
>>> rig = bonesmith.fit(verts, faces, bones=24)     # verts: [F, N, 3]
>>> rig.save("walk.glb")
>>> rig.metrics
"""

from bonesmith._api import (
    add_bones,
    compact,
    compress,
    ddm,
    delta_mush,
    fit,
    load,
    load_animation,
    lod,
    reduce,
    refit,
    shapes,
    sweep,
)
from bonesmith._batch import Batch, batch
from bonesmith._compat import SkinningResult, solve
from bonesmith._errors import (
    BonesmithError,
    BonesmithWarning,
    Cancelled,
    DtypeError,
    FormatError,
    InputError,
    InternalError,
    MismatchError,
    ParameterError,
    ReportError,
    SolveError,
    UnsupportedError,
)
from bonesmith._files import load_rig
from bonesmith._measure import compare, evaluate
from bonesmith._models import Animation, Basis, Clip, CorrectiveRig, DdmRig, Metrics, Model, Rig, ShapeBones, TwoLayerRig, View
from bonesmith._native import __version__
from bonesmith._sweep import Sweep, SweepPoint

__all__ = [
    "Animation",
    "Basis",
    "Batch",
    "BonesmithError",
    "BonesmithWarning",
    "Cancelled",
    "Clip",
    "CorrectiveRig",
    "DdmRig",
    "DtypeError",
    "FormatError",
    "InputError",
    "InternalError",
    "Metrics",
    "MismatchError",
    "Model",
    "ParameterError",
    "ReportError",
    "Rig",
    "ShapeBones",
    "SkinningResult",
    "SolveError",
    "Sweep",
    "SweepPoint",
    "TwoLayerRig",
    "UnsupportedError",
    "View",
    "__version__",
    "add_bones",
    "batch",
    "compact",
    "compare",
    "compress",
    "ddm",
    "delta_mush",
    "evaluate",
    "fit",
    "load",
    "load_animation",
    "load_rig",
    "lod",
    "reduce",
    "refit",
    "shapes",
    "solve",
    "sweep",
]
