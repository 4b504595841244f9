"""The worker without the step that gives waiting tasks back when it ends; for a twin."""

from workers.celery_app import app
from workers.worker_end import ReturnWaitingTasks

app.steps["worker"].discard(ReturnWaitingTasks)
