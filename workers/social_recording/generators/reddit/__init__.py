"""Reddit: its API for those who have an app there, else an actor."""
