"""The panel in the sidebar of the 3D view, and entries of menus."""

import bpy

from . import expectation, words
from .running import running


class Base:
    """Where all panels are."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "Bonesmith"


class BONESMITH_PT_main(Base, bpy.types.Panel):
    """Deformation to bones"""

    bl_label = "Deformation to Bones"

    def draw(self, context):
        layout, settings = self.layout, context.scene.bonesmith
        layout.use_property_split = True
        job = running()
        if job is not None:
            fraction = job.progress.fraction
            layout.progress(factor=fraction or 0.0, type="BAR" if fraction is not None else "RING", text=words.progress(job))
            layout.label(text="Esc cancels", icon="EVENT_ESC")
            return
        layout.prop(settings, "preset")
        row = layout.row(align=True)
        row.menu("BONESMITH_MT_presets")
        row.operator("bonesmith.preset_add", text="", icon="ADD")
        row.operator("bonesmith.preset_add", text="", icon="REMOVE").remove_active = True
        layout.prop(settings, "goal")
        if settings.goal == "COUNT":
            layout.prop(settings, "bones")
        elif settings.goal == "ERROR":
            layout.prop(settings, "target_error")
        layout.prop(settings, "effort")
        layout.prop(settings, "bone_kind")
        layout.prop(settings, "skeleton")
        layout.prop(settings, "influences")
        layout.prop(settings, "engine")
        box = layout.box().column(align=True)
        for line in expectation.lines(context):
            box.label(text=line)
        box.operator("bonesmith.estimate")
        layout.operator("bonesmith.deformation_to_bones", icon="ARMATURE_DATA")


class BONESMITH_PT_source(Base, bpy.types.Panel):
    """Objects and frames"""

    bl_label = "Objects and Frames"
    bl_parent_id = "BONESMITH_PT_main"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context):
        layout, settings = self.layout, context.scene.bonesmith
        layout.use_property_split = True
        layout.prop(settings, "source")
        if settings.source == "COLLECTION":
            layout.prop(settings, "collection")
        layout.prop(settings, "frames")
        if settings.frames == "CUSTOM":
            layout.prop(settings, "frame_start")
            layout.prop(settings, "frame_end")
        layout.prop(settings, "frame_step")
        layout.prop(settings, "rest")
        if settings.rest == "FRAME":
            layout.prop(settings, "rest_frame")
        layout.prop(settings, "original")


class BONESMITH_PT_advanced(Base, bpy.types.Panel):
    """Options that matter less often"""

    bl_label = "Advanced"
    bl_parent_id = "BONESMITH_PT_main"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context):
        layout, settings = self.layout, context.scene.bonesmith
        layout.use_property_split = True
        for name in ("smooth", "prune", "shading", "engine_normals", "largest", "area", "keep_rest", "shapes", "root_motion", "seed", "max_seconds"):
            layout.prop(settings, name)


class BONESMITH_PT_rigs(Base, bpy.types.Panel):
    """Rigs that are there already"""

    bl_label = "Existing Rigs"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context):
        layout, settings = self.layout, context.scene.bonesmith
        layout.use_property_split = True
        layout.prop(settings, "solve")
        layout.operator("bonesmith.refit", icon="MOD_ARMATURE")
        layout.separator()
        layout.prop(settings, "helpers")
        layout.operator("bonesmith.helper_bones", icon="BONE_DATA")
        layout.separator()
        layout.prop(settings, "reduce_to")
        layout.operator("bonesmith.reduce_influences", icon="MOD_VERTEX_WEIGHT")
        layout.separator()
        layout.prop(settings, "mush_bones")
        layout.prop(settings, "mush_rigid")
        layout.prop(settings, "mush_smooth")
        layout.operator("bonesmith.delta_mush_bake", icon="MOD_SMOOTH")


class BONESMITH_PT_measure(Base, bpy.types.Panel):
    """How good a result is"""

    bl_label = "Error"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context):
        layout, settings = self.layout, context.scene.bonesmith
        layout.use_property_split = True
        layout.prop(settings, "error_frames")
        layout.prop(settings, "error_limit")
        layout.operator("bonesmith.error_colours", icon="COLOR")
        layout.separator()
        layout.prop(settings, "report_path")
        layout.operator("bonesmith.report", icon="URL")


class BONESMITH_MT_object(bpy.types.Menu):
    """All of Bonesmith, in the Object menu"""

    bl_label = "Bonesmith"

    def draw(self, _context):
        for name in OPERATORS:
            self.layout.operator(f"bonesmith.{name}")


#: Operators of the menu, in its order.
OPERATORS = ("deformation_to_bones", "refit", "helper_bones", "reduce_influences", "delta_mush_bake", "error_colours", "report")

CLASSES = (BONESMITH_PT_main, BONESMITH_PT_source, BONESMITH_PT_advanced, BONESMITH_PT_rigs, BONESMITH_PT_measure, BONESMITH_MT_object)


def draw_menu(menu, _context):
    """The entry of the Object menu."""
    menu.layout.separator()
    menu.layout.menu("BONESMITH_MT_object", icon="ARMATURE_DATA")


def register():
    bpy.types.VIEW3D_MT_object.append(draw_menu)


def unregister():
    bpy.types.VIEW3D_MT_object.remove(draw_menu)
