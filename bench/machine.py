# SPDX-License-Identifier: BSD-3-Clause
"""What programs that compare share of the machine: its own figures, and what stands for runs that differ."""

MACHINE = {'line': 'the way of a line from one core to another',
           'switch': 'the time in which a core goes from one process to another by sched_yield()'}


def lower_quartile(values):
    """By the nearest rank. Some machines pass lines between cores in one of two ways from run to run:
    the median of a few runs then shows the draw."""
    return sorted(values)[(len(values) + 3) // 4 - 1]
