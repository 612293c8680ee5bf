"""Bonesmith in Blender: deforming objects become armatures with weights and actions. The work is done by the library in `wheels`."""

import bpy

from . import expectation, fitting, measuring, panel, rigging, settings

MODULES = (settings,)
CLASSES = fitting.CLASSES + expectation.CLASSES + rigging.CLASSES + measuring.CLASSES + panel.CLASSES


def register():
    """Called by Blender."""
    for module in MODULES:
        module.register()
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    panel.register()


def unregister():
    """Called by Blender."""
    panel.unregister()
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
    for module in reversed(MODULES):
        module.unregister()
