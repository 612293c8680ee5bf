"""Settings of the scene, presets, and preferences. Options have the meaning that they have in the library."""

import bpy
from bl_operators.presets import AddPresetBase
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

#: Values that a preset sets; the rest stays as it is.
PRESETS = {
    "GAME": {"goal": "AUTO", "bone_kind": "rigid", "skeleton": False, "influences": 4, "smooth": 0.0, "shapes": 0},
    "FEW": {"goal": "COUNT", "bones": 20, "bone_kind": "rigid", "skeleton": False, "influences": 4, "smooth": 0.0, "shapes": 0},
    "CLOSE": {"goal": "COUNT", "bones": 100, "bone_kind": "trs", "skeleton": False, "influences": 8, "smooth": 0.0, "shapes": 0},
    "CHARACTER": {"goal": "AUTO", "bone_kind": "rigid", "skeleton": True, "influences": 4, "smooth": 0.0, "shapes": 0},
}

PRESET_ITEMS = [
    ("CUSTOM", "Custom", "Settings of your own"),
    ("GAME", "Game object", "As many rigid bones as the motion needs, 4 influences"),
    ("FEW", "Few bones", "20 rigid bones, 4 influences: crowds, background"),
    ("CLOSE", "Close-up", "100 bones with scale, 8 influences"),
    ("CHARACTER", "Character", "A skeleton: a tree of bones that turn about joints"),
]

#: Influences that an engine evaluates without a change of its settings: docs/engines.md has the sources.
ENGINES = {"ANY": None, "GODOT": 8, "THREE": 4, "UNITY": 4, "UNREAL": 8}

ENGINE_ITEMS = [
    ("ANY", "Any", "No limit but the number of influences below"),
    ("GODOT", "Godot", "Up to 8 influences"),
    ("THREE", "three.js", "4 influences"),
    ("UNITY", "Unity", "4 influences"),
    ("UNREAL", "Unreal", "Up to 8 influences"),
]

EFFORTS = [
    ("fast", "Fast", "Least work"),
    ("balanced", "Balanced", "The default of the library"),
    ("best", "Best", "Several times the work for a lower error"),
]


def _preset_chosen(settings, _context):
    for name, value in PRESETS.get(settings.preset, {}).items():
        setattr(settings, name, value)


def _engine_chosen(settings, _context):
    limit = ENGINES[settings.engine]
    if limit is not None:
        settings.influences = min(settings.influences, limit)


