"""Statistics of compare.py: spreads of values, and ratios per round."""

import statistics


def quartiles(values):
    """Returns the (first, third) quartile of one or more values, interpolated between the sorted values."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def spread(values):
    """Returns median, quartiles, minimum and maximum of `values`, and the values in their order."""
    first, third = quartiles(values)
    return {
        "median": statistics.median(values),
        "q1": first,
        "q3": third,
        "min": min(values),
        "max": max(values),
        "samples": values,
    }


def paired_ratios(ours, theirs):
    """Returns the ratio ours / theirs of each round. A missing value is an error.

    The two programs of a round run within moments on the same machine, so a common slowdown cancels
    out. It would not in a ratio of medians, which may come from different rounds.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values against {len(theirs)}: expected one pair per round")
    return [our / their for our, their in zip(ours, theirs)]
