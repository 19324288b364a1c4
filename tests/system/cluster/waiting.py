"""Waits for events in another process."""
import time


def wait_until(condition, what, seconds=120):
    """Waits until condition() is true and returns its value. After `seconds`, fails with the text of what(). The limit
    leaves a margin for loaded machines."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what()}")
        time.sleep(0.05)
    return value
