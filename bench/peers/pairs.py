"""The arithmetic of compare.py: spreads of values, and ratios taken round by round."""

import statistics


def quartiles(values):
    """(first, third) quartile of one value or more, interpolated between the sorted values."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def spread(values):
    """Median, quartiles, least and largest of `values`, with the values as they came."""
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
    """The ratio of each round, ours / theirs. A round in which one is missing is an error.

    The two programs of a round met the same machine a moment apart, so what slows both cancels;
    it does not in a ratio of two medians, which may be of different rounds.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values against {len(theirs)}: expected a pair a round")
    return [our / their for our, their in zip(ours, theirs)]
