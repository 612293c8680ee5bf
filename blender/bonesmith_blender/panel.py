"""The panel in the sidebar of the 3D view, and entries of menus."""

import bpy

from . import words
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
        for name in ("smooth", "prune", "shading", "largest", "area", "keep_rest", "shapes", "seed", "max_seconds"):
            layout.prop(settings, name)


CLASSES = (BONESMITH_PT_main, BONESMITH_PT_source, BONESMITH_PT_advanced)


def draw_menu(menu, _context):
    """Entries of the Object menu."""
    menu.layout.separator()
    menu.layout.operator("bonesmith.deformation_to_bones", icon="ARMATURE_DATA")


def register():
    bpy.types.VIEW3D_MT_object.append(draw_menu)


def unregister():
    bpy.types.VIEW3D_MT_object.remove(draw_menu)
