# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of the tree as modules, so that tests can call their functions."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

from labkit import paths


def program(path):
    """A Python program, with or without a suffix; path: in the tree."""
    name = path.replace("/", "_").replace("-", "_").removesuffix(".py")
    loader = SourceFileLoader(name, str(paths.REPO / path))
    module = module_from_spec(spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
