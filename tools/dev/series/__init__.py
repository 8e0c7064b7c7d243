# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""This tree as series of patches for Linux and for rdma-core: docs/upstream/README.md."""