class Settings(bpy.types.PropertyGroup):
    """Settings of a scene."""

    preset: EnumProperty(name="Preset", items=PRESET_ITEMS, default="CUSTOM", update=_preset_chosen)
    engine: EnumProperty(name="Engine", description="The engine that plays the result: limits the influences", items=ENGINE_ITEMS, default="ANY", update=_engine_chosen)

    goal: EnumProperty(
        name="Bones",
        description="What decides the number of bones",
        items=[
            ("AUTO", "Automatic", "Enough for an E_RMS of 2 thousandths of the model's radius, at most 100"),
            ("COUNT", "Number", "A number of your own"),
            ("ERROR", "Error", "The fewest bones that stay below an error"),
        ],
        default="AUTO",
    )
    bones: IntProperty(name="Number", description="Number of bones", default=30, min=1, soft_max=200, max=16384)
    target_error: FloatProperty(
        name="Error", description="Root mean square distance that the result may be away from the original", default=0.002, min=1e-9, subtype="DISTANCE", precision=4
    )
    effort: EnumProperty(name="Quality", description="Amount of work: more of it finds lower errors", items=EFFORTS, default="balanced")
    bone_kind: EnumProperty(
        name="Kind",
        description="What bones may do",
        items=[
            ("rigid", "Rigid", "Rotation and location: every engine plays it"),
            ("trs", "With scale", "Rotation, location and scale along the bone's axes"),
            ("affine", "Affine", "Any matrix: made of two nested bones each where it shears"),
        ],
        default="rigid",
    )
    skeleton: BoolProperty(name="Skeleton", description="A tree of bones that turn about joints, instead of free bones", default=False)
    influences: IntProperty(name="Influences", description="Maximum number of bones per vertex", default=4, min=1, max=16)

    smooth: FloatProperty(name="Smooth weights", description="Smoothness of the weights, 0 (off) to about 1", default=0.0, min=0.0, soft_max=1.0)
    prune: FloatProperty(name="Prune", description="Share by which the error may rise for fewer influences", default=0.005, min=0.0, max=1.0, precision=3)
    shading: FloatProperty(name="Shading", description="How much the normals count that engines compute; 0: positions only", default=0.4, min=0.0, soft_max=1.0)
    engine_normals: BoolProperty(
        name="Normals for engines",
        description="Store the rest normals that engines shade best with as custom normals, for an export. Blender turns custom normals with the faces: its own shading may show spots",
        default=False,
    )
    largest: BoolProperty(name="Largest error", description="Lower the largest error in place of the mean of squares", default=False)
    area: BoolProperty(name="By area", description="Vertices count by the area of their faces", default=False)
    keep_rest: BoolProperty(name="Keep rest pose", description="Leave the rest pose unchanged; otherwise its vertices move to where they fit best", default=False)
    shapes: IntProperty(name="Corrective shapes", description="Shape keys that correct what the bones leave (EigenSkin)", default=0, min=0, max=256)
    root_motion: EnumProperty(
        name="Root motion",
        description="Put the common motion of the model into one root bone",
        items=[
            ("none", "None", "No root bone"),
            ("plane", "On the ground", "Translation in the ground plane and rotation about the vertical"),
            ("full", "Full", "All of the common motion"),
        ],
        default="none",
    )
    seed: IntProperty(name="Seed", description="Seed of all random choices", default=0, min=0)
    max_seconds: FloatProperty(name="Time limit", description="Stop the fit after this many seconds with the present result; 0: no limit", default=0.0, min=0.0, subtype="TIME_ABSOLUTE")

    source: EnumProperty(
        name="Objects",
        items=[("SELECTED", "Selected", "The selected objects"), ("COLLECTION", "Collection", "All objects of a collection that have a surface, hidden ones too")],
        default="SELECTED",
    )
    collection: PointerProperty(name="Collection", type=bpy.types.Collection)
    frames: EnumProperty(name="Frames", items=[("SCENE", "Scene", "The frame range of the scene"), ("CUSTOM", "Custom", "A range of your own")], default="SCENE")
    frame_start: IntProperty(name="Start", default=1)
    frame_end: IntProperty(name="End", default=250)
    frame_step: IntProperty(name="Step", description="Read every n-th frame; simulations are played through all", default=1, min=1)
    rest: EnumProperty(name="Rest pose", items=[("FIRST", "First frame", "The first frame of the range"), ("FRAME", "Frame", "A frame of the range")], default="FIRST")
    rest_frame: IntProperty(name="Rest frame", default=1)
    original: EnumProperty(
        name="Original",
        items=[
            ("HIDE", "Hide", "Hide the original objects in viewports and renders"),
            ("KEEP", "Keep", "Leave the original objects as they are"),
            ("BESIDE", "Beside", "Leave the original objects; the result stands beside them along X"),
        ],
        default="HIDE",
    )

    solve: EnumProperty(
        name="Solve",
        description="What is fitted to the target",
        items=[("weights", "Weights", "The weights; bones move as they do"), ("motion", "Motion", "The motion of the bones"), ("both", "Both", "Weights and motion")],
        default="weights",
    )
    helpers: IntProperty(name="Helper bones", description="Bones to add where the error is largest", default=4, min=1, max=256)
    reduce_to: IntProperty(name="Influences", description="Maximum number of bones per vertex afterwards", default=4, min=1, max=16)
    mush_bones: IntProperty(name="Virtual bones", description="Bones of the baked armature", default=60, min=2, max=1024)
    mush_rigid: BoolProperty(name="Rigid bind", description="Bind each vertex to the bone of its largest weight first: the smoothing does the rest", default=False)
    mush_smooth: FloatProperty(name="Smoothing", description="How far rotations are smoothed; 0: chosen from the size of the model", default=0.0, min=0.0)
    error_frames: EnumProperty(name="Error", items=[("WORST", "Worst", "The largest error of each vertex in all frames"), ("CURRENT", "Current frame", "The error in the current frame")], default="WORST")
    error_limit: FloatProperty(name="Full colour", description="Distance that has the last colour; 0: a hundredth of the model's radius", default=0.0, min=0.0, subtype="DISTANCE", precision=4)
    report_path: StringProperty(name="Report", description="File of the report; empty: a temporary file", default="", subtype="FILE_PATH")

    #: What a sample gave, as JSON: see `expectation`.
    estimate: StringProperty(default="", options={"HIDDEN", "SKIP_SAVE"})

    def fit_options(self):
        """Options of the library's `fit`."""
        limit = ENGINES[self.engine]
        options = {
            "influences": self.influences if limit is None else min(self.influences, limit),
            "bone_kind": self.bone_kind,
            "smooth": self.smooth,
            "prune": self.prune,
            "shading": self.shading,
            "norm": "max" if self.largest else 2.0,
            "area": self.area,
            "keep_rest": self.keep_rest,
            "effort": self.effort,
            "seed": self.seed,
        }
        if self.goal == "COUNT":
            options["bones"] = self.bones
        elif self.goal == "ERROR":
            options["target_error"] = f"{self.target_error!r}u"
        if self.skeleton:
            options["skeleton"] = True
        if self.max_seconds > 0:
            options["max_seconds"] = self.max_seconds
        if self.root_motion != "none":
            options.update(root_motion=self.root_motion, up="z")
        if self.shapes > 0:
            options["eigenskin"] = self.shapes
        return options


