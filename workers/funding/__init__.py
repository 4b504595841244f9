"""The counters of bricks sold: how they are kept, and how they are brought back to the truth."""
