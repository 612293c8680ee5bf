"""Operators that run a job: modal with progress in the status bar where there is a window, else from beginning to end."""

import bpy

from . import words
from .jobs import Control, Job

#: Seconds between two steps of a modal operator.
INTERVAL = 0.02

#: Events that turn the view, which goes on meanwhile.
NAVIGATION = {"MIDDLEMOUSE", "WHEELUPMOUSE", "WHEELDOWNMOUSE", "TRACKPADPAN", "TRACKPADZOOM", "MOUSEROTATE", "NDOF_MOTION", "MOUSEMOVE", "INBETWEEN_MOUSEMOVE"}

#: The job that runs, of all operators: one at a time.
_running = []


def running():
    """The job that runs, or `None`."""
    return _running[-1] if _running else None


class JobOperator:
    """Base of operators that run a job. A subclass has `work`, a generator that returns a message."""

    def work(self, context, control):
        """A generator for a `Job`; returns the text that is shown at the end."""
        raise NotImplementedError

    @classmethod
    def poll(cls, context):
        if running() is not None:
            cls.poll_message_set("Another job of Bonesmith runs")
            return False
        if context.mode != "OBJECT":
            cls.poll_message_set("Only in object mode")
            return False
        return True

    def execute(self, context):
        """From beginning to end."""
        job = self._begin(context)
        job.finish()
        return self._end(job)

    def invoke(self, context, _event):
        """Step by step, while the interface lives."""
        if bpy.app.background or context.window is None:
            return self.execute(context)
        self._job = self._begin(context)
        manager = context.window_manager
        self._timer = manager.event_timer_add(INTERVAL, window=context.window)
        manager.modal_handler_add(self)
        context.workspace.status_text_set(draw_status)
        return {"RUNNING_MODAL"}

    def modal(self, context, event):
        """One step at each tick of the timer; Esc cancels."""
        if event.type == "ESC" and event.value == "PRESS":
            self._job.cancel()
        elif event.type != "TIMER":
            return {"PASS_THROUGH"} if event.type in NAVIGATION else {"RUNNING_MODAL"}
        if not self._job.step():
            _redraw(context)
            return {"RUNNING_MODAL"}
        context.window_manager.event_timer_remove(self._timer)
        context.workspace.status_text_set(None)
        _redraw(context)
        return self._end(self._job)

    def cancel(self, context):
        """Called by Blender when another file is opened or the window is closed meanwhile."""
        self._job.abandon()
        _running.clear()
        context.window_manager.event_timer_remove(self._timer)

    def _begin(self, context):
        control = Control()
        job = Job(self.bl_label, self.work(context, control), control)
        _running.append(job)
        return job

    def _end(self, job):
        _running.clear()
        last.update(job=job)
        if job.state == "done":
            self.report({"INFO"}, job.result)
            return {"FINISHED"}
        if job.state == "cancelled":
            self.report({"WARNING"}, f"{job.title}: cancelled")
            return {"CANCELLED"}
        self.report({"ERROR"}, words.problem(job.problem))
        return {"CANCELLED"}


#: The last job that ended, for tests and for those who look into a problem.
last = {"job": None}


def draw_status(header, context):
    """The status bar while a job runs."""
    job = running()
    if job is None:
        return
    row = header.layout.row()
    fraction = job.progress.fraction
    row.progress(factor=fraction or 0.0, type="BAR" if fraction is not None else "RING", text=words.progress(job))
    row.label(text="", icon="EVENT_ESC")
    row.label(text="Cancel")


def _redraw(context):
    """The status bar, and the panels that show progress."""
    context.workspace.status_text_set(draw_status if running() and running().state == "running" else None)
    for area in context.screen.areas if context.screen else ():
        if area.type == "VIEW_3D":
            area.tag_redraw()