def frames_of(scene):
    """The frames to read."""
    settings = scene.bonesmith
    start, end = (scene.frame_start, scene.frame_end) if settings.frames == "SCENE" else (settings.frame_start, settings.frame_end)
    return list(range(start, end + 1, settings.frame_step))


class Preferences(bpy.types.AddonPreferences):
    """Preferences of the user."""

    bl_idname = __package__

    threads: IntProperty(name="Threads", description="Threads of the fit; 0: all cores", default=0, min=0, max=1024)
    effort: EnumProperty(name="Default quality", description="Quality of new scenes", items=EFFORTS, default="balanced")

    def draw(self, _context):
        self.layout.prop(self, "threads")
        self.layout.prop(self, "effort")
        self.layout.label(text="Bonesmith uses no network.")


def preferences(context):
    """Preferences of the user; defaults where the extension is not installed as one."""
    addon = context.preferences.addons.get(__package__)
    return addon.preferences if addon is not None else None


def threads(context):
    """Threads of the library; `None`: all cores."""
    chosen = preferences(context)
    return chosen.threads or None if chosen is not None else None


@bpy.app.handlers.persistent
def _new_scene_defaults(*_):
    """New files start with the user's quality; files that were saved with settings keep theirs."""
    chosen = preferences(bpy.context)
    if chosen is None or chosen.effort == "balanced":
        return
    for scene in bpy.data.scenes:
        if not scene.bonesmith.is_property_set("effort"):
            scene.bonesmith.effort = chosen.effort


class BONESMITH_OT_preset_add(AddPresetBase, bpy.types.Operator):
    """Save the settings as a preset of your own, or remove one"""

    bl_idname = "bonesmith.preset_add"
    bl_label = "Add Preset"
    preset_menu = "BONESMITH_MT_presets"
    preset_subdir = "bonesmith"
    preset_defines = ["settings = bpy.context.scene.bonesmith"]
    preset_values = [
        f"settings.{name}"
        for name in (
            "engine goal bones target_error effort bone_kind skeleton influences smooth prune shading engine_normals largest area keep_rest shapes root_motion seed max_seconds original"
        ).split()
    ]


class BONESMITH_MT_presets(bpy.types.Menu):
    """Presets of the user"""

    bl_label = "Own Presets"
    preset_subdir = "bonesmith"
    preset_operator = "script.execute_preset"
    draw = bpy.types.Menu.draw_preset


CLASSES = (Settings, Preferences, BONESMITH_OT_preset_add, BONESMITH_MT_presets)


def register():
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.types.Scene.bonesmith = PointerProperty(type=Settings)
    bpy.app.handlers.load_post.append(_new_scene_defaults)


def unregister():
    bpy.app.handlers.load_post.remove(_new_scene_defaults)
    del bpy.types.Scene.bonesmith
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
