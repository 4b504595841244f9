"""Celery's settings: values only. Addresses come from `workers.settings`."""

from datetime import timedelta

from celery.schedules import crontab
from kombu import Queue

task_serializer = result_serializer = "json"
accept_content = result_accept_content = ["json"]
timezone = "UTC"
enable_utc = True

# Early acknowledgement: the next run repairs what a crash left, so nothing depends on redelivery.
task_acks_late = False
worker_prefetch_multiplier = 1
task_ignore_result = True
# A second delivery of a failed job would replace its stored error by "started"; the record knows the start.
task_track_started = False
result_extended = True
result_expires = timedelta(days=7)

task_create_missing_queues = False
task_queues = [Queue("jobs"), Queue("records")]
task_default_queue = "records"
task_routes = {
    "converge.social_recording.reconcile": {"queue": "jobs"},
    "converge.social_recording.retry": {"queue": "jobs"},
    "converge.social_recording.record_token": {"queue": "records"},
    "converge.social_recording.retry_url": {"queue": "records"},
    "converge.social_recording.record_live_token": {"queue": "records"},
    "converge.schedule.retry_sweep": {"queue": "jobs"},
    "converge.solana_backfill.backfill": {"queue": "jobs"},
    "converge.funding.reconcile": {"queue": "jobs"},
    "converge.funding.reconcile_property": {"queue": "records"},
    "converge.schedule.funding_reconciliation": {"queue": "jobs"},
}

broker_transport_options = {
    "visibility_timeout": 900,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "unacked_restore_limit": 100,
    "socket_timeout": 10,
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "global_keyprefix": "converge:",
    "client_name": "converge-worker",
    "priority_steps": list(range(10)),
    "sep": ":",
    "queue_order_strategy": "priority",
}
worker_consumer = "workers.celery_parts:SparingConsumer"
broker_connection_retry_on_startup = True
broker_connection_max_retries = None
broker_channel_error_retry = True
broker_connection_timeout = 3
broker_pool_acquire_timeout = 5
task_publish_retry_policy = {"max_retries": 5, "interval_start": 0, "interval_step": 0.5, "interval_max": 2}
worker_cancel_long_running_tasks_on_connection_loss = False

result_backend_always_retry = True
result_backend_max_retries = 120
result_backend_transport_options = {
    "global_keyprefix": "converge:",
    "retry_policy": {"max_retries": 60, "interval_start": 0, "interval_step": 0.5, "interval_max": 2},
    "additional_connection_errors": [
        "redis.exceptions.ReadOnlyError",
        "redis.exceptions.OutOfMemoryError",
    ],
}
redis_socket_timeout = 10
redis_socket_connect_timeout = 3
redis_socket_keepalive = True
redis_backend_health_check_interval = 25

# Flower lives on events. A job sends no event for each member that it hands out: the worker that takes the
# member up sends its own a moment later, and the hand-out is what limits how fast a job gets going.
worker_send_task_events = True
task_send_sent_event = False
worker_hijack_root_logger = False

# Becomes `beat_schedule` where the schedule is on (prod, or SCHEDULE_ENABLED).
SCHEDULE = {
    "retry-sweep": {
        "task": "converge.schedule.retry_sweep",
        "schedule": crontab(minute=7),
        "options": {"expires": 3300},
    },
    "funding-counter-reconciliation": {
        "task": "converge.schedule.funding_reconciliation",
        "schedule": crontab(hour=2, minute=30),
        "options": {"expires": 3300},
    },
    # The same night's second and third try, each only when the one before left something to do.
    "funding-counter-reconciliation-again": {
        "task": "converge.schedule.funding_reconciliation",
        "schedule": crontab(hour=2, minute="36,42"),
        "options": {"expires": 300},
    },
}
beat_cron_starting_deadline = 3600
beat_max_loop_interval = 30
