"""Settings that all tiny checkpoints share."""
VOCABULARY = 61


def rope(kind="default", theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}
