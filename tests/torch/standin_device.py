# SPDX-License-Identifier: BSD-3-Clause
"""The device of tests on GPUs: CUDA's where there is a GPU, else the stand-in for its driver."""
from __future__ import annotations
