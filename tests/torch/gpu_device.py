# SPDX-License-Identifier: BSD-3-Clause
"""The device of tests on GPUs: CUDA's first GPU, or where none is, the stand-in for CUDA's driver that
TUTTI_CUDA_LIBRARY names, which is then a device of PyTorch's, too (standin_device.cpp)."""
from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import torch

from tutti.torch import _build

HERE = Path(__file__).resolve().parent
NAME = '_standin_device'

os.environ.setdefault('PYTORCH_NVML_BASED_CUDA_CHECK', '1')     # asking must not start CUDA: ranks are forked


class Cuda:
    """A GPU."""

    name = 'cuda'

    def close_gate(self):
        torch.cuda._sleep(200_000_000)      # cycles; there is nothing that opens

    def open_gate(self):
        pass


class Standin:
    """What stands in for one."""

    name = 'privateuseone'

    def __init__(self):
        module = _build._import(NAME, self._built(Path(os.environ['TUTTI_CUDA_LIBRARY'])))
        self.close_gate, self.open_gate, self.recorded = module.close_gate, module.open_gate, module.recorded
        asked = types.ModuleType(f'torch.{self.name}')      # by PyTorch, of any device
        asked._lazy_init = lambda: None
        asked._is_in_bad_fork = lambda: False
        asked.is_available = asked.is_initialized = lambda: True
        asked.device_count, asked.current_device = lambda: 1, lambda: 0
        torch._register_device_module(self.name, asked)

    @staticmethod
    def _built(driver):
        """Beside the stand-in, for the PyTorch that is there."""
        source = HERE / 'standin_device.cpp'
        path = driver.with_name(f'{NAME}-{torch.__version__}-{sys.implementation.cache_tag}.so')
        if path.exists() and path.stat().st_mtime > source.stat().st_mtime:
            return path
        command = _build._command(_build._library(), _build._compiler(), NAME, source)
        subprocess.run([*command, f'-I{HERE}/../../src/library',
                        str(driver), f'-Wl,-rpath,{driver.parent}', '-o', f'{path}.tmp'], check=True)
        os.replace(f'{path}.tmp', path)
        return path


def find():
    """The device, or None where there is neither."""
    if torch.cuda.is_available():
        return Cuda()
    return Standin() if 'TUTTI_CUDA_LIBRARY' in os.environ else None
