"""Waiting for what happens in another process."""
import time


def wait_until(condition, what, seconds=120):
    """What the condition returned; what() is told where it does not come. seconds is a ceiling for machines under load."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what()}")
        time.sleep(0.05)
    return value
